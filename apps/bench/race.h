#pragma once

#include <lamina/lamina.h>

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/report.h"
#include "lamina/base/thread_pool.h"

namespace lamina::app {

/// The convolution that `lamina bench conv2d` measures; a size is one number for both axes, or two.
struct RaceOptions {
  int in = 3, out = 96, groups = 1;
  std::vector<int> size{224}, kernel{11}, stride{4}, padding{2}, dilation{1};
  Layout layout = Layout::nchw;  ///< nhwc: activations as a network keeps them inside, in the precision's type
  std::optional<Format> input;   ///< nothing: f32 nchw, or as `layout` says
  int threads = 0;
  bool relu = false, no_bias = false;
  double seconds = 0.5;
};

/// Times convolution algorithms on random tensors and checks what they computed.
class Conv2dRace {
 public:
  /// Throws Error if the options name no convolution, or one that the device has no layout for.
  Conv2dRace(const RaceOptions& options, Device device);

  const Conv2d& conv() const { return conv_; }
  int threads() const { return pool_.threads(); }
  Shape input_shape(std::int64_t n) const;

  /// The batch of the measurements that follow.
  void prepare_batch(std::int64_t n);
  /// What the device cannot do is told in the result's note.
  /// `algorithm`: one of conv_algorithms, or auto.
  BenchResult measure(std::string_view algorithm, Precision precision);
  /// CPU only: what the matrix product inside im2col costs by itself.
  BenchResult measure_product();

 private:
  Format input_format(Precision precision) const;
  Format output_format(Precision precision) const;
  Tensor converted(const Tensor& tensor, Format from, Format to) const;
  void prepare_buffers(Precision precision);
  BenchResult describe(std::string algorithm, Precision precision) const;
  void rate(BenchResult& result, std::size_t input_element) const;
  void check(BenchResult& result, Precision precision);

  const RaceOptions options_;
  Device device_;
  ThreadPool pool_;
  std::mt19937 random_{1};
  Conv2d conv_;
  ConvGeometry geometry_;
  Shape output_shape_;
  Tensor host_input_;                            // f32 nchw
  std::vector<std::pair<Tensor, Tensor>> ring_;  // inputs and outputs: on a GPU enough to overflow the L2 cache
};

}  // namespace lamina::app
