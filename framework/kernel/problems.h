#pragma once

#include <cstdint>
#include <string_view>

#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/epilogue.h"
#include "lamina/kernel/local_response.h"
#include "lamina/kernel/pool_geometry.h"
#include "lamina/tensor/tensor.h"

/// What kernels solve: numbers and parameters, validated by the layers. Parameters are f32 on the CPU; a Tensor that is
/// not defined stands for none. Shapes and formats are the Preparation's.
namespace lamina {

struct ConvProblem {
  static constexpr std::string_view what = "conv2d";
  ConvGeometry geometry = {};
  Tensor weight = {};  ///< [OC, C / groups, KH, KW]
  Tensor bias = {};    ///< [OC]
  Prologue prologue = {};
  Epilogue epilogue = {};
};

/// output [rows, out] = input [rows, in] * weight' + bias
struct LinearProblem {
  static constexpr std::string_view what = "linear";
  std::int64_t rows = 1;
  int in = 0, out = 0;
  Tensor weight = {};  ///< [out, in]
  Tensor bias = {};    ///< [out]
  Epilogue epilogue = {};
};

/// The largest value of each window (NaN if there is one in it); its mean; or the mean of windows that cover the image,
/// of which only the extents of the geometry are used.
enum class PoolKind { largest, average, adaptive };

struct PoolProblem {
  static constexpr std::string_view what = "pooling";
  PoolKind kind = PoolKind::largest;
  PoolGeometry geometry;
};

/// Functions of the elements of inputs of one shape: the chain begins with those of the first.
struct PointwiseProblem {
  static constexpr std::string_view what = "elementwise";
  PointwiseChain chain;
};

/// scale x + shift, each of a channel's own.
struct AffineProblem {
  static constexpr std::string_view what = "scale and shift";
  Tensor scale = {}, shift = {};  ///< [C]
  Epilogue epilogue = {};
};

/// exp(x) / the sum of exp(x) along a dimension of the logical shape.
struct SoftmaxProblem {
  static constexpr std::string_view what = "softmax";
  int dim = 0;
};

/// The inputs side by side along a dimension of the logical shape.
struct ConcatProblem {
  static constexpr std::string_view what = "concat";
  int dim = 0;
};

struct LocalResponseProblem {
  static constexpr std::string_view what = "local_response_norm";
  LocalResponse settings;
};

/// The same elements in another format.
struct ConversionProblem {
  static constexpr std::string_view what = "conversion";
};

/// 8-bit pictures, u8 nhwc of 3 channels: output channel c of a pixel is what row c of `table` says of its byte
/// c, or 2 - c for bgr.
struct NormalizationProblem {
  static constexpr std::string_view what = "normalisation";
  Tensor table;  ///< f32 [3, 256]
  bool bgr = false;
};

}  // namespace lamina
