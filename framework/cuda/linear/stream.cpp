#include "lamina/cuda/linear/kernels.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "lamina/base/error.h"
#include "lamina/base/in_parallel.h"
#include "lamina/base/math.h"
#include "lamina/cuda/linear/stream_arguments.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/cuda/tensor_core/tensor_map.h"
#include "lamina/cuda/tensor_core/weights.h"

namespace lamina::cuda {
namespace {

using lamina::detail::ceil_div;
using linear_stream::block_bytes;
using linear_stream::block_outputs;
using linear_stream::Tile;

std::vector<Tile> tiles(Precision precision) {
  using namespace linear_stream;
  constexpr std::vector<Tile> (*in_order[])() = {tiles_fp32, tiles_tf32, tiles_fp16, tiles_bf16};  // of Precision
  return in_order[static_cast<std::size_t>(precision)]();
}

int step_terms(Precision precision) { return step_bytes / static_cast<int>(size_of(storage_type(precision))); }

/// For one of the blocks that share a multiprocessor.
int max_shared_bytes(const DeviceDescription& device, const Tile& tile) {
  if (tile.resident == 1) return device.shared_bytes;
  return device.multiprocessor_shared_bytes / tile.resident - device.reserved_shared_bytes;
}

struct Choice {
  Tile tile;
  int tiles = 0, splits = 1, stages = 2;
};

/// As many blocks as there are multiprocessors, or nearly: memory is busy when all of them ask. Of tiles that allow it
/// the largest, if rows are many: each tile reads all the input.
Choice choose(const LinearProblem& o, const Preparation& preparation) {
  const int multiprocessors = preparation.device.multiprocessors;
  const Tuning& wanted = preparation.tuning;
  const int steps = ceil_div(o.in, step_terms(preparation.precision));
  Choice best;
  int best_blocks = 0;
  for (const Tile& tile : tiles(preparation.precision)) {
    if (tile.rows < o.rows || (best.tiles > 0 && tile.rows > best.tile.rows)) continue;
    if (wanted.outputs > 0 && wanted.outputs != tile.outputs) continue;
    Choice choice = {.tile = tile, .tiles = ceil_div(o.out, tile.outputs)};
    const int most = std::min(max_splits, steps);
    choice.splits = wanted.splits > 0 ? wanted.splits : std::clamp(multiprocessors / choice.tiles, 1, most);
    if (choice.splits > most) continue;
    int& stages = choice.stages;
    stages =
        std::clamp(lamina::detail::round_up(ceil_div(steps, choice.splits), tile.teams), 2, linear_stream::max_stages);
    while (stages > 0 && tile.shared_bytes(stages, choice.splits) > max_shared_bytes(preparation.device, tile)) {
      stages -= tile.teams;
    }
    const int blocks = std::min(choice.tiles * choice.splits, multiprocessors);
    if (stages < 2 || 10 * blocks < 9 * best_blocks) continue;
    best = choice, best_blocks = blocks;
  }
  return best;
}

/// Whole tiles, whichever the number of rows asks for: all batches share one copy.
int packed_blocks(const LinearProblem& o) { return lamina::detail::round_up(ceil_div(o.out, block_outputs), 2); }

/// [out, in] as blocks of 64 outputs, step by step, each 64 rows of 128 bytes, swizzled; zeros past the ends.
template <class Round>
Tensor pack(const LinearProblem& o, int blocks, Round&& round) {
  const float* weight = lamina::detail::floats(o.weight);
  using Stored = decltype(round(0.0f, 0));
  constexpr int terms = step_bytes / static_cast<int>(sizeof(Stored));
  const int steps = ceil_div(o.in, terms);
  const std::size_t step_bytes_of_all = static_cast<std::size_t>(blocks) * block_bytes;
  // Not a vector: that would be filled with zeros by one thread first, and be made of small pages.
  Tensor packed({static_cast<std::int64_t>(static_cast<std::size_t>(steps) * step_bytes_of_all)}, DType::u8);
  const auto pack_row = [&](int output) {
    const float* w = weight + static_cast<std::int64_t>(output) * o.in;
    const int columns = output < o.out ? o.in : 0;
    auto* block =
        static_cast<unsigned char*>(packed.raw()) + static_cast<std::size_t>(output / block_outputs) * block_bytes;
    for (int step = 0; step < steps; ++step, block += step_bytes_of_all) {
      // A whole step at a time: the compiler vectorises that, and the copies find what they read in one store.
      alignas(64) Stored values[terms] = {};
      const int first = step * terms, count = std::min(columns - first, terms);
      if (count == terms) {
        for (int i = 0; i < terms; ++i) values[i] = round(w[first + i], output);
      } else {
        for (int i = 0; i < count; ++i) values[i] = round(w[first + i], output);
      }
      for (int chunk = 0; chunk < step_bytes; chunk += 16) {
        std::memcpy(block + swizzled(output % block_outputs, chunk), values + chunk / static_cast<int>(sizeof(Stored)),
                    16);
      }
    }
  };
  const auto rows = static_cast<std::size_t>(blocks * block_outputs);
  lamina::detail::in_parallel(rows, 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t output = begin; output < end; ++output) pack_row(static_cast<int>(output));
  });
  return packed;
}

}  // namespace

Tensor pack_linear(const LinearProblem& o, Precision precision) {
  const int blocks = packed_blocks(o);
  switch (precision) {
    case Precision::fp16: return pack(o, blocks, [](float w, int) { return to_half(w).bits; });
    case Precision::bf16: return pack(o, blocks, [](float w, int) { return to_bfloat16(w).bits; });
    case Precision::tf32:
      return pack(o, blocks, [](float w, int) { return round_to_tf32(std::bit_cast<std::uint32_t>(w)); });
    case Precision::fp32: break;
  }
  return pack(o, blocks, [](float w, int) { return w; });
}

std::optional<ScaledLinear> pack_scaled_linear(const LinearProblem& o) {
  if (o.in % 8 != 0) return {};
  const float* weight = lamina::detail::floats(o.weight);
  ScaledLinear result{.weights = Tensor(), .scales = std::vector<float>(static_cast<std::size_t>(o.out))};
  std::vector<float> powers(result.scales.size());
  std::atomic<bool> representable = true;
  lamina::detail::in_parallel(powers.size(), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t output = begin; output < end; ++output) {
      const float* w = weight + static_cast<std::int64_t>(output) * o.in;
      const auto shift = shift_of_scaled(w, o.in);
      if (!shift) {
        representable = false;
        return;
      }
      powers[output] = std::ldexp(1.0f, *shift), result.scales[output] = std::ldexp(1.0f, -*shift);
    }
  });
  if (!representable) return {};
  result.weights = pack(o, packed_blocks(o), [&](float w, int output) {
    return to_half(w * powers[static_cast<std::size_t>(output)]).bits;
  });
  return result;
}

bool linear_stream_takes(const LinearProblem& o, const Preparation& p) {
  const DType storage = storage_type(p.precision), output = p.output().format.dtype;
  const int max_rows = p.precision == Precision::fp32 ? 8 : 32;
  return p.device.wgmma && !p.batch_invariant && o.epilogue.is_simple() && linear_formats_fit(p) &&
         o.rows <= max_rows && o.in <= linear_max_terms &&
         static_cast<std::size_t>(o.in) * size_of(storage) % 16 == 0 && (output == storage || output == DType::f32);
}

std::unique_ptr<Operator> prepare_linear_stream(const LinearProblem& problem, const Preparation& preparation) {
  const Precision precision = preparation.precision;
  const DType storage = storage_type(precision);
  const Choice choice = choose(problem, preparation);
  const Tile& tile = choice.tile;
  if (choice.tiles == 0) lamina::detail::fail("linear: no tile of stream fits what was asked for");
  const int packed = packed_blocks(problem), blocks = choice.tiles * choice.splits;
  Constants constants(preparation.device.device.index);
  const linear_stream::Arguments args = {
      .weight = constants.add(pack_linear(problem, precision)),
      .bias = constants.add(padded_biases(problem.bias, std::int64_t{packed} * block_outputs)),
      .output_type = preparation.output().format.dtype,
      .relu = problem.epilogue.relu(),
      .rows = static_cast<int>(problem.rows),
      .in = problem.in,
      .out = problem.out,
      .blocks = packed,
      .steps = ceil_div(problem.in, step_terms(precision)),
      .stages = choice.stages,
      .splits = choice.splits};
  reserve_shared_memory(constants.device(), tile.kernel, max_shared_bytes(preparation.device, tile));
  return make_launched(
      Launched<linear_stream::Arguments>{
          .description = lamina::detail::concat(
              "stream: weights in ", name(storage), " by TMA, ", tile.outputs, " outputs x ", tile.rows,
              " rows per block",
              precision == Precision::fp32 ? "" : lamina::detail::concat(" (wgmma, ", name(precision), ")"),
              choice.splits > 1 ? lamina::detail::concat(", over ", choice.splits, " splits") : "", ", ring of ",
              choice.stages, ", ", blocks, " blocks"),
          .kernel = tile.kernel,
          .how = of_blocks(blocks, tile.threads, tile.shared_bytes(choice.stages, choice.splits), choice.splits),
          .args = args,
          .constants = std::move(constants)},
      [input = MatrixMap{.type = tensor_map_type(storage, precision == Precision::tf32),
                         .rows = problem.rows,
                         .columns = problem.in,
                         .box_rows = tile.rows,
                         .swizzled = tile.swizzled}](const auto& arguments, auto, auto) {
        return std::tuple(matrix_map(input, arguments.input));
      });
}

}  // namespace lamina::cuda
