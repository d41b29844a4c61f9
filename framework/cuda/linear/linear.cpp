#include "lamina/cuda/linear/linear.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/implicit_gemm/implicit_gemm.h"
#include "lamina/cuda/linear/rows.h"
#include "lamina/cuda/linear/stream.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/cublas.h"
#include "lamina/cuda/tensor_core/chain.h"
#include "lamina/tensor/tensor.h"

namespace lamina::cuda {
namespace {

constexpr std::size_t alignment = 256;  // of cuBLAS's workspace; the caller's is aligned to 16 bytes only
constexpr std::size_t usual_gemm_workspace = 4u << 20;
constexpr std::size_t least_gemm_workspace = 16u << 10;

/// Terms that cuBLAS adds one after another at most, as in conv2d_im2col.cpp.
constexpr int product_depth = max_chain;

/// f32 values on the device in another type.
Constant upload(int device, DType type, const float* values, std::int64_t count) {
  if (values == nullptr) return {};
  const Tensor host = Tensor::borrow(const_cast<float*>(values), {count}, DType::f32).to(type);
  return Constant(device, host.raw(), host.bytes());
}

/// Few rows: the weights stream once for every 8 of them.
class FewRows final : public LinearKernel {
 public:
  FewRows(const LinearOptions& options, const float* weight, const float* bias)
      : options_(options),
        storage_(storage_type(options.precision)),
        packed_(options.rows == 1 && linear_stream_supports(options)),
        bias_(upload(options.device, DType::f32, bias, options.out)) {
    // One row is all memory's time, and f16 keeps TF32's 11 bits in half the bytes.
    if (packed_ && options.precision == Precision::tf32) {
      if (const auto scaled = pack_scaled_linear(options, weight)) {
        weight_ = Constant(options.device, scaled->weights.raw(), scaled->weights.bytes());
        scales_ = Constant(options.device, scaled->scales.data(), scaled->scales.size() * sizeof(float));
        return;
      }
    }
    if (packed_) {
      const auto packed = pack_linear(options, weight);
      weight_ = Constant(options.device, packed.raw(), packed.bytes());
    } else {
      weight_ = upload(options.device, storage_, weight, std::int64_t{options.out} * options.in);
    }
  }

  std::string description() const override {
    const int outputs = linear_block_outputs(std::min<std::int64_t>(options_.rows, linear_rows_at_once), options_.out);
    return detail::concat("weights streamed in ", name(scales_.bytes() > 0 ? DType::f16 : storage_),
                          scales_.bytes() > 0 ? ", scaled" : "", ", a block for ", outputs,
                          outputs == 1 ? " output" : " outputs");
  }
  std::size_t workspace_bytes() const override { return 0; }
  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes() + scales_.bytes(); }

  void run(const void* input, void* output, void*, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    const auto offset = [](std::int64_t elements, DType type) {
      return static_cast<std::size_t>(elements) * size_of(type);
    };
    for (std::int64_t row = 0; row < options_.rows; row += linear_rows_at_once) {
      linear_few_rows({.input = static_cast<const std::byte*>(input) + offset(row * options_.in, storage_),
                       .weight = weight_.data(),
                       .packed = packed_,
                       .scales = scales_.as<float>(),
                       .bias = bias_.as<float>(),
                       .output = static_cast<std::byte*>(output) + offset(row * options_.out, options_.output),
                       .storage = storage_,
                       .output_type = options_.output,
                       .rows = std::min<std::int64_t>(linear_rows_at_once, options_.rows - row),
                       .in = options_.in,
                       .out = options_.out,
                       .relu = options_.relu},
                      stream);
    }
  }

 private:
  LinearOptions options_;
  DType storage_;
  bool packed_;      // as linear_stream's, to share the copy with plans of more rows
  Constant weight_;  // [out, in]
  Constant bias_;    // [out]
  Constant scales_;  // [out] of weights in scaled f16, or nothing
};

std::size_t gemm_workspace(const LinearOptions& options) {
  return std::clamp(detail::round_up(options.workspace_limit / 16, alignment), least_gemm_workspace,
                    usual_gemm_workspace);
}

/// Many rows: products by cuBLAS. In fp32 they are cut along `in` as the precision contract needs, see product_depth.
class Product final : public LinearKernel {
 public:
  Product(const LinearOptions& options, const float* weight, const float* bias)
      : options_(options),
        storage_(storage_type(options.precision)),
        depth_(storage_ == DType::f32 ? product_depth : options.in),
        gemm_bytes_(gemm_workspace(options)),
        cublas_(Cublas::on_device(options.device)),
        weight_(upload(options.device, storage_, weight, std::int64_t{options.out} * options.in)),
        bias_(upload(options.device, DType::f32, bias, options.out)) {}

  std::string description() const override {
    const std::int64_t parts = detail::ceil_div(options_.in, depth_);
    return detail::concat("cuBLAS in ", name(options_.precision), ", the sum in ", parts,
                          parts == 1 ? " part" : " parts");
  }
  std::size_t workspace_bytes() const override { return alignment + gemm_bytes_; }
  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes(); }

  void run(const void* input, void* output, void* workspace, Stream stream) const override {
    const DeviceGuard guard(options_.device);
    auto* aligned = reinterpret_cast<char*>(
        detail::round_up(reinterpret_cast<std::uintptr_t>(workspace), std::uintptr_t{alignment}));
    // Row-major output [rows, out] = input [rows, in] * weight' is, column-major as cuBLAS reads memory,
    // output' [out, rows] = (weight' [in, out])' * input' [in, rows].
    for (int first = 0; first < options_.in; first += depth_) {
      const std::size_t skipped = static_cast<std::size_t>(first) * size_of(storage_);
      cublas_->gemm({.operands = storage_,
                     .result = options_.output,
                     .m = options_.out,
                     .n = options_.rows,
                     .k = std::min(depth_, options_.in - first),
                     .transpose_a = true,
                     .a = weight_.as<std::byte>() + skipped,
                     .lda = options_.in,
                     .stride_a = 0,
                     .b = static_cast<const std::byte*>(input) + skipped,
                     .ldb = options_.in,
                     .stride_b = 0,
                     .beta = first == 0 ? 0.0f : 1.0f,
                     .c = output,
                     .ldc = options_.out,
                     .stride_c = 0,
                     .count = 1},
                    options_.precision, aligned, gemm_bytes_, stream);
    }
    if (bias_.data() == nullptr && !options_.relu) return;
    linear_epilogue({.input = input,
                     .weight = nullptr,
                     .bias = bias_.as<float>(),
                     .output = output,
                     .storage = storage_,
                     .output_type = options_.output,
                     .rows = options_.rows,
                     .in = options_.in,
                     .out = options_.out,
                     .relu = options_.relu},
                    stream);
  }

 private:
  LinearOptions options_;
  DType storage_;
  int depth_;  // terms of one product
  std::size_t gemm_bytes_;
  std::shared_ptr<Cublas> cublas_;
  Constant weight_;  // [out, in]
  Constant bias_;    // [out]
};

/// Tensor cores: a fully connected layer is a 1x1 convolution of 1x1 images, whose layout is any.
class TensorCores final : public LinearKernel {
 public:
  TensorCores(const LinearOptions& o, const float* weight, const float* bias)
      : kernel_(prepare_conv2d(geometry(o), convolution(o), weight, bias)) {}

  static bool takes(const LinearOptions& o) {
    const Conv2dOptions options = convolution(o);
    return options.input_layout == Layout::nhwc || implicit_gemm_supports(geometry(o), options);
  }

  static ConvGeometry geometry(const LinearOptions& o) {
    ConvGeometry g;
    g.batch = o.rows;
    g.in_channels = o.in;
    g.out_channels = o.out;
    g.in_height = g.in_width = g.out_height = g.out_width = g.kernel_height = g.kernel_width = 1;
    return g;
  }

  /// Channels last if there is a kernel for it: others rearrange their input first.
  static Conv2dOptions convolution(const LinearOptions& o) {
    Conv2dOptions options = {.device = o.device,
                             .precision = o.precision,
                             .algorithm = ConvAlgorithm::implicit_gemm,
                             .input = storage_type(o.precision),
                             .output = o.output,
                             .input_layout = Layout::nhwc,
                             .output_layout = Layout::nhwc,
                             .relu = o.relu,
                             .workspace_limit = o.workspace_limit};
    if (!conv2d_takes(geometry(o), options)) options.input_layout = options.output_layout = Layout::nchw;
    return options;
  }

  std::string description() const override { return kernel_->description(); }
  std::size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  std::size_t parameter_bytes() const override { return kernel_->parameter_bytes(); }
  void run(const void* input, void* output, void* workspace, Stream stream) const override {
    kernel_->run(input, output, workspace, stream);
  }

 private:
  std::unique_ptr<Conv2dKernel> kernel_;
};

/// Rows up to which FewRows is the fastest, by measurement (docs/plans.md): on Hopper linear_stream takes over early.
/// Elsewhere 16-bit operands have to be converted, and four rows of them are as much work as eight of f32.
std::int64_t few_rows(Precision precision, bool streams) {
  if (streams) return 1;
  return storage_type(precision) == DType::f32 ? linear_rows_at_once : 4;
}

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
  const bool short_enough = options.in <= linear_max_terms, streams = linear_stream_supports(options);
  if (short_enough && options.rows <= few_rows(options.precision, streams)) {
    return std::make_unique<FewRows>(options, weight, bias);
  }
  if (streams) return make_linear_stream(options, weight, bias);
  // Of the tensor-core kernels the one for Hopper is ahead of cuBLAS. The others are not on 16-bit operands; on f32
  // they are again: there cuBLAS's sums would have to be cut short in fp32, and its TF32 truncates.
  const bool hopper = TensorCores::convolution(options).input_layout == Layout::nhwc;
  const bool takes = TensorCores::takes(options);
  if (hopper || (takes && storage_type(options.precision) == DType::f32)) {
    return std::make_unique<TensorCores>(options, weight, bias);
  }
  if (cublas_available(options.device)) return std::make_unique<Product>(options, weight, bias);
  // A network must not need a library that only its last layers use.
  if (takes) return std::make_unique<TensorCores>(options, weight, bias);
  if (short_enough) return std::make_unique<FewRows>(options, weight, bias);
  return std::make_unique<Product>(options, weight, bias);  // says what is missing
}

}  // namespace lamina::cuda
