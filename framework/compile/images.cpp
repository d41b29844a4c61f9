// Which outputs of a Plan hold each image's numbers apart from other images', in one piece, so that the Plan may be
// given fewer images.
//
// The elements of a value are numbered in row-major order, whatever its shape. A value keeps images apart if, for some
// number `inner`, its element e depends on image e / inner % batch alone. That number is all that has to be known, even
// where views and moves have put the images elsewhere than in front. An operation that is not known to keep images
// apart is taken to mix them.

#include <algorithm>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/all_problems.h"
#include "lamina/kernel/rules/extents.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/ops/counts.h"

namespace lamina::detail {
namespace {

/// In place of `inner`: no element depends on an image; elements depend on several images.
constexpr std::int64_t same = 0, mixed = -1;

std::int64_t count(const Shape& shape, int first) {
  const auto rank = static_cast<int>(shape.rank());
  return extent_product(shape, std::min(first, rank), rank);
}

class ImagesApart : Dataflow {
 public:
  ImagesApart(Program& program, const CompileOptions& options)
      : Dataflow(program, options), batch_(options.batch), inner_(program.values.size(), same) {}

  void find() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const int input = program_.inputs[i];
      if (program_.input_batched[i]) inner_[index(input)] = count(shape(input), 1);
    }
    for (const Operation& op : program_.operations) inner_[index(op.output)] = of(op);
    for (std::size_t i = 0; i < program_.output_batched.size(); ++i) {
      const int output = program_.outputs[i];
      const std::int64_t inner = inner_[index(output)];
      if (inner != same && inner != count(shape(output), 1)) program_.output_batched[i] = false;
    }
  }

 private:
  std::int64_t of(const Operation& op) const {
    const auto in = [&](std::size_t i) { return inner_[index(op.inputs[i])]; };
    bool all_same = true;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if (in(i) == mixed || shape(op.output).numel() == 0) return mixed;
      all_same = all_same && in(i) == same;
    }
    if (all_same) return same;
    if (op.view || problem_of<ConversionProblem>(op) || problem_of<AffineProblem>(op)) return in(0);
    const Shape &from = shape(op.inputs[0]), &to = shape(op.output);
    if (const auto move = problem_of<MoveProblem>(op)) return moved(move->axes, in(0));
    if (problem_of<PointwiseProblem>(op)) {
      std::int64_t result = same;
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        result = both(result, moved(broadcast(shape(op.inputs[i]), to), in(i)));
      return result;
    }
    if (problem_of<ConvProblem>(op) || problem_of<PoolProblem>(op) || problem_of<LocalResponseProblem>(op))
      return all_same_but_first(op) ? blocks(in(0), count(from, 1), count(to, 1)) : mixed;
    if (const auto linear = problem_of<LinearProblem>(op)) return blocks(in(0), linear->in, linear->out);
    if (const auto norm = problem_of<NormProblem>(op)) return blocks(in(0), norm->length, norm->length);
    if (const auto softmax = problem_of<SoftmaxProblem>(op)) return along(from, softmax->dim, 0, in(0));
    if (const auto sums = problem_of<CumulativeProblem>(op)) return along(from, sums->dim, 0, in(0));
    if (const auto top = problem_of<TopKProblem>(op)) return along(from, top->dim, top->k, in(0));
    if (const auto reduce = problem_of<ReduceProblem>(op)) {
      std::int64_t inner = in(0);
      Shape left = from;
      for (int d = 0; d < static_cast<int>(from.rank()); ++d) {
        if ((reduce->dims >> d & 1u) != 0) inner = along(left, d, 1, inner), left.set(d, 1);
      }
      return inner;
    }
    if (const auto resample = problem_of<ResampleProblem>(op)) {
      std::int64_t inner = in(0);
      Shape left = from;
      for (const auto& axis : resample->axes)
        inner = along(left, axis.dim, to[axis.dim], inner), left.set(axis.dim, to[axis.dim]);
      return inner;
    }
    if (const auto concat = problem_of<ConcatProblem>(op)) {
      std::int64_t result = same;
      for (std::size_t i = 0; i < op.inputs.size(); ++i)
        result = both(result, along(shape(op.inputs[i]), concat->dim, to[concat->dim], in(i)));
      return result;
    }
    if (const auto product = problem_of<MatMulProblem>(op)) return of_product(*product, op);
    if (const auto gather = problem_of<GatherProblem>(op)) return of_gather(*gather, op);
    if (const auto scatter = problem_of<ScatterProblem>(op))
      return scatter->kind == GatherKind::elements && scatter->dim > 0 ? in_front(op) : mixed;
    if (const auto grid = problem_of<GridSampleProblem>(op)) return grid->bins ? mixed : in_front(op);
    if (problem_of<AttentionProblem>(op)) return in_front(op);
    if (problem_of<RecurrentProblem>(op)) return of_steps(op);
    // A layer of the user's is taken to keep images apart that are in front.
    const bool ours = dynamic_cast<const OnCpu*>(op.module.get()) != nullptr || is_any_problem(op);
    return ours || to.rank() == 0 || to[0] != batch_ ? mixed : in_front(op);
  }

  bool is_any_problem(const Operation& op) const {
    bool result = false;
#define LAMINA_ASK(Problem) result = result || dynamic_cast<const Layer<Problem>*>(op.module.get()) != nullptr;
    LAMINA_ALL_PROBLEMS(LAMINA_ASK)
#undef LAMINA_ASK
    return result;
  }
  bool all_same_but_first(const Operation& op) const {
    return std::all_of(op.inputs.begin() + 1, op.inputs.end(), [&](int i) { return inner_[index(i)] == same; });
  }

  static std::int64_t both(std::int64_t a, std::int64_t b) { return a == same || a == b ? b : b == same ? a : mixed; }

  /// `inner` of a result of which each `to` elements are made of `from` elements of the operand.
  static std::int64_t blocks(std::int64_t inner, std::int64_t from, std::int64_t to) {
    return inner % from == 0 ? inner / from * to : mixed;
  }

  /// `inner` of a result whose elements depend on all elements along a dimension, which has extent `to` then; 0: the
  /// extent that it had.
  std::int64_t along(const Shape& shape, int dim, std::int64_t to, std::int64_t inner) const {
    if (inner <= 0) return inner;
    const int d = dim < 0 ? dim + static_cast<int>(shape.rank()) : dim;
    const std::int64_t step = count(shape, d + 1), run = count(shape, d);
    if (run == 0) return mixed;
    if (inner % run == 0) return inner / run * step * (to == 0 ? shape[d] : to);
    return step % (inner * batch_) == 0 ? inner : mixed;
  }

  /// How the output walks through an operand that broadcasts to it.
  static std::vector<MoveProblem::Axis> broadcast(const Shape& from, const Shape& to) {
    const Strides strides = broadcast_strides({.shape = from}, to);
    std::vector<MoveProblem::Axis> axes;
    for (std::size_t d = 0; d < to.rank(); ++d) axes.push_back({.extent = to.extents()[d], .stride = strides[d]});
    return axes;
  }

  /// `inner` of what a move writes: one axis may step from image to image, and all others must stay within an image.
  std::int64_t moved(const std::vector<MoveProblem::Axis>& axes, std::int64_t inner) const {
    if (inner <= 0) return inner;
    std::int64_t result = mixed, behind = 1, within = 0;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      const std::int64_t stride = axis->stride, last = (axis->extent - 1) * stride;
      std::int64_t most = 0, of_one = 0;  // largest offset within an image; how many places along the axis each image
                                          // has, 0: the axis stays in one image
      if (axis->offsets.empty()) {
        if (stride < 0) return mixed;
        if (last < inner) {
          most = last;
        } else if (inner % stride == 0) {
          of_one = inner / stride, most = inner - stride;
        } else if (stride % (inner * batch_) != 0) {
          return mixed;
        }
      }
      for (std::size_t i = 0; i < axis->offsets.size(); ++i) {
        const std::int64_t offset = axis->offsets[i], place = static_cast<std::int64_t>(i);
        if (offset < 0) continue;  // filled
        const std::int64_t image = offset / inner % batch_;
        if (of_one == 0 && image != 0) of_one = place;
        if ((of_one == 0 ? 0 : place / of_one % batch_) != image) return mixed;
        most = std::max(most, offset % inner);
      }
      if (of_one != 0 && (result != mixed || axis->extent % (of_one * batch_) != 0)) return mixed;
      if (of_one != 0) result = of_one * behind;
      within += most, behind *= axis->extent;
    }
    return within < inner ? result : mixed;
  }

  /// `inner` of a result with images in front, of operands that have them in front too or do not depend on images.
  std::int64_t in_front(const Operation& op) const {
    for (const int input : op.inputs) {
      const std::int64_t inner = inner_[index(input)];
      if (inner != same && inner * batch_ != shape(input).numel()) return mixed;
    }
    const std::int64_t numel = shape(op.output).numel();
    return numel % batch_ == 0 ? numel / batch_ : mixed;
  }

  std::int64_t of_product(const MatMulProblem& problem, const Operation& op) const {
    const Shape& to = shape(op.output);
    const std::int64_t size = to[-1] * to[-2];
    std::int64_t result = same;
    bool whole = true;  // each matrix depends on one image alone
    for (const int input : op.inputs) {
      Shape of_matrices = shape(input), all = to;
      const std::int64_t matrix = of_matrices[-1] * of_matrices[-2], inner = inner_[index(input)];
      for (const int d : {-1, -2}) of_matrices.set(d, 1), all.set(d, 1);
      whole = whole && inner % matrix == 0;
      if (whole) result = both(result, moved(broadcast(of_matrices, all), inner / matrix));
    }
    if (whole) return result > 0 ? result * size : result;
    const Shape& a = shape(op.inputs[0]);  // each row depends on one image, and the other operand on none
    const bool rows =
        !problem.transpose_a && inner_[index(op.inputs[1])] == same && a.numel() / a[-1] == to.numel() / to[-1];
    return rows ? blocks(inner_[index(op.inputs[0])], a[-1], to[-1]) : mixed;
  }

  std::int64_t of_gather(const GatherProblem& problem, const Operation& op) const {
    const Shape &from = shape(op.inputs[0]), &places = shape(op.inputs[1]), &to = shape(op.output);
    const std::int64_t of_input = inner_[index(op.inputs[0])], of_places = inner_[index(op.inputs[1])];
    if (problem.batch_dims > 0) return in_front(op);
    const int dim = problem.dim < 0 ? problem.dim + static_cast<int>(from.rank()) : problem.dim;
    if (problem.kind == GatherKind::elements) {
      for (int d = 0; d < static_cast<int>(from.rank()); ++d) {
        if (d != dim && from[d] != places[d]) return mixed;
      }
      return both(along(from, dim, to[dim], of_input), along(places, dim, 0, of_places));
    }
    if (problem.kind == GatherKind::take && of_places == same) return along(from, dim, places.numel(), of_input);
    const std::int64_t one = problem.kind == GatherKind::take ? 1 : places[-1];  // how many numbers say one place
    const bool shared = of_input == same && (problem.kind == GatherKind::nd || dim == 0);
    return shared ? blocks(of_places, one, to.numel() / (places.numel() / one)) : mixed;
  }

  /// `inner` of a recurrent layer's result [T, N, ...]: the images are along N.
  std::int64_t of_steps(const Operation& op) const {
    const Shape& to = shape(op.output);
    const std::int64_t images = shape(op.inputs[0])[1];
    for (const int input : op.inputs) {
      const Shape& from = shape(input);
      const std::int64_t inner = inner_[index(input)], row = count(from, input == op.inputs[0] ? 2 : 1);
      if (inner != same && (inner % row != 0 || inner / row * batch_ != images)) return mixed;
    }
    return images / batch_ * to[2];
  }

  std::int64_t batch_;
  std::vector<std::int64_t> inner_;  // by value
};

}  // namespace

void keep_images_apart(Program& program, const CompileOptions& options) {
  if (options.batch > 1) ImagesApart(program, options).find();
}

}  // namespace lamina::detail
