#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lamina/cuda/conv2d/conv2d.h"

namespace lamina::cuda {

struct LinearOptions {
  int device = 0;
  Precision precision = Precision::fp32;  ///< least exact arithmetic allowed
  DType output = DType::f32;              ///< f32, or storage_type(precision)
  std::int64_t rows = 1;
  int in = 0;
  int out = 0;
  bool relu = false;  ///< y = max(y, 0) in the epilogue; NaN stays NaN
  std::size_t workspace_limit = std::size_t{256} << 20;
};

/// One fully connected layer made ready for one device. Immutable; `run` may be called from several threads.
class LinearKernel {
 public:
  virtual ~LinearKernel() = default;

  virtual std::string description() const = 0;
  virtual std::size_t workspace_bytes() const = 0;
  virtual std::size_t parameter_bytes() const = 0;

  /// Enqueues output [rows, out] = input [rows, in] * weight' + bias in device memory, 16-byte aligned. The input is of
  /// storage_type(precision), the output of options.output.
  virtual void run(const void* input, void* output, void* workspace, Stream stream) const = 0;
};

/// `weight` [out, in] and `bias` [out] (or null) are f32 in host memory. Throws Error if memory runs out.
std::unique_ptr<LinearKernel> prepare_linear(const LinearOptions& options, const float* weight, const float* bias);

}  // namespace lamina::cuda
