#include "lamina/cuda/linear.h"

#include <algorithm>
#include <vector>

#include "lamina/cuda/buffer.h"
#include "lamina/cuda/check.h"
#include "lamina/cuda/cublas.h"
#include "lamina/cuda/linear_kernels.h"
#include "lamina/tensor/error.h"
#include "lamina/tensor/math.h"

namespace lamina::cuda {
namespace {

constexpr std::size_t alignment = 256;  // of cuBLAS's workspace; the caller's is aligned to 16 bytes only
constexpr std::size_t usual_gemm_workspace = 4u << 20;
constexpr std::size_t least_gemm_workspace = 16u << 10;

/// Terms that cuBLAS adds one after another at most, as in conv2d_im2col.cpp.
constexpr int product_depth = 128;

Buffer upload(int device, const float* values, std::int64_t count) {
  if (values == nullptr) return {};
  return Buffer(device, values, static_cast<std::size_t>(count) * sizeof(float));
}

/// Few rows: the weights stream once for every 8 of them.
class FewRows final : public LinearKernel {
 public:
  FewRows(const LinearOptions& options, const float* weight, const float* bias)
      : options_(options),
        weight_(upload(options.device, weight, std::int64_t{options.out} * options.in)),
        bias_(upload(options.device, bias, options.out)) {}

  std::string description() const override { return "a warp for each output, weights streamed in fp32"; }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes(); }

  void run(const float* input, float* output, void*, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    for (std::int64_t row = 0; row < options_.rows; row += linear_rows_at_once) {
      linear_few_rows({.input = input + row * options_.in,
                       .weight = weight_.as<float>(),
                       .bias = bias_.as<float>(),
                       .output = output + row * options_.out,
                       .rows = std::min<std::int64_t>(linear_rows_at_once, options_.rows - row),
                       .in = options_.in,
                       .out = options_.out,
                       .relu = options_.relu},
                      stream);
    }
  }

 private:
  LinearOptions options_;
  Buffer weight_;  // [out, in]
  Buffer bias_;    // [out]
};

/// Many rows: products by cuBLAS in fp32, cut along `in` as the precision contract needs, see product_depth.
class Product final : public LinearKernel {
 public:
  Product(const LinearOptions& options, const float* weight, const float* bias)
      : options_(options),
        gemm_bytes_(std::clamp(detail::round_up(options.workspace_limit / 16, alignment), least_gemm_workspace,
                               usual_gemm_workspace)),
        cublas_(Cublas::on_device(options.device)),
        bias_(upload(options.device, bias, options.out)) {
    const std::vector<float> transposed = transpose(weight);
    weight_ = upload(options.device, transposed.data(), static_cast<std::int64_t>(transposed.size()));
  }

  std::string description() const override {
    const std::int64_t parts = detail::ceil_div(options_.in, product_depth);
    return detail::concat("cuBLAS in fp32, the sum in ", parts, parts == 1 ? " part" : " parts");
  }
  std::size_t workspace_bytes() const override { return alignment + gemm_bytes_; }
  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes(); }

  void run(const float* input, float* output, void* workspace, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    auto* aligned = reinterpret_cast<char*>(
        detail::round_up(reinterpret_cast<std::uintptr_t>(workspace), std::uintptr_t{alignment}));
    // Row-major output [rows, out] = input [rows, in] * weight' [in, out] is, column-major as cuBLAS reads memory,
    // output' [out, rows] = weight [out, in] * input' [in, rows].
    for (int first = 0; first < options_.in; first += product_depth) {
      cublas_->gemm({.m = options_.out,
                     .n = options_.rows,
                     .k = std::min(product_depth, options_.in - first),
                     .a = weight_.as<float>() + std::int64_t{first} * options_.out,
                     .lda = options_.out,
                     .stride_a = 0,
                     .b = input + first,
                     .ldb = options_.in,
                     .stride_b = 0,
                     .beta = first == 0 ? 0.0f : 1.0f,
                     .c = output,
                     .ldc = options_.out,
                     .stride_c = 0,
                     .count = 1},
                    Precision::fp32, aligned, gemm_bytes_, stream);
    }
    if (bias_.data() == nullptr && !options_.relu) return;
    linear_epilogue({.input = input,
                     .weight = nullptr,
                     .bias = bias_.as<float>(),
                     .output = output,
                     .rows = options_.rows,
                     .in = options_.in,
                     .out = options_.out,
                     .relu = options_.relu},
                    stream);
  }

 private:
  /// [out, in] -> [in, out], in tiles that stay in cache.
  std::vector<float> transpose(const float* weight) const {
    constexpr std::int64_t tile = 32;
    const std::int64_t in = options_.in, out = options_.out;
    std::vector<float> result(static_cast<std::size_t>(in * out));
    for (std::int64_t o0 = 0; o0 < out; o0 += tile) {
      for (std::int64_t i0 = 0; i0 < in; i0 += tile) {
        for (std::int64_t o = o0; o < std::min(out, o0 + tile); ++o) {
          for (std::int64_t i = i0; i < std::min(in, i0 + tile); ++i) {
            result[static_cast<std::size_t>(i * out + o)] = weight[o * in + i];
          }
        }
      }
    }
    return result;
  }

  LinearOptions options_;
  std::size_t gemm_bytes_;
  std::shared_ptr<Cublas> cublas_;
  Buffer weight_;  // [in, out]
  Buffer bias_;    // [out]
};

/// Tensor cores: a fully connected layer is a 1x1 convolution of 1x1 images.
class TensorCores final : public LinearKernel {
 public:
  TensorCores(const LinearOptions& o, const float* weight, const float* bias) {
    ConvGeometry g;
    g.batch = o.rows;
    g.in_channels = o.in;
    g.out_channels = o.out;
    g.in_height = g.in_width = g.out_height = g.out_width = g.kernel_height = g.kernel_width = 1;
    const Conv2dOptions options = {.device = o.device,
                                   .precision = o.precision,
                                   .algorithm = ConvAlgorithm::implicit_gemm,
                                   .relu = o.relu,
                                   .workspace_limit = o.workspace_limit};
    kernel_ = prepare_conv2d(g, options, weight, bias);
  }

  std::string description() const override { return kernel_->description(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::size_t parameter_bytes() const override { return kernel_->parameter_bytes(); }
  void run(const float* input, float* output, void* workspace, Stream stream) const override {
    kernel_->run(input, output, workspace, stream);
  }

 private:
  std::unique_ptr<Conv2dKernel> kernel_;
};

// Rows up to which two passes over the weights beat a product.
constexpr std::int64_t few_rows = 2 * linear_rows_at_once;

bool cublas_available(int device) {
  try {
    (void)Cublas::on_device(device);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::unique_ptr<LinearKernel> prepare_linear(const LinearOptions& options, const float* weight, const float* bias) {
  if (options.rows <= few_rows) return std::make_unique<FewRows>(options, weight, bias);
  // Without cuBLAS on the host, our own products do: a network must not need what only its last layers use.
  if (options.precision != Precision::fp32 || !cublas_available(options.device)) {
    return std::make_unique<TensorCores>(options, weight, bias);
  }
  return std::make_unique<Product>(options, weight, bias);
}

}  // namespace lamina::cuda
