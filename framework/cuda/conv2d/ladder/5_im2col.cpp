#include <algorithm>
#include <bit>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/ladder/kernels.h"
#include "lamina/cuda/conv2d/ladder/ladder.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/cublas.h"
#include "lamina/cuda/tensor_core/chain.h"
#include "lamina/cuda/tensor_core/operand_rows.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cuda::ladder {
namespace {

using detail::ceil_div;
using detail::fail;
using detail::round_up;

constexpr std::size_t alignment = 256;                   // of cuBLAS's workspace
constexpr std::size_t usual_gemm_workspace = 4u << 20;   // what cuBLAS gives itself on most devices
constexpr std::size_t least_gemm_workspace = 16u << 10;  // with less, products fail
constexpr std::int64_t least_pixels = 32;                // of a slice: fewer are not worth a product

constexpr std::int64_t max_products = 65535;  // in one call: cuBLAS puts them on the grid's z axis

/// Terms that cuBLAS adds one after another at most, see max_chain: in fp32 the reduction is
/// cut into products of this depth, each added to the one before.
constexpr std::int64_t product_depth = max_chain;

/// How the work is cut: over images, or over pixels where one image's columns exceed the workspace; and over the
/// reduction, into chunks of equal depth.
struct Im2colPlan {
  std::int64_t images = 0;  // of a slice
  std::int64_t pixels = 0;  // of a slice
  std::int64_t pitch = 0;   // of a slice
  std::int64_t chunks = 1;
  std::int64_t depth = 0;  // of a chunk, but perhaps the last
  std::size_t gemm_bytes = 0;
  std::size_t column_bytes = 0;
};

Im2colPlan make_plan(const ConvGeometry& g, const Preparation& preparation) {
  Im2colPlan plan;
  plan.chunks = preparation.precision == Precision::tf32 ? 1 : ceil_div(g.reduction(), product_depth);
  plan.depth = ceil_div(g.reduction(), plan.chunks);
  plan.chunks = ceil_div(g.reduction(), plan.depth);

  const std::size_t limit = preparation.workspace_limit;
  const std::size_t column = static_cast<std::size_t>(g.reduction()) * sizeof(float);  // bytes of one pixel's column
  plan.gemm_bytes = std::clamp(round_up(limit / 16, alignment), least_gemm_workspace, usual_gemm_workspace);
  const std::size_t fixed = alignment + plan.gemm_bytes;  // the caller's workspace is aligned to 16 bytes only
  const std::size_t least =
      fixed + column * static_cast<std::size_t>(std::min(least_pixels, round_up(g.out_pixels(), std::int64_t{4})));
  if (limit < least) {
    fail("conv2d: algorithm im2col needs at least ", least, " bytes of workspace here, the limit is ", limit);
  }
  const auto columns = static_cast<std::int64_t>((limit - fixed) / column);
  const std::int64_t image_pitch = round_up(g.out_pixels(), std::int64_t{4});
  if (columns >= image_pitch) {
    plan.pixels = g.out_pixels();
    plan.pitch = image_pitch;
    // cuBLAS's kernel, and how that adds, may follow the number of products.
    const std::int64_t most = preparation.batch_invariant ? 1 : std::min(columns / image_pitch, max_products);
    plan.images = ceil_div(g.batch, ceil_div(g.batch, most));
  } else {
    plan.images = 1;
    plan.pixels = columns / 4 * 4;
    plan.pitch = plan.pixels;
  }
  plan.column_bytes = static_cast<std::size_t>(plan.images * plan.pitch) * column;
  return plan;
}

class Im2col final : public Operator {
 public:
  Im2col(const ConvProblem& problem, const Preparation& preparation)
      : device_(preparation.device.device.index),
        geometry_(problem.geometry),
        precision_(preparation.precision),
        relu_(problem.epilogue.relu()),
        plan_(make_plan(geometry_, preparation)),
        cublas_(Cublas::on_device(device_)),
        bias_(device_, problem.bias.raw(), problem.bias.bytes()) {
    const std::vector<float> packed = pack(detail::floats(problem.weight));
    weight_ = Constant(device_, packed.data(), packed.size() * sizeof(float));
  }

  std::string description() const override {
    return detail::concat("im2col: unfold ", plan_.images, plan_.images == 1 ? " image, " : " images, ", plan_.pixels,
                          " pixels, at a time, then cuBLAS in ", name(precision_), ", the sum in ", plan_.chunks,
                          plan_.chunks == 1 ? " part" : " parts");
  }

  std::size_t workspace_bytes() const override { return alignment + plan_.gemm_bytes + plan_.column_bytes; }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(device_);
    const ConvGeometry& g = geometry_;
    auto* gemm_workspace = reinterpret_cast<char*>(
        round_up(reinterpret_cast<std::uintptr_t>(execution.workspace), std::uintptr_t{alignment}));
    auto* columns = reinterpret_cast<float*>(gemm_workspace + plan_.gemm_bytes);
    for (std::int64_t image = 0; image < g.batch; image += plan_.images) {
      for (int group = 0; group < g.groups; ++group) {
        for (std::int64_t pixel = 0; pixel < g.out_pixels(); pixel += plan_.pixels) {
          Im2colSlice slice;
          slice.first_image = image;
          slice.images = std::min(plan_.images, g.batch - image);
          slice.group = group;
          slice.first_pixel = pixel;
          slice.pixels = std::min(plan_.pixels, g.out_pixels() - pixel);
          slice.pitch = plan_.pitch;
          run_slice(slice, detail::floats(inputs[0]), detail::floats(outputs[0]), columns, gemm_workspace,
                    execution.stream);
        }
      }
    }
  }

 private:
  /// [OC, K] -> [chunks][OC, depth rounded up to 4]: every chunk's rows start on 16 bytes.
  std::vector<float> pack(const float* weight) const {
    const std::int64_t k = geometry_.reduction();
    const std::int64_t pitch = weight_pitch();
    const bool tf32 = precision_ == Precision::tf32;
    std::vector<float> packed(static_cast<std::size_t>(plan_.chunks * geometry_.out_channels * pitch));
    for (std::int64_t oc = 0; oc < geometry_.out_channels; ++oc) {
      for (std::int64_t i = 0; i < k; ++i) {
        const float w = weight[oc * k + i];
        packed[static_cast<std::size_t>((i / plan_.depth * geometry_.out_channels + oc) * pitch + i % plan_.depth)] =
            tf32 ? std::bit_cast<float>(round_to_tf32(std::bit_cast<std::uint32_t>(w))) : w;
      }
    }
    return packed;
  }

  std::int64_t weight_pitch() const { return round_up(plan_.depth, std::int64_t{4}); }

  void run_slice(const Im2colSlice& slice,
                 const float* input,  // [N, C, H, W]
                 float* output,       // [N, OC, OH, OW]
                 float* columns,      // [slice.images, K, slice.pitch]
                 void* gemm_workspace, Stream stream) const {
    const ConvGeometry& g = geometry_;
    const std::int64_t k = g.reduction();
    im2col(g, slice, input, columns, precision_ == Precision::tf32, stream);
    // Row-major output[OC, pixels] = weight[OC, K] * columns[K, pixels] is, column-major as cuBLAS reads memory,
    // output'[pixels, OC] = columns'[pixels, K] * weight'[K, OC]: no transposition anywhere.
    const std::int64_t first_channel = std::int64_t{slice.group} * g.group_out_channels();
    for (std::int64_t chunk = 0; chunk < plan_.chunks; ++chunk) {
      const std::int64_t first = chunk * plan_.depth;
      cublas_->gemm(
          {.m = slice.pixels,
           .n = g.group_out_channels(),
           .k = std::min(plan_.depth, k - first),
           .a = columns + first * slice.pitch,
           .lda = slice.pitch,
           .stride_a = k * slice.pitch,
           .b = weight_.as<float>() + (chunk * g.out_channels + first_channel) * weight_pitch(),
           .ldb = weight_pitch(),
           .stride_b = 0,
           .beta = chunk == 0 ? 0.0f : 1.0f,
           .c = output + (slice.first_image * g.out_channels + first_channel) * g.out_pixels() + slice.first_pixel,
           .ldc = g.out_pixels(),
           .stride_c = g.out_channels * g.out_pixels(),
           .count = slice.images},
          precision_, gemm_workspace, plan_.gemm_bytes, stream);
    }
    if (bias_.data() != nullptr || relu_) {
      add_bias_and_activate(g, slice, bias_.as<float>(), output, relu_, stream);
    }
  }

  int device_;
  ConvGeometry geometry_;
  Precision precision_;
  bool relu_;
  Im2colPlan plan_;
  std::shared_ptr<Cublas> cublas_;
  Constant weight_;
  Constant bias_;
};

}  // namespace

bool im2col_takes(const ConvProblem&, const Preparation& p) {
  return p.is_plain() && (p.precision == Precision::fp32 || p.precision == Precision::tf32);
}

std::unique_ptr<Operator> prepare_im2col(const ConvProblem& problem, const Preparation& preparation) {
  return std::make_unique<Im2col>(problem, preparation);
}

}  // namespace lamina::cuda::ladder
