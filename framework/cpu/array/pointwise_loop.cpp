#include "lamina/cpu/array/array.h"

#include <algorithm>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/array/pointwise.h"
#include "lamina/cpu/codes.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina::cpu {
namespace {

using namespace tables;

// Elements of one task: long enough to hide the hand-out, short enough to balance.
constexpr std::int64_t chunk = 16384;
// Of channels that have factors of their own, and elements that a step of their kernel reads.
constexpr std::int64_t most_channels = 8192, vectors = 64;

template <class T>
struct alignas(64) Block {
  T values[static_cast<std::size_t>(block<T>)];
};

/// A chain of functions over operands of any dtype that broadcast: block by block they are converted to the type that
/// is computed in, every step is a loop over the block, and the result is converted as it is stored. What is contiguous
/// and of that type already is worked on where it lies.
class PointwiseLoop {
 public:
  /// Of a problem that detail::is_computable.
  PointwiseLoop(const PointwiseProblem& problem, const Preparation& preparation);

  /// The output may be an input of its shape and dtype.
  void operator()(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const;

 private:
  enum class Kind { contiguous, one_for_all, strided };

  template <class T>
  class Worker;

  void find_two_codes(const Preparation& preparation);
  void run_two_codes(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const;
  template <class T>
  void run(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const;

  PointwiseProblem problem_;
  const ApplyKernel* kernel_;
  const CodesKernel* codes_;
  std::vector<Quantization> quantizations_;  // by input, and then the output's
  std::vector<detail::WalkAxis> axes_;
  std::vector<Kind> kinds_;                  // by input
  std::optional<TwoCodes> two_;              // all that is done
  std::size_t whole_ = 0;                    // of its operands, the one of the output's shape
  std::int64_t image_ = 0, image_step_ = 0;  // elements of the output with the same factors, and of these to the next
};

PointwiseLoop::PointwiseLoop(const PointwiseProblem& problem, const Preparation& p)
    : problem_(problem),
      kernel_(&best_kernel(apply_kernels(), p.device)),
      codes_(&best_kernel(codes_kernels(), p.device)),
      axes_(detail::broadcast_walk(p.output(), p.inputs)) {
  if (problem_.chain.empty()) problem_.chain.push_back({Pointwise::identity});
  for (const View& view : p.inputs) quantizations_.push_back(view.quantization);
  quantizations_.push_back(p.output().quantization);
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const auto is = [&](std::size_t like) {
      return std::ranges::all_of(axes_, [&](const detail::WalkAxis& axis) {
        return axis.strides[i + 1] == (like == 0 ? axis.strides[0] : 0);
      });
    };
    // Where there is but one element, both are so; that of an empty output is never read.
    kinds_.push_back(is(0) ? Kind::contiguous : is(1) ? Kind::one_for_all : Kind::strided);
  }
  find_two_codes(p);
}

/// A sum or product of two arrays, or of one and a factor or addend for each of the channels of an image, that lie side
/// by side.
void PointwiseLoop::find_two_codes(const Preparation& p) {
  const PointwiseChain& chain = problem_.chain;
  const auto known = [](const View& view) { return detail::is_code(view) && view.quantization.scale < 1e15f; };
  if (p.inputs.size() != 2 || chain.size() > 2 || chain[0].operand != 1) return;
  if (!std::ranges::all_of(p.inputs, known) || !known(p.output())) return;
  const bool product = chain[0].function == Pointwise::mul;
  const auto bounds = chain.size() == 1 ? detail::Bounds() : detail::clamp_of(chain[1]);
  if ((!product && chain[0].function != Pointwise::add) || !bounds) return;
  whole_ = kinds_[0] == Kind::contiguous ? 0 : 1;
  const std::size_t other = 1 - whole_, rank = axes_.size();
  if (kinds_[whole_] != Kind::contiguous) return;
  TwoCodes two = {.product = product, .low = bounds->low, .high = bounds->high};
  if (kinds_[other] != Kind::contiguous) {  // images, pixels, channels; or, of one image, the last two
    const auto stride = [&](std::size_t axis) { return axes_[axis].strides[other + 1]; };
    if (rank < 2 || rank > 3 || stride(rank - 1) != 1 || stride(rank - 2) != 0) return;
    if (axes_.back().extent > most_channels) return;
    two.period = axes_.back().extent;
    image_ = rank == 3 ? axes_[0].strides[0] : p.output().shape.numel();
    image_step_ = rank == 3 ? stride(0) : 0;
  }
  const View &first = p.inputs[whole_], &second = p.inputs[other];
  two.first_type = first.format.dtype, two.second_type = second.format.dtype, two.type = p.output().format.dtype;
  two.first_codes = first.quantization, two.second_codes = second.quantization, two.codes = p.output().quantization;
  two_ = two;
}

void PointwiseLoop::run_two_codes(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const {
  const std::int64_t count = output.numel(), image = two_->period > 0 ? image_ : count;
  const std::int64_t pieces = detail::ceil_div(image, chunk);
  pool.parallel_for(image == 0 ? 0 : count / image * pieces, [&](std::int64_t index, int) {
    const std::int64_t piece = index % pieces * chunk, first = index / pieces * image + piece;
    const auto at = [&](std::size_t input, std::int64_t element) {
      return static_cast<const std::byte*>(inputs[input].raw()) + element;
    };
    TwoCodes task = *two_;
    alignas(64) float repeated[most_channels + vectors];
    if (task.period > 0) {
      codes_->read(task.second_type, at(1 - whole_, index / pieces * image_step_), task.second_codes, repeated,
                   task.period);
      for (std::int64_t i = 0; i < vectors; ++i) repeated[task.period + i] = repeated[i];
      task.repeated = repeated, task.phase = piece % task.period;
    } else {
      task.second = at(1 - whole_, first);
    }
    task.first = at(whole_, first), task.output = static_cast<std::byte*>(output.raw()) + first;
    task.count = std::min(chunk, image - piece);
    codes_->combine(task);
  });
}

/// One thread's part of a run.
template <class T>
class PointwiseLoop::Worker {
 public:
  Worker(const PointwiseLoop& loop, std::span<const Tensor> inputs, Tensor& output)
      : loop_(loop), inputs_(inputs), output_(output) {
    const auto same = [&](const Tensor& input) { return input.raw() == output.raw(); };
    direct_ = output.dtype() == dtype_of<T> && std::ranges::none_of(inputs, same);
  }

  void work(std::int64_t begin, std::int64_t end) {
    const std::size_t size = size_of(output_.dtype());
    for (std::int64_t first = begin; first < end; first += block<T>) {
      const std::int64_t count = std::min(block<T>, end - first);
      std::byte* const target = static_cast<std::byte*>(output_.raw()) + static_cast<std::size_t>(first) * size;
      // Each step writes to one of two blocks and reads the other; the last one to the output, if it can.
      const T* value = operand(0, first, count, value_);
      T* result = value_.values;
      const PointwiseChain& chain = loop_.problem_.chain;
      for (const PointwiseStep& step : chain) {
        const int operands = describe(step.function).operands;
        const T* const x = operands < 2 ? value : operand_or_number(step.operand, step.a, first, count, x_);
        const T* const y = operands < 3 ? value : operand_or_number(step.second, step.b, first, count, y_);
        result = value == value_.values ? result_.values : value_.values;
        if (direct_ && &step == &chain.back()) result = reinterpret_cast<T*>(target);
        apply(*loop_.kernel_, step.function, StepOperands<T>{value, x, y}, result, count);
        value = result;
      }
      if (!direct_) store_block(value, target, count);
    }
  }

 private:
  const T* operand_or_number(int index, double number, std::int64_t first, std::int64_t count, Block<T>& space) {
    if (index >= 0) return operand(static_cast<std::size_t>(index), first, count, space);
    std::fill_n(space.values, count, load_one<T>(number));
    return space.values;
  }

  /// Elements [first, first + count) of the output's, where they are or in `space`.
  const T* operand(std::size_t index, std::int64_t first, std::int64_t count, Block<T>& space) {
    const Tensor& input = inputs_[index];
    const DType dtype = input.dtype();
    const auto* memory = static_cast<const std::byte*>(input.raw());
    switch (loop_.kinds_[index]) {
      case Kind::contiguous:
        memory += static_cast<std::size_t>(first) * size_of(dtype);
        if (dtype == dtype_of<T>) return reinterpret_cast<const T*>(memory);
        load_block(index, dtype, memory, space.values, count);
        break;
      case Kind::one_for_all:
        load_block(index, dtype, memory, space.values, 1);
        std::fill(space.values + 1, space.values + count, space.values[0]);
        break;
      case Kind::strided:
        if (dtype == dtype_of<T>) {
          gather(loop_.axes_, index + 1, memory, first, count, size_of(dtype),
                 reinterpret_cast<std::byte*>(space.values));
        } else {
          gather(loop_.axes_, index + 1, memory, first, count, size_of(dtype), raw_);
          load_block(index, dtype, raw_, space.values, count);
        }
        break;
    }
    return space.values;
  }

  /// As load() and store(), which are compiled for any processor, but bf16 and what stands for other numbers.
  void load_block(std::size_t index, DType dtype, const std::byte* from, T* to, std::int64_t count) const {
    if constexpr (std::is_same_v<T, float>) {
      const Quantization& codes = loop_.quantizations_[index];
      if (codes.defined()) return loop_.codes_->read(dtype, from, codes, to, count);
      if (dtype == DType::bf16) return loop_.kernel_->widen(reinterpret_cast<const bfloat16*>(from), to, count);
    }
    load(dtype, from, to, count);
  }
  void store_block(const T* from, std::byte* to, std::int64_t count) const {
    if constexpr (std::is_same_v<T, float>) {
      const Quantization& codes = loop_.quantizations_.back();
      if (codes.defined()) return loop_.codes_->write(output_.dtype(), from, codes, to, count);
      if (output_.dtype() == DType::bf16) {
        return loop_.kernel_->narrow(from, reinterpret_cast<bfloat16*>(to), count);
      }
    }
    store(output_.dtype(), from, to, count);
  }

  const PointwiseLoop& loop_;
  std::span<const Tensor> inputs_;
  Tensor& output_;
  bool direct_ = false;
  Block<T> value_, result_, x_, y_;
  alignas(64) std::byte raw_[block<T> * 8];
};

template <class T>
void PointwiseLoop::run(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const {
  const std::int64_t count = output.numel();
  pool.parallel_for(detail::ceil_div(count, chunk), [&](std::int64_t task, int) {
    Worker<T> worker(*this, inputs, output);
    worker.work(task * chunk, std::min(count, (task + 1) * chunk));
  });
}

void PointwiseLoop::operator()(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const {
  if (two_) return run_two_codes(inputs, output, pool);
  switch (problem_.compute) {
    case DType::f64: return run<double>(inputs, output, pool);
    case DType::i64: return run<std::int64_t>(inputs, output, pool);
    case DType::u64: return run<std::uint64_t>(inputs, output, pool);
    default: return run<float>(inputs, output, pool);
  }
}

}  // namespace

std::unique_ptr<Operator> prepare_pointwise(const PointwiseProblem& problem, const Preparation& p) {
  return make_operator("elementwise",
                       [loop = PointwiseLoop(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         loop(inputs, outputs[0], *execution.pool);
                       });
}

}  // namespace lamina::cpu
