// Rows of several arrays beside each other. A thread owns a unit of the output, neighbours along a row: of 16 bytes, or
// of what divides every width and address. Stores are one run of memory, loads a run for each input's row.
//
// Shared memory: none. Preconditions: none.

#include <limits>

#include "lamina/cuda/array/array.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/extents.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256, max_inputs = 32;

struct Rows {
  const void* inputs[max_inputs];
  std::int64_t begin[max_inputs + 1];  // of each in a row of this launch, in units
  std::int64_t pitches[max_inputs];    // from one row of each to the next
  int count = 0;
  std::int64_t pitch = 0;  // of the output
  Divider by_width;        // of this launch, where numbers are small
  bool wide = false;
};

template <class Unit>
__global__ void __launch_bounds__(threads)
    concat_kernel(const __grid_constant__ Rows rows, std::int64_t count, Unit* __restrict__ output) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t width = rows.begin[rows.count];
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * threads) {
    const std::int64_t row =
        rows.wide ? i / width : static_cast<std::int64_t>(rows.by_width.quotient(static_cast<std::uint32_t>(i)));
    const std::int64_t column = i - row * width;
    int input = 0;
    for (int k = 1; k < rows.count; ++k) input += static_cast<int>(column >= rows.begin[k]);
    output[row * rows.pitch + column] =
        static_cast<const Unit*>(rows.inputs[input])[row * rows.pitches[input] + column - rows.begin[input]];
  }
}

template <class Unit>
void start(std::span<const Tensor> inputs, const detail::ConcatRows& joined, unsigned char* output, Stream stream) {
  constexpr auto unit = static_cast<std::int64_t>(sizeof(Unit));
  Rows task{};
  task.pitch = joined.pitch / unit;
  const auto copy = [&] {
    const std::int64_t width = task.begin[task.count], count = joined.rows * width;
    task.wide = count > std::numeric_limits<int>::max();
    task.by_width = Divider(task.wide ? 1 : width);
    if (count > 0) {
      launch_kernel(concat_kernel<Unit>, threads_for(count, threads), stream, task, count,
                    reinterpret_cast<Unit*>(output));
    }
    output += width * unit;
    task.count = 0;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].raw() == output + task.begin[task.count] * unit) {
      copy();
      output += joined.parts[i].width;
      continue;
    }
    task.inputs[task.count] = inputs[i].raw();
    task.pitches[task.count] = joined.parts[i].pitch / unit;
    task.begin[task.count + 1] = task.begin[task.count] + joined.parts[i].width / unit;
    if (++task.count == max_inputs) copy();
  }
  copy();
}

}  // namespace

std::unique_ptr<Operator> prepare_concat(const ConcatProblem& problem, const Preparation& p) {
  return make_on_device(
      index(p), "one launch",
      [rows = detail::concat_rows(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        const auto bits_of = [](const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); };
        std::uintptr_t bits = bits_of(outputs[0].raw()) | static_cast<std::uintptr_t>(rows.pitch);
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const auto& [width, pitch] = rows.parts[i];
          if (width != 0) bits |= static_cast<std::uintptr_t>(width | pitch) | bits_of(inputs[i].raw());
        }
        auto* out = static_cast<unsigned char*>(outputs[0].raw());
        if (bits % 16 == 0) return start<uint4>(inputs, rows, out, execution.stream);
        if (bits % 8 == 0) return start<uint2>(inputs, rows, out, execution.stream);
        if (bits % 4 == 0) return start<std::uint32_t>(inputs, rows, out, execution.stream);
        if (bits % 2 == 0) return start<std::uint16_t>(inputs, rows, out, execution.stream);
        start<std::uint8_t>(inputs, rows, out, execution.stream);
      });
}

}  // namespace lamina::cuda
