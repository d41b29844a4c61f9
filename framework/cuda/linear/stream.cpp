#include "lamina/cuda/linear/stream.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "lamina/base/error.h"
#include "lamina/base/in_parallel.h"
#include "lamina/base/math.h"
#include "lamina/cuda/linear/rows.h"
#include "lamina/cuda/linear/stream_arguments.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch_attributes.h"
#include "lamina/cuda/tensor_core/has_code.h"
#include "lamina/cuda/tensor_core/tensor_map.h"
#include "lamina/cuda/tensor_core/weights.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {
namespace {

using lamina::detail::ceil_div;
using linear_stream::block_bytes;
using linear_stream::block_outputs;
using linear_stream::Tile;

std::vector<Tile> tiles(Precision precision) {
  switch (precision) {
    case Precision::fp16: return linear_stream::tiles_fp16();
    case Precision::bf16: return linear_stream::tiles_bf16();
    case Precision::tf32: return linear_stream::tiles_tf32();
    case Precision::fp32: return linear_stream::tiles_fp32();
  }
  return {};
}

int step_terms(Precision precision) { return step_bytes / static_cast<int>(size_of(storage_type(precision))); }

/// For one of the blocks that share a multiprocessor.
int most_shared_bytes(int device, const Tile& tile) {
  if (tile.resident == 1) return device_attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return device_attribute(device, cudaDevAttrMaxSharedMemoryPerMultiprocessor) / tile.resident -
         device_attribute(device, cudaDevAttrReservedSharedMemoryPerBlock);
}

struct Choice {
  Tile tile;
  int tiles = 0, splits = 1, stages = 2;
};

/// As many blocks as there are multiprocessors, or nearly: memory is busy when all of them ask. Of tiles that allow it
/// the largest, if rows are many: each tile reads all the input.
Choice choose(const LinearOptions& o, const LinearStreamChoice& wanted) {
  const int multiprocessors = device_attribute(o.device, cudaDevAttrMultiProcessorCount);
  const int steps = ceil_div(o.in, step_terms(o.precision));
  Choice best;
  int best_blocks = 0;
  for (const Tile& tile : tiles(o.precision)) {
    if (tile.rows < o.rows || (best.tiles > 0 && tile.rows > best.tile.rows)) continue;
    if (wanted.outputs > 0 && wanted.outputs != tile.outputs) continue;
    Choice choice = {.tile = tile, .tiles = ceil_div(o.out, tile.outputs)};
    const int most = std::min(max_splits, steps);
    choice.splits = wanted.splits > 0 ? wanted.splits : std::clamp(multiprocessors / choice.tiles, 1, most);
    if (choice.splits > most) continue;
    int& stages = choice.stages;
    stages =
        std::clamp(lamina::detail::round_up(ceil_div(steps, choice.splits), tile.teams), 2, linear_stream::max_stages);
    while (stages > 0 && tile.shared_bytes(stages, choice.splits) > most_shared_bytes(o.device, tile)) {
      stages -= tile.teams;
    }
    const int blocks = std::min(choice.tiles * choice.splits, multiprocessors);
    if (stages < 2 || 10 * blocks < 9 * best_blocks) continue;
    best = choice, best_blocks = blocks;
  }
  return best;
}

/// Whole tiles, whichever the number of rows asks for: all batches share one copy.
int packed_blocks(const LinearOptions& o) { return lamina::detail::round_up(ceil_div(o.out, block_outputs), 2); }

/// [out, in] as blocks of 64 outputs, step by step, each 64 rows of 128 bytes, swizzled; zeros past the ends.
template <class Round>
Tensor pack(const LinearOptions& o, int blocks, const float* weight, Round&& round) {
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

Tensor pack_linear(const LinearOptions& o, const float* weight) {
  const int blocks = packed_blocks(o);
  switch (o.precision) {
    case Precision::fp16: return pack(o, blocks, weight, [](float w, int) { return to_half(w).bits; });
    case Precision::bf16: return pack(o, blocks, weight, [](float w, int) { return to_bfloat16(w).bits; });
    case Precision::tf32:
      return pack(o, blocks, weight, [](float w, int) { return round_to_tf32(std::bit_cast<std::uint32_t>(w)); });
    case Precision::fp32: break;
  }
  return pack(o, blocks, weight, [](float w, int) { return w; });
}

std::optional<ScaledLinear> pack_scaled_linear(const LinearOptions& o, const float* weight) {
  if (o.in % 8 != 0) return {};
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
  result.weights = pack(o, packed_blocks(o), weight, [&](float w, int output) {
    return to_half(w * powers[static_cast<std::size_t>(output)]).bits;
  });
  return result;
}

namespace {

class LinearStream final : public LinearKernel {
 public:
  LinearStream(const LinearOptions& options, const float* weight, const float* bias, const LinearStreamChoice& wanted)
      : options_(options) {
    const DeviceGuard guard(options.device);
    choice_ = choose(options, wanted);
    if (choice_.tiles == 0) lamina::detail::fail("linear: no tile of linear_stream fits what was asked for");
    const int blocks = packed_blocks(options);
    const auto packed = pack_linear(options, weight);
    std::vector<float> biases(static_cast<std::size_t>(blocks * block_outputs));
    if (bias != nullptr) std::copy(bias, bias + options.out, biases.begin());
    weight_ = Constant(options.device, packed.raw(), packed.bytes());
    bias_ = Constant(options.device, biases.data(), biases.size() * sizeof(float));
    args_ = {.weight = weight_.data(),
             .bias = bias_.as<float>(),
             .output_type = options.output,
             .relu = options.relu,
             .rows = static_cast<int>(options.rows),
             .in = options.in,
             .out = options.out,
             .blocks = blocks,
             .steps = ceil_div(options.in, step_terms(options.precision)),
             .stages = choice_.stages,
             .splits = choice_.splits};
    check(cudaFuncSetAttribute(choice_.tile.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               most_shared_bytes(options.device, choice_.tile)));
    check(cudaFuncSetAttribute(choice_.tile.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared));
  }

  std::string description() const override {
    return lamina::detail::concat(
        "weights streamed in ", name(storage_type(options_.precision)), " by the copy engine, ", choice_.tile.outputs,
        " outputs x ", choice_.tile.rows, " rows per block",
        options_.precision == Precision::fp32 ? "" : lamina::detail::concat(" (wgmma, ", name(options_.precision), ")"),
        choice_.splits > 1 ? lamina::detail::concat(", over ", choice_.splits, " splits") : std::string(), ", ring of ",
        choice_.stages, ", ", blocks(), " blocks");
  }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes(); }

  void run(const void* input, void* output, void*, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    linear_stream::Arguments args = args_;
    args.input = input;
    args.output = output;
    CUtensorMap map =
        matrix_map({.type = tensor_map_type(storage_type(options_.precision), options_.precision == Precision::tf32),
                    .rows = options_.rows,
                    .columns = options_.in,
                    .box_rows = choice_.tile.rows,
                    .swizzled = choice_.tile.swizzled},
                   input);
    cudaLaunchAttribute attributes[] = {may_overlap(), mostly_shared_memory(), {}};
    attributes[2].id = cudaLaunchAttributeClusterDimension;
    attributes[2].val.clusterDim.x = static_cast<unsigned>(choice_.splits);
    attributes[2].val.clusterDim.y = attributes[2].val.clusterDim.z = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks()));
    config.blockDim = dim3(static_cast<unsigned>(choice_.tile.threads));
    config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes());
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = attributes;
    config.numAttrs = choice_.splits > 1 ? 3 : 2;
    void* arguments[] = {&args, &map};
    check(cudaLaunchKernelExC(&config, choice_.tile.kernel, arguments));
  }

 private:
  int blocks() const { return choice_.tiles * choice_.splits; }
  int shared_bytes() const { return choice_.tile.shared_bytes(choice_.stages, choice_.splits); }

  LinearOptions options_;
  Choice choice_;
  linear_stream::Arguments args_;
  Constant weight_, bias_;
};

}  // namespace

bool linear_stream_supports(const LinearOptions& o) {
  const DType storage = storage_type(o.precision);
  const int most_rows = o.precision == Precision::fp32 ? 8 : 32;
  if (o.rows > most_rows || o.in > linear_max_terms) return false;
  if (static_cast<std::size_t>(o.in) * size_of(storage) % 16 != 0) return false;
  if (o.output != storage && o.output != DType::f32) return false;
  const DeviceGuard guard(o.device);
  return device_attribute(o.device, cudaDevAttrComputeCapabilityMajor) == 9 &&
         device_attribute(o.device, cudaDevAttrComputeCapabilityMinor) == 0 &&
         has_code(tiles(o.precision).front().kernel);
}

std::unique_ptr<LinearKernel> make_linear_stream(const LinearOptions& options, const float* weight, const float* bias,
                                                 const LinearStreamChoice& choice) {
  return std::make_unique<LinearStream>(options, weight, bias, choice);
}

}  // namespace lamina::cuda
