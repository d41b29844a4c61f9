#include "lamina/cuda/implicit_gemm.h"

#include <algorithm>
#include <limits>

#include "lamina/cuda/buffer.h"
#include "lamina/cuda/check.h"
#include "lamina/cuda/implicit_gemm_layout.h"
#include "lamina/tensor/error.h"
#include "lamina/tensor/math.h"

namespace lamina::cuda {
namespace {

using namespace implicit_gemm;
using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr std::int64_t most_blocks = std::numeric_limits<int>::max();
constexpr std::int64_t most_pixels = std::int64_t{1} << 30;  // of a launch: indices of pixels are ints
constexpr std::int64_t most_units = std::int64_t{1} << 31;   // of a launch: offsets in the staged input are 32 bits
constexpr std::size_t alignment = 256;

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

KernelSet kernels(Precision precision, int device) {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, device);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor, device);
  switch (precision) {
    case Precision::fp32: return kernels_fp32(major, minor);
    case Precision::tf32: return kernels_tf32(major, minor);
    case Precision::fp16: return kernels_fp16(major, minor);
    case Precision::bf16: break;
  }
  return kernels_bf16(major, minor);
}

bool types_fit(const Conv2dOptions& options) {
  const auto fits = [&options](DType type) {
    return type == DType::f32 || (type == DType::f16 && options.precision == Precision::fp16) ||
           (type == DType::bf16 && options.precision == Precision::bf16);
  };
  return fits(options.input) && fits(options.output);
}

std::int64_t staged_image_units(const ConvGeometry& geometry, const Layout& layout) {
  return geometry.in_pixels() * layout.units_per_pixel;
}

std::int64_t tiles_per_group(const ConvGeometry& geometry, std::int64_t images, const Tile& tile) {
  return ceil_div<std::int64_t>(geometry.group_out_channels(), tile.block_m) *
         ceil_div<std::int64_t>(images * geometry.out_pixels(), tile.block_n);
}

/// Images of one launch: all, or as many as the workspace, 32-bit offsets and the grid allow; 0 if not even one.
std::int64_t images_per_launch(const ConvGeometry& geometry, const Conv2dOptions& options, const Layout& layout) {
  const std::int64_t units = staged_image_units(geometry, layout);
  const auto limit = static_cast<std::int64_t>(std::min<std::size_t>(options.workspace_limit, std::size_t{1} << 62));
  // The smallest tile of all, 64 x 64, bounds the grid from above; a tile more covers what rounding up adds.
  const std::int64_t filter_tiles = ceil_div(geometry.group_out_channels(), 64) * std::int64_t{geometry.groups};
  const std::int64_t pixels = std::min(most_pixels, (most_blocks / filter_tiles - 1) * 64);
  const std::int64_t most =
      std::min({limit / layout.unit_bytes / units, most_units / units, pixels / geometry.out_pixels(), geometry.batch});
  return most < 1 ? 0 : ceil_div(geometry.batch, ceil_div(geometry.batch, most));
}

/// What a launch is expected to take, in clock cycles: blocks run in waves, as many to a multiprocessor as fit; a step
/// takes what the tensor cores need, but not less than its loads' latency. The rates are measured (docs).
double expected_cycles(const ConvGeometry& geometry, std::int64_t images, Precision precision, const Layout& layout,
                       const Tile& tile, int resident, int multiprocessors, int splits) {
  const double terms_per_cycle = precision == Precision::fp32 ? 150 : precision == Precision::tf32 ? 450 : 900;
  constexpr double shortest_step = 700, overhead = 3500, reduction = 4000, partial_bytes_per_cycle = 1500;
  const double small_tile = tile.block_m * tile.block_n < 96 * 64 ? 1.3 : 1.0;  // more loads for each product

  const double step = small_tile * tile.block_m * tile.block_n * (step_bytes / layout.element_bytes) / terms_per_cycle;
  const int steps = ceil_div(layout.steps, splits);
  const auto wave = [&](std::int64_t blocks_per_multiprocessor) {
    return steps * std::max(step * static_cast<double>(blocks_per_multiprocessor), shortest_step) + overhead;
  };
  const std::int64_t blocks = tiles_per_group(geometry, images, tile) * geometry.groups * splits;
  const std::int64_t at_once = std::int64_t{multiprocessors} * resident;
  double cycles = static_cast<double>(blocks / at_once) * wave(resident);
  if (blocks % at_once != 0) cycles += wave(ceil_div<std::int64_t>(blocks % at_once, multiprocessors));
  if (splits > 1) {
    cycles += reduction + 8.0 * splits * static_cast<double>(images * geometry.out_channels * geometry.out_pixels()) /
                              partial_bytes_per_cycle;
  }
  return cycles;
}

class ImplicitGemm final : public Conv2dKernel {
 public:
  ImplicitGemm(const ConvGeometry& geometry, const Conv2dOptions& options, const float* weight, const float* bias,
               const ImplicitGemmChoice& choice)
      : geometry_(geometry), options_(options), layout_(make_layout(geometry, options.precision)) {
    const DeviceGuard guard(options.device);
    images_ = images_per_launch(geometry, options, layout_);
    if (images_ < 1) lamina::detail::fail("implicit_gemm: one image needs more than the workspace limit");
    choose(choice);

    std::vector<FilterRange> filters;
    const auto packed = pack_weights(geometry, layout_, options.precision, tile_.block_m, weight, filters);
    const auto taps = make_taps(geometry, layout_);
    weight_ = Buffer(options.device, packed.data(), packed.size());
    taps_ = Buffer(options.device, taps.data(), taps.size() * sizeof(Position));
    filters_ = Buffer(options.device, filters.data(), filters.size() * sizeof(FilterRange));
    if (bias != nullptr) {
      bias_ = Buffer(options.device, bias, static_cast<std::size_t>(geometry.out_channels) * sizeof(float));
    }
  }

  ConvAlgorithm algorithm() const override { return ConvAlgorithm::implicit_gemm; }

  std::string description() const override {
    return lamina::detail::concat("implicit_gemm (", tile_.instruction, ", ", name(options_.precision),
                                  "): ", tile_.block_m, " filters x ", tile_.block_n, " pixels per block, K in ",
                                  layout_.steps, " steps of 128 bytes", splits_ > 1 ? " over " : "",
                                  splits_ > 1 ? std::to_string(splits_) + " splits" : "", ", ",
                                  (tile_.shared_bytes + 1023) / 1024, " KB shared memory");
  }

  std::size_t workspace_bytes() const override { return staged_bytes() + partial_bytes(splits_); }

  std::size_t parameter_bytes() const override {
    return weight_.bytes() + taps_.bytes() + filters_.bytes() + bias_.bytes();
  }

  void run(const void* input, void* output, void* workspace, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    const auto input_image = static_cast<std::size_t>(geometry_.in_channels * geometry_.in_pixels());
    const auto output_image = static_cast<std::size_t>(geometry_.out_channels * geometry_.out_pixels());
    for (std::int64_t first = 0; first < geometry_.batch; first += images_) {
      const auto skipped = static_cast<std::size_t>(first);
      run_slice(std::min(images_, geometry_.batch - first),
                static_cast<const unsigned char*>(input) + skipped * input_image * size_of(options_.input),
                static_cast<unsigned char*>(output) + skipped * output_image * size_of(options_.output),
                static_cast<unsigned char*>(workspace), static_cast<cudaStream_t>(stream));
    }
  }

 private:
  std::size_t staged_bytes() const {
    return round_up(static_cast<std::size_t>(images_ * staged_image_units(geometry_, layout_) * layout_.unit_bytes),
                    alignment);
  }

  std::size_t partial_bytes(int splits) const {
    if (splits == 1) return 0;
    return static_cast<std::size_t>(images_ * geometry_.out_channels * geometry_.out_pixels()) *
           static_cast<std::size_t>(splits) * sizeof(float);
  }

  /// The tile and the splits that promise the shortest time, and the kernel attributes they need.
  void choose(const ImplicitGemmChoice& choice) {
    const KernelSet set = kernels(options_.precision, options_.device);
    const int multiprocessors = attribute(cudaDevAttrMultiProcessorCount, options_.device);
    const int largest_shared = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, options_.device);
    reduce_ = set.reduce;
    double best = std::numeric_limits<double>::infinity();
    int best_resident = 0;
    for (int i = 0; i < static_cast<int>(set.tiles.size()); ++i) {
      const Tile& tile = set.tiles[static_cast<std::size_t>(i)];
      const int shared = static_cast<int>(tile.shared_bytes);
      if (tile.unit_bytes != layout_.unit_bytes || shared > largest_shared) continue;
      if (choice.tile >= 0 && choice.tile != i) continue;
      check(cudaFuncSetAttribute(tile.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
      int resident = 0;
      check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, tile.kernel, threads, tile.shared_bytes));
      if (resident < 1) continue;
      const std::int64_t blocks = tiles_per_group(geometry_, images_, tile) * geometry_.groups;
      for (int splits = 1; splits <= std::min(layout_.steps, 32); ++splits) {
        if (choice.splits > 0 && std::min(choice.splits, layout_.steps) != splits) continue;
        // Only as many as get a step at least.
        const int used = ceil_div(layout_.steps, ceil_div(layout_.steps, splits));
        if (used != splits && choice.splits <= 0) continue;
        if (used > 1 && (blocks > most_blocks / used || blocks > 4 * multiprocessors ||
                         staged_bytes() + partial_bytes(used) > options_.workspace_limit)) {
          continue;
        }
        const double cycles =
            expected_cycles(geometry_, images_, options_.precision, layout_, tile, resident, multiprocessors, used);
        if (cycles >= best) continue;
        best = cycles;
        best_resident = resident;
        tile_ = tile;
        splits_ = used;
      }
    }
    if (best_resident == 0) lamina::detail::fail("implicit_gemm: no tile fits this device");
    // Leave to L1 what the blocks leave over: it holds the slab of the input that the taps share. Rounded down, because
    // the driver rounds up to the next size it has.
    const int reserved = attribute(cudaDevAttrReservedSharedMemoryPerBlock, options_.device);
    const int capacity = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, options_.device);
    const int carveout = best_resident * (static_cast<int>(tile_.shared_bytes) + reserved) * 100 / capacity;
    check(cudaFuncSetAttribute(tile_.kernel, cudaFuncAttributePreferredSharedMemoryCarveout, carveout));
  }

  void run_slice(std::int64_t images, const void* input, void* output, unsigned char* workspace,
                 cudaStream_t stream) const {
    stage_channels_last(geometry_, images, options_.precision, options_.input, input, workspace, layout_.unit_elements,
                        layout_.units_per_group, stream);
    Arguments args{
        .geometry = geometry_,
        .input = workspace,
        .weight = weight_.data(),
        .bias = bias_.as<float>(),
        .filters = filters_.as<FilterRange>(),
        .taps = taps_.as<Position>(),
        .output = output,
        .partial = reinterpret_cast<float*>(workspace + staged_bytes()),
        .output_type = options_.output,
        .relu = options_.relu,
        .group_out_channels = geometry_.group_out_channels(),
        .pixels = static_cast<int>(images * geometry_.out_pixels()),
        .block_m = tile_.block_m,
        .m_tiles = ceil_div(geometry_.group_out_channels(), tile_.block_m),
        .steps = layout_.steps,
        .steps_per_split = ceil_div(layout_.steps, splits_),
        .splits = splits_,
        .unit_elements = layout_.unit_elements,
        .units_per_pixel = layout_.units_per_pixel,
        .units_per_group = layout_.units_per_group,
    };
    args.geometry.batch = images;
    args.n_tiles = ceil_div(args.pixels, tile_.block_n);
    const auto blocks = static_cast<unsigned>(args.m_tiles) * static_cast<unsigned>(args.n_tiles) *
                        static_cast<unsigned>(geometry_.groups) * static_cast<unsigned>(splits_);
    void* pointers[] = {&args};
    check(cudaLaunchKernel(tile_.kernel, dim3(blocks), dim3(threads), pointers, tile_.shared_bytes, stream));
    if (splits_ == 1) return;
    const dim3 grid(static_cast<unsigned>(ceil_div(args.pixels, threads)),
                    static_cast<unsigned>(std::min(geometry_.out_channels, 65535)));
    check(cudaLaunchKernel(reduce_, grid, dim3(threads), pointers, 0, stream));
  }

  ConvGeometry geometry_;
  Conv2dOptions options_;
  Layout layout_;
  std::int64_t images_ = 0;
  Tile tile_;
  int splits_ = 1;
  const void* reduce_ = nullptr;
  Buffer weight_, taps_, filters_, bias_;
};

}  // namespace

bool implicit_gemm_supports(const ConvGeometry& geometry, const Conv2dOptions& options) {
  if (!types_fit(options)) return false;
  if (geometry.kernel_height > largest_kernel || geometry.kernel_width > largest_kernel) return false;
  if (attribute(cudaDevAttrComputeCapabilityMajor, options.device) < 8) return false;
  return images_per_launch(geometry, options, make_layout(geometry, options.precision)) > 0;
}

std::unique_ptr<Conv2dKernel> make_implicit_gemm(const ConvGeometry& geometry, const Conv2dOptions& options,
                                                 const float* weight, const float* bias,
                                                 const ImplicitGemmChoice& choice) {
  return std::make_unique<ImplicitGemm>(geometry, options, weight, bias, choice);
}

}  // namespace lamina::cuda
