#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "lamina/base/export.h"
#include "lamina/base/function.h"
#include "lamina/graph/model.h"
#include "lamina/plan/plan.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// Which of the numbers that a value had in calibration its 256 levels reach over.
enum class Calibration {
  minmax,      ///< all of them
  percentile,  ///< all but the ten-thousandth part at either end, which is cut off
};

struct QuantizeOptions {
  Calibration calibration = Calibration::minmax;
  /// What the outputs may be off by on the samples held back: |y8 - y| / |y|, of the output that is off most. Layers
  /// stay in floats until it holds, those first that do most harm.
  double max_error = std::numeric_limits<double>::infinity();
  bool equalize = true;         ///< bring the channels between two layers to ranges alike, which changes no answer
  bool correct_bias = true;     ///< take off what rounding the weights adds to a channel on average
  CompileOptions compile = {};  ///< how the networks are run that are measured: device, threads, shapes left open
  /// Told how many networks were measured, of how many at most.
  Function<void(std::size_t done, std::size_t most)> progress = {};
};

/// What became of a convolution, or of a product with constant weights.
struct QuantizedLayer {
  std::string name, op;
  double error = 0;  ///< of the outputs, were this layer alone in eight bits
  bool quantized = false;
  std::string why = {};  ///< it is not
};

/// A model that multiplies in eight bits, and what it cost.
struct Quantized {
  Model model;
  std::vector<QuantizedLayer> layers;  ///< in the graph's order
  double error = 0;                    ///< of the outputs on the samples held back
  double agreement = 1;                ///< the share of `compared` whose largest output is the same; 1 of none
  std::size_t compared = 0;   ///< rows of scores [N, classes] in what was held back; none if the outputs are others
  std::size_t held_back = 0;  ///< samples, every fourth; the only one served for both
  std::size_t equalized = 0;  ///< groups of channels that were brought to ranges alike
};

/// Quantises a network of one f32 input: u8 values with a scale and a zero point, i8 weights with a scale for each
/// output channel, as QuantizeLinear and DequantizeLinear around its convolutions and products. `samples` are inputs as
/// they occur, f32 of batch 1 or of the batch that is written into the network. Throws Error if there is no sample, if
/// the network is quantised already or has nothing to quantise, and if `max_error` leaves nothing in eight bits.
LAMINA_API Quantized quantize(const Model& model, std::span<const Tensor> samples, const QuantizeOptions& options = {});

/// Before there are samples: throws the Error that the model alone is a reason for, and that of writing the result to a
/// file of this name, .safetensors or .onnx; none: to none.
LAMINA_API void require_quantizable(const Model& model, const std::filesystem::path& out = {});

}  // namespace lamina
