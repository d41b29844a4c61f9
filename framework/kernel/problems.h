#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/epilogue.h"
#include "lamina/kernel/local_response.h"
#include "lamina/kernel/pool_geometry.h"
#include "lamina/tensor/quantization.h"
#include "lamina/tensor/tensor.h"

/// What kernels solve: numbers and parameters, validated by the layers. Parameters are f32 on the CPU; a Tensor that is
/// not defined stands for none. Shapes and formats are the Preparation's.
namespace lamina {

/// Weights in eight bits beside those of f32 that they stand for: scale * (weight - zero_point), each of an output
/// channel's own. They count where input 0 is in eight bits too; the formulas are in docs/inside/precision.md.
struct EightBitWeights {
  Tensor weight = {};      ///< i8, shaped as those of f32; undefined: there are none
  Tensor scale = {};       ///< f32 [OC]
  Tensor zero_point = {};  ///< i32 [OC]; undefined: 0
  Tensor bias = {};        ///< i32 [OC], in units of `bias_scale`; undefined: the bias is that of f32, if there is one
  Tensor bias_scale = {};  ///< f32 [OC]; counts if it is the input's scale times the weights', rounded once
  bool whole = false;      ///< the output is the sums as they are, i32

  bool defined() const { return weight.defined(); }
};

struct ConvProblem {
  static constexpr std::string_view what = "conv2d";
  static constexpr bool of_convolutions = true;  ///< Preparation::algorithm is about it
  ConvGeometry geometry = {};
  Tensor weight = {};  ///< [OC, C / groups, KH, KW]
  Tensor bias = {};    ///< [OC]
  Epilogue epilogue = {};
  /// What is done to input 0 before it is multiplied, and before the padding's zeros are put around it: nothing; or its
  /// channels are multiplied by input 1, [N, C, 1, 1]; or numbers become codes. Codes may be multiplied and become
  /// codes of their type again: clamp(round((x - x's zero point) * factor) + zero point), the factors being f32, those
  /// of detail::product_slopes.
  PointwiseChain prologue = {};
  EightBitWeights eight = {};

  bool scaled() const { return !prologue.empty() && prologue[0].operand == 1; }
  double flops() const { return geometry.flops(); }
};

/// output [rows, out] = input [rows, in] * weight' + bias
struct LinearProblem {
  static constexpr std::string_view what = "linear";
  std::int64_t rows = 1;
  int in = 0, out = 0;
  Tensor weight = {};  ///< [out, in]
  Tensor bias = {};    ///< [out]
  Epilogue epilogue = {};
  EightBitWeights eight = {};
};

/// The largest value of each window (NaN if there is one in it); its mean; or the mean of windows that cover the image,
/// of which only the extents of the geometry are used.
enum class PoolKind { largest, average, adaptive };

struct PoolProblem {
  static constexpr std::string_view what = "pooling";
  PoolKind kind = PoolKind::largest;
  PoolGeometry geometry;

  friend bool operator==(const PoolProblem&, const PoolProblem&) = default;
};

/// A chain of functions of the elements of inputs that broadcast to the output's shape, as NumPy's do: aligned at the
/// last extent, 1 stands for any. Inputs and output may be of any dtype; all are converted to `compute` (f32, f64, i64
/// or u64; f16 and bf16 are computed in f32, whole numbers and booleans in i64) and the result to the output's dtype:
/// floats to nearest even, whole numbers to fewer bits by dropping the upper ones, a float to a whole number towards
/// zero (saturating; NaN to 0), to a boolean whether it is not 0. Or codes of input 0 are looked up: a chain of that
/// alone.
struct PointwiseProblem {
  static constexpr std::string_view what = "elementwise";
  PointwiseChain chain;
  DType compute = DType::f32;
};

/// scale x + shift, each of a channel's own.
struct AffineProblem {
  static constexpr std::string_view what = "scale and shift";
  Tensor scale = {}, shift = {};  ///< [C]
  Epilogue epilogue = {};
};

/// exp(x) / the sum of exp(x) along a dimension of the logical shape, or its logarithm.
enum class SoftmaxKind { softmax, log_softmax };

struct SoftmaxProblem {
  static constexpr std::string_view what = "softmax";
  int dim = 0;
  SoftmaxKind kind = SoftmaxKind::softmax;
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

/// Elements of input 0 in other places, of any dtype, both nchw. The output is walked in row-major order over `axes`,
/// whose extents multiply to its size (they may be a finer division of its shape). The element at (i0, i1, ...) is the
/// input's at the sum of the axes' offsets, or `fill` where one of them is -1.
///
/// This is permuting, slicing, flipping, rolling, expanding, tiling, padding in every mode, depth to space, and taking
/// nearest pixels.
struct MoveProblem {
  static constexpr std::string_view what = "move";
  struct Axis {
    std::int64_t extent = 1;
    std::int64_t stride = 0;                 ///< offset of i: i * stride
    std::vector<std::int64_t> offsets = {};  ///< or, if not empty, offsets[i], in elements; -1: outside
  };
  std::vector<Axis> axes;
  double fill = 0;
};

enum class Reduction {
  sum,
  mean,
  max,
  min,
  prod,
  l1,
  l2,
  sum_square,
  log_sum,
  log_sum_exp,
  arg_max,
  arg_min,  ///< one dimension; the output is i64: the place of the first such element, or of the last
};

/// All elements along some dimensions become one. max and min are NaN if an element is, arg_max finds it. Of nothing:
/// the function's identity (-Inf for max, 0 for sum, NaN for mean).
struct ReduceProblem {
  static constexpr std::string_view what = "reduction";
  Reduction kind = Reduction::sum;
  unsigned dims = 0;  ///< bit d: dimension d of input 0's logical shape is reduced
  bool last = false;  ///< of equals, arg_max and arg_min find the last

  friend bool operator==(const ReduceProblem&, const ReduceProblem&) = default;
};

/// (x - mean) / sqrt(variance + eps), the variance that of the population; x / sqrt(mean square + eps); x / (mean +
/// eps); x / max(sqrt(sum of squares), eps).
enum class NormKind { centred, root_mean_square, mean, length };

/// Rows of `length` elements, one after the other (nchw), each normalised. Then element e of the whole is multiplied by
/// scale[c] and shift[c] is added, c = e / inner % channels.
///   layer norm: length = inner-most extents, inner = 1, channels = length
///   group norm: length = C / groups * H * W, inner = H * W, channels = C; instance norm: groups = C
/// A group norm's rows may also be stored channels last, of images [N, C, H, W].
struct NormProblem {
  static constexpr std::string_view what = "norm";
  std::int64_t length = 1;
  double eps = 1e-5;
  NormKind kind = NormKind::centred;
  std::int64_t inner = 1;
  std::int64_t channels = 1;
  Tensor scale = {}, shift = {};  ///< [channels]; undefined: 1, 0
  Epilogue epilogue = {};
};

/// output [..., M, N] = alpha * a [..., M, K] b [..., K, N]; what stands before the last two extents broadcasts.
/// Transposed operands have their last two extents swapped. All nchw.
struct MatMulProblem {
  static constexpr std::string_view what = "matmul";
  bool transpose_a = false, transpose_b = false;
  double alpha = 1;
};

/// softmax(scale * q k' + mask) v for each head, without L x S memory. q [N, H, L, D], k [N, G, S, D], v [N, G, S, E],
/// output [N, H, L, E]; H is a multiple of G: head h reads k and v of h / (H / G). Input 3, if there is one, is the
/// mask, f32-like, and broadcasts to [N, H, L, S]; that of fewer images, which divide N, is repeated. causal: position
/// l sees 0 to l + `past`. A row that sees nothing is 0.
struct AttentionProblem {
  static constexpr std::string_view what = "attention";
  double scale = 1;
  bool causal = false;
  std::int64_t past = 0;
};

/// Along each listed dimension of the logical shape, output element i is the sum over t of weights[i * taps + t] *
/// input element indices[i * taps + t]; with more dimensions, the sum over all combinations of taps. f32 sums.
struct ResampleProblem {
  static constexpr std::string_view what = "resize";
  struct Axis {
    int dim = 0;
    int taps = 1;
    std::vector<int> indices = {};    ///< [out * taps]
    std::vector<float> weights = {};  ///< [out * taps]
  };
  std::vector<Axis> axes;
};

/// Elements of input 0 at places that input 1, of i64 or i32, says; negative ones count from the end. One that is
/// outside is an Error on the CPU and a Fault on a GPU, which leaves 0 there. Any dtype, nchw, b = batch_dims.
///   take:     output [a..., indices..., c...] = input [a..., D, c...] along `dim`
///   elements: output[i][j][k] = input[i][index[i][j][k]][k], for dim = 1
///   nd:       output [b..., i..., rest...]: indices [b..., i..., K] select K extents of the input after the first b
enum class GatherKind { take, elements, nd };

struct GatherProblem {
  static constexpr std::string_view what = "gather";
  GatherKind kind = GatherKind::take;
  int dim = 0;
  int batch_dims = 0;
};

/// The inverse: input 0 with the elements of input 2 put in at the places that input 1 says, in row-major order of the
/// updates, so that the last of equals stays. Same bits on every run, for sums of floats too.
enum class ScatterReduction { none, add, mul, max, min };

struct ScatterProblem {
  static constexpr std::string_view what = "scatter";
  GatherKind kind = GatherKind::elements;  ///< elements or nd
  int dim = 0;
  ScatterReduction reduction = ScatterReduction::none;
};

/// The places, i64, of the k largest (or smallest) along a dimension, in order; equals by place; NaN is the largest.
struct TopKProblem {
  static constexpr std::string_view what = "topk";
  int dim = 0;
  std::int64_t k = 1;
  bool largest = true;
};

/// torch.nn.functional.grid_sample: input [N, C, H, W] f32-like, grid [N, OH, OW, 2] (x, y in -1 .. 1), nchw both.
enum class GridMode { linear, nearest, cubic };
enum class GridPadding { zeros, border, reflection };

/// What ONNX's RoiAlign takes of each bin of a box, its numbers by their names there.
struct Bins {
  bool max = false, half_pixel = true;
  int sampling_ratio = 0;  ///< 0: as many as a bin has pixels
  float spatial_scale = 1;
};

struct GridSampleProblem {
  static constexpr std::string_view what = "grid_sample";
  GridMode mode = GridMode::linear;
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
  /// In place of a grid: boxes [R, 4], the images that they are of, i64 [R], and how many of them there are, i64 [1].
  /// The output is [R, C, OH, OW], zeros for boxes that are not there.
  std::optional<Bins> bins = {};
};

/// The sum, or product, of the elements along a dimension up to each one. f32, f64, i32, i64.
struct CumulativeProblem {
  static constexpr std::string_view what = "cumulative sum";
  int dim = 0;
  bool exclusive = false;  ///< without the element itself
  bool reverse = false;    ///< from the end
  bool product = false;
};

}  // namespace lamina
