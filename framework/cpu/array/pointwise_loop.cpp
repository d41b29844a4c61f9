#include "lamina/cpu/array/array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/array/pointwise.h"
#include "lamina/cpu/codes.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/reduce_plan.h"
#include "lamina/kernel/rules/walk.h"

namespace lamina::cpu {
namespace {

using namespace tables;

// Elements of one task: long enough to hide the hand-out, short enough to balance.
constexpr std::int64_t elements_at_once = 16384;

template <class T>
struct alignas(64) Block {
  T values[static_cast<std::size_t>(block<T>)];
};

/// Calls f with a number of the type that is computed in.
template <class F>
void with_type(DType compute, F f) {
  switch (compute) {
    case DType::f64: return f(double{});
    case DType::i64: return f(std::int64_t{});
    case DType::u64: return f(std::uint64_t{});
    case DType::u8: return f(std::uint8_t{});
    default: return f(float{});
  }
}

/// What gives the same results as the problem's type, and is narrower where that can be.
DType narrowest(const PointwiseProblem& problem, const Preparation& p) {
  const PointwiseStep step = problem.chain.empty() ? PointwiseStep{Pointwise::identity} : problem.chain.front();
  if (is_float(problem.compute) || p.has_codes() || problem.chain.size() > 1) return problem.compute;
  const DType to = p.output().format.dtype;
  const auto is_short = [](const View& view) { return size_of(view.format.dtype) <= 2; };
  if (step.function == Pointwise::identity && is_float(to) && std::ranges::all_of(p.inputs, is_short))
    return DType::f32;
  // Of bytes the lower bits of a result are all that there is; truth is in any bit.
  const bool truths = step.function == Pointwise::logical_not ||
                      (step.function >= Pointwise::logical_and && step.function <= Pointwise::logical_xor);
  const auto fits = [&](const View& view) {
    return view.format.dtype == DType::u8 || (truths && view.format.dtype == DType::boolean);
  };
  const int operands = describe(step.function).operands;
  const bool of_inputs = (operands < 2 || step.operand >= 0) && (operands < 3 || step.second >= 0);
  const bool result = to == DType::u8 || (to == DType::boolean && describe(step.function).truth);
  return of_inputs && result && std::ranges::all_of(p.inputs, fits) ? DType::u8 : problem.compute;
}

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

  void find_codes(const View& output);
  template <class T>
  void run(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const;

  struct alignas(64) Number {
    std::byte values[4096] = {};  // a block of it
    double number = 0;
  };
  const Number& number(double number) const {
    return *std::ranges::find_if(numbers_, [&](const Number& n) { return std::memcmp(&n.number, &number, 8) == 0; });
  }

  PointwiseProblem problem_;
  DType compute_ = DType::f32;
  std::vector<Number> numbers_;  // of the chain
  const ApplyKernel* kernel_;
  const CodesKernel* codes_;
  std::vector<Quantization> quantizations_;  // by input, and then the output's
  std::vector<detail::WalkAxis> axes_;
  std::vector<Kind> kinds_;  // by input
};

PointwiseLoop::PointwiseLoop(const PointwiseProblem& problem, const Preparation& p)
    : problem_(problem),
      kernel_(&best_kernel(apply_kernels(), p.device)),
      codes_(&best_kernel(codes_kernels(), p.device)),
      axes_(detail::broadcast_walk(p.output(), p.inputs)) {
  compute_ = narrowest(problem_, p);
  for (const View& view : p.inputs) quantizations_.push_back(view.quantization);
  quantizations_.push_back(p.output().quantization);
  std::erase_if(problem_.chain, [](const PointwiseStep& step) { return step.function == Pointwise::identity; });
  if (compute_ == DType::f32 && !p.has_codes()) find_codes(p.output());
  const auto fill = [&](double number) {
    with_type(compute_, [&]<class T>(T) {
      numbers_.push_back({.number = number});
      std::fill_n(reinterpret_cast<T*>(numbers_.back().values), block<T>, load_one<T>(number));
    });
  };
  for (const PointwiseStep& step : problem_.chain) {
    const int operands = describe(step.function).operands;
    if (operands > 1 && step.operand < 0) fill(step.a);
    if (operands > 2 && step.second < 0) fill(step.b);
  }
  for (std::size_t i = 0; i < p.inputs.size(); ++i) {
    const auto is = [&](std::size_t like) {
      return std::ranges::all_of(axes_, [&](const detail::WalkAxis& axis) {
        return axis.strides[i + 1] == (like == 0 ? axis.strides[0] : 0);
      });
    };
    // Where there is but one element, both are so; that of an empty output is never read.
    kinds_.push_back(is(0) ? Kind::contiguous : is(1) ? Kind::one_for_all : Kind::strided);
  }
}

/// A chain that ends with codes of one scale.
void PointwiseLoop::find_codes(const View& output) {
  PointwiseChain& chain = problem_.chain;
  const DType to = output.format.dtype;
  if (chain.size() < 2 || (to != DType::u8 && to != DType::i8)) return;
  const PointwiseStep &round = chain[chain.size() - 2], &cut = chain.back();
  const double low = detail::least_of(to), high = detail::max_of(to), zero_point = round.b;
  if (round.function != Pointwise::quantize || round.operand >= 0 || round.second >= 0 || !(round.a > 0) ||
      !(zero_point >= low && zero_point <= high) || zero_point != std::rint(zero_point) ||
      cut != PointwiseStep{.function = Pointwise::clip, .a = low, .b = high})
    return;
  quantizations_.back() = {static_cast<float>(round.a), static_cast<std::int32_t>(zero_point)};
  chain.resize(chain.size() - 2);
}

/// One thread's part of a run.
template <class T>
class PointwiseLoop::Worker {
 public:
  Worker(const PointwiseLoop& loop, std::span<const Tensor> inputs, Tensor& output)
      : loop_(loop), inputs_(inputs), output_(output) {
    const auto same = [&](const Tensor& input) { return input.raw() == output.raw(); };
    direct_ = (output.dtype() == dtype_of<T> || bytes) && std::ranges::none_of(inputs, same);
  }

  void work(std::int64_t begin, std::int64_t end) {
    const std::size_t size = size_of(output_.dtype());
    for (std::int64_t first = begin; first < end; first += block<T>) {
      const std::int64_t count = std::min(block<T>, end - first);
      std::byte* const target = static_cast<std::byte*>(output_.raw()) + static_cast<std::size_t>(first) * size;
      // Each step writes to one of two blocks and reads the other; the last one to the output, if it can.
      const PointwiseChain& chain = loop_.problem_.chain;
      auto* const last = reinterpret_cast<T*>(target);
      const T* value = operand(0, first, count, direct_ && chain.empty() ? last : value_.values);
      T* result = value_.values;
      for (const PointwiseStep& step : chain) {
        const int operands = describe(step.function).operands;
        const T* const x = operands < 2 ? value : operand_or_number(step.operand, step.a, first, count, x_.values);
        const T* const y = operands < 3 ? value : operand_or_number(step.second, step.b, first, count, y_.values);
        result = value == value_.values ? result_.values : value_.values;
        if (direct_ && &step == &chain.back()) result = last;
        apply(*loop_.kernel_, step.function, StepOperands<T>{value, x, y}, result, count);
        value = result;
      }
      if (!direct_ || value != last) store_block(value, target, count);
    }
  }

 private:
  static constexpr bool bytes = std::is_same_v<T, std::uint8_t>;  // some of which may be booleans

  const T* operand_or_number(int index, double number, std::int64_t first, std::int64_t count, T* space) {
    if (index >= 0) return operand(static_cast<std::size_t>(index), first, count, space);
    return reinterpret_cast<const T*>(loop_.number(number).values);
  }

  /// Elements [first, first + count) of the output's, where they are or in `space`.
  const T* operand(std::size_t index, std::int64_t first, std::int64_t count, T* space) {
    const Tensor& input = inputs_[index];
    const DType dtype = input.dtype();
    const auto* memory = static_cast<const std::byte*>(input.raw());
    switch (loop_.kinds_[index]) {
      case Kind::contiguous:
        memory += static_cast<std::size_t>(first) * size_of(dtype);
        if (dtype == dtype_of<T> || bytes) return reinterpret_cast<const T*>(memory);
        load_block(index, dtype, memory, space, count);
        break;
      case Kind::one_for_all:
        load_block(index, dtype, memory, space, 1);
        std::fill(space + 1, space + count, space[0]);
        break;
      case Kind::strided:
        if (dtype == dtype_of<T>) {
          gather(loop_.axes_, index + 1, memory, first, count, size_of(dtype), reinterpret_cast<std::byte*>(space));
        } else {
          gather(loop_.axes_, index + 1, memory, first, count, size_of(dtype), raw_);
          load_block(index, dtype, raw_, space, count);
        }
        break;
    }
    return space;
  }

  /// As load() and store(), but of what stands for other numbers.
  void load_block(std::size_t index, DType dtype, const std::byte* from, T* to, std::int64_t count) const {
    if constexpr (std::is_same_v<T, float>) {
      const Quantization& codes = loop_.quantizations_[index];
      if (codes.defined()) return loop_.codes_->read(dtype, from, codes, to, count);
    }
    load(dtype, from, to, count);
  }
  void store_block(const T* from, std::byte* to, std::int64_t count) const {
    if constexpr (std::is_same_v<T, float>) {
      const Quantization& codes = loop_.quantizations_.back();
      if (codes.defined()) return loop_.codes_->write(output_.dtype(), from, codes, to, count);
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
  pool.parallel_for(detail::ceil_div(count, elements_at_once), [&](std::int64_t task, int) {
    Worker<T> worker(*this, inputs, output);
    worker.work(task * elements_at_once, std::min(count, (task + 1) * elements_at_once));
  });
}

void PointwiseLoop::operator()(std::span<const Tensor> inputs, Tensor& output, ThreadPool& pool) const {
  with_type(compute_, [&]<class T>(T) { run<T>(inputs, output, pool); });
}

}  // namespace

std::unique_ptr<Operator> prepare_pointwise(const PointwiseProblem& problem, const Preparation& p) {
  return make_operator("elementwise",
                       [loop = PointwiseLoop(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         loop(inputs, outputs[0], *execution.pool);
                       });
}

}  // namespace lamina::cpu
