#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/pool_geometry.h"
#include "lamina/tensor/format.h"

/// The CUDA convolution as the layers see it. No CUDA type appears here; stub.cpp stands in without the toolkit.
namespace lamina::cuda {

/// A cudaStream_t; null is the default stream.
using Stream = void*;

struct Conv2dOptions {
  int device = 0;
  Precision precision = Precision::fp32;
  ConvAlgorithm algorithm = ConvAlgorithm::automatic;
  DType input = DType::f32;                              ///< f32, or f16 / bf16 under that precision
  DType output = DType::f32;                             ///< likewise
  Layout input_layout = Layout::nchw;                    ///< nchw or nhwc
  Layout output_layout = Layout::nchw;                   ///< likewise
  bool relu = false;                                     ///< y = max(y, 0) in the epilogue; NaN stays NaN
  std::optional<PoolGeometry> pool = {};                 ///< max pooling after that: the output is the pooled map
  std::size_t workspace_limit = std::size_t{256} << 20;  ///< bytes; a kernel that would need more works in slices
};

/// One convolution made ready for one device: algorithm chosen, weights packed and uploaded.
/// Immutable once made; `run` may be called from several threads on different streams.
class Conv2dKernel {
 public:
  virtual ~Conv2dKernel() = default;

  virtual ConvAlgorithm algorithm() const = 0;
  /// What was picked and why, for people: "tiled 8x32 pixels x 32 channels, 37 KB shared memory".
  virtual std::string description() const = 0;
  /// Bytes of device scratch memory that `run` needs.
  virtual std::size_t workspace_bytes() const = 0;
  /// Bytes of device memory that the packed weights take.
  virtual std::size_t parameter_bytes() const = 0;

  /// Enqueues the convolution. `input` [N, C, H, W], `output` [N, OC, OH, OW] (or the pooled map), each in its layout,
  /// and `workspace` are device memory, 16-byte aligned. Allocates nothing and does not wait.
  virtual void run(const void* input, void* output, void* workspace, Stream stream) const = 0;
};

/// Whether prepare_conv2d has a kernel for these formats, layouts and pool on that device. Cheap; packs nothing.
bool conv2d_takes(const ConvGeometry& geometry, const Conv2dOptions& options);

/// Prepares a convolution. `weight` [OC, C / groups, KH, KW] and `bias` [OC] (or null) are f32 in host memory.
/// Throws Error if the options ask for what no kernel can do, naming what can, or if the device is out of memory.
std::unique_ptr<Conv2dKernel> prepare_conv2d(const ConvGeometry& geometry, const Conv2dOptions& options,
                                             const float* weight, const float* bias);

}  // namespace lamina::cuda
