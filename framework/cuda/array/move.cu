// Moving elements of 1, 2, 4, 8 or 16 bytes; the host makes wide ones of neighbours that stay together.
//
// A thread owns an element of the output at a time, a warp neighbours of it: what it writes is coalesced, what it reads
// is as far as the axes allow; what turns a layout and is large is a Map. Preconditions: none.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/array/walk.cuh"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/move/plan.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256, max_axes = 12;

/// Where elements come from.
struct Source {
  Axes<max_axes> axes;
  std::int64_t strides[max_axes];
  const std::int64_t* tables[max_axes];  // null: the stride
  std::int64_t base;

  /// The offset of element `index`, or -1.
  __device__ std::int64_t offset(std::int64_t index) const {
    std::int64_t sum = base;
    bool outside = false;
    axes.visit(index, [&](int axis, std::int64_t at) {
      const std::int64_t* table = tables[axis];
      const std::int64_t step = table == nullptr ? at * strides[axis] : table[at];
      outside |= table != nullptr && step < 0;
      sum += step;
    });
    return outside ? -1 : sum;
  }
};

/// Where they go to.
struct Target {
  std::int64_t row, gap;
  Divider by_row;
  bool wide;

  __device__ std::int64_t place(std::int64_t index) const {
    if (gap == 0) return index;
    return index + (wide ? index / row : by_row.quotient(static_cast<std::uint32_t>(index))) * gap;
  }
};

template <class T>
__global__ void __launch_bounds__(threads)
    move_kernel(const __grid_constant__ Source source, const __grid_constant__ Target target,
                const T* __restrict__ input, T* __restrict__ output, T fill, std::int64_t count,
                const Neighbours neighbours) {
  let_successor_start(neighbours);
  wait_for_predecessor(neighbours);
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const std::int64_t offset = source.offset(i);
    output[target.place(i)] = offset < 0 ? fill : input[offset];
  }
  end_beside(neighbours);
}

/// `pattern` holds the bits of the smallest element as often as they fit.
template <class T>
T filling(std::uint64_t pattern) {
  if constexpr (std::is_same_v<T, Pack<std::uint64_t>>) {
    return {pattern, pattern};
  } else {
    return static_cast<T>(pattern);
  }
}

class Move {
 public:
  /// `alignment`: the addresses of input and output are multiples of it. After every `row` elements of the output,
  /// `gap` are left out: channels of a larger image.
  Move(int device, const detail::MovePlan& plan, std::size_t element_size, std::size_t alignment, std::int64_t row,
       std::int64_t gap);

  void run(const Tensor& input, Tensor& output, const Neighbours& neighbours, Stream stream) const;

 private:
  void widen(std::size_t alignment);

  detail::MovePlan plan_;
  std::int64_t row_, gap_;
  std::size_t size_;  // of what is moved at a time: neighbours that stay together are one
  Constant tables_;   // of the axes that have one, one after the other
};

Move::Move(int device, const detail::MovePlan& plan, std::size_t element_size, std::size_t alignment, std::int64_t row,
           std::int64_t gap)
    : plan_(plan), row_(row), gap_(gap), size_(element_size) {
  for (std::size_t bits = 8 * element_size; bits < 64; bits *= 2) plan_.fill |= plan_.fill << bits;
  if (plan_.outside) plan_.axes = {{.extent = plan_.count}}, plan_.base = -1;
  widen(alignment);
  const std::vector<MoveProblem::Axis>& axes = plan_.axes;
  std::vector<std::int64_t> tables;
  for (const MoveProblem::Axis& axis : axes) tables.insert(tables.end(), axis.offsets.begin(), axis.offsets.end());
  tables_ = Constant(device, tables.data(), tables.size() * sizeof(std::int64_t));
}

/// Makes one of two neighbours that always stay together, as long as there are such.
void Move::widen(std::size_t alignment) {
  const auto even = [](std::int64_t n) { return n % 2 == 0; };
  while (size_ < 16 && alignment % (2 * size_) == 0) {
    MoveProblem::Axis& inner = plan_.axes.back();
    bool together = inner.offsets.empty() && inner.stride == 1 && even(inner.extent) && even(plan_.base);
    together &= gap_ == 0 || (even(row_) && even(gap_));
    for (std::size_t i = 0; i + 1 < plan_.axes.size(); ++i) {
      together &= even(plan_.axes[i].stride);
      for (const std::int64_t offset : plan_.axes[i].offsets) together &= offset == -1 || even(offset);
    }
    if (!together) return;
    for (std::size_t i = 0; i + 1 < plan_.axes.size(); ++i) {
      plan_.axes[i].stride /= 2;
      for (std::int64_t& offset : plan_.axes[i].offsets) offset = offset == -1 ? -1 : offset / 2;
    }
    inner.extent /= 2;
    plan_.base /= 2;
    plan_.count /= 2;
    row_ /= 2, gap_ /= 2;
    size_ *= 2;
  }
}

void Move::run(const Tensor& input, Tensor& output, const Neighbours& neighbours, Stream stream) const {
  const bool wide = plan_.count >= narrow_count;
  Source source{};
  source.axes.wide = wide;
  source.base = plan_.base;
  const Target target = {.row = row_, .gap = gap_, .by_row = Divider(wide ? 1 : row_), .wide = wide};
  const auto* table = tables_.as<std::int64_t>();
  for (const MoveProblem::Axis& axis : plan_.axes) {
    const auto place = static_cast<std::size_t>(source.axes.count);
    source.tables[place] = axis.offsets.empty() ? nullptr : table;
    source.strides[place] = axis.stride;
    source.axes.add(axis.extent);
    if (!axis.offsets.empty()) table += axis.extent;
  }
  with_word(size_, [&]<class T>(T) {
    const auto* from = static_cast<const T*>(input.raw());
    auto* to = static_cast<T*>(output.raw());
    const T fill = filling<T>(plan_.fill);
    launch_kernel(move_kernel<T>, threads_for(plan_.count, threads), stream, source, target, from, to, fill,
                  plan_.count, neighbours);
  });
}

}  // namespace

bool takes_move(const MoveProblem& problem, const Preparation& p) {
  const bool slices_fit = !p.input().is_slice() && (!p.has_slices() || p.output().format.layout == Layout::nhwc);
  return problem.axes.size() <= max_axes && slices_fit && detail::is_movable(problem, p);
}

std::unique_ptr<Operator> prepare_move(const MoveProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  const std::size_t alignment = std::min(p.input().alignment, p.output().alignment);
  const View& output = p.output();
  const std::int64_t row = output.is_slice() ? output.shape[1] : 1;
  const std::int64_t gap = output.is_slice() ? output.channels - row : 0;
  MoveProblem filled = problem;
  if (p.has_codes()) filled.fill = detail::code_of(static_cast<float>(problem.fill), p.input().quantization, dtype);
  const Move move(index(p), detail::move_plan(filled, p), size_of(dtype), alignment, row, gap);
  return make_on_device(index(p), "copies", {.heeds_neighbours = true},
                        [move](Inputs inputs, Outputs outputs, const Execution& execution) {
                          move.run(inputs[0], outputs[0], execution.neighbours, execution.stream);
                        });
}

}  // namespace lamina::cuda
