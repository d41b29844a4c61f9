#include "lamina/cuda/conv2d/depthwise/depthwise.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/depthwise/arguments.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cuda::depthwise {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

constexpr int shared_limit = 96 * 1024;  // two blocks on a multiprocessor of any device from 8.0 on but 8.6 and 8.9

std::vector<Instance> instances(DType type) {
  return type == DType::f16 ? instances_f16() : type == DType::bf16 ? instances_bf16() : instances_f32();
}

/// Threads of several rows of outputs read and convert less, but are fewer, and run twice the code: not for launches
/// that would leave most of a multiprocessor idle.
/// `wanted`: Tuning::outputs, at most so many rows.
bool has_threads(const Instance& instance, const ConvGeometry& g, const DeviceDescription& device, int wanted) {
  if (wanted > 0) return instance.rows <= wanted;
  const std::int64_t threads = g.batch * ceil_div(g.out_height, instance.rows) *
                               ceil_div(g.out_width, instance.columns) * (g.in_channels / instance.pack);
  return instance.rows == 1 || threads >= std::int64_t{max_threads} * device.multiprocessors;
}

bool fits(const Instance& instance, const ConvGeometry& g, const DeviceDescription& device, int wanted_rows) {
  if (g.in_channels % instance.pack != 0) return false;
  if (instance.kernel == 0) return true;
  if (!has_threads(instance, g, device, wanted_rows)) return false;
  return device.architecture >= 80 && g.kernel_height == instance.kernel && g.kernel_width == instance.kernel &&
         g.stride_height == instance.stride && g.stride_width == instance.stride && g.dilation_height == 1 &&
         g.dilation_width == 1;
}

/// What a launch needs besides addresses.
struct Shape {
  std::int64_t blocks = 0;
  int threads = max_threads;
  int shared_bytes = 0;
};

/// Divides the work of a tiled kernel into blocks: into those that read the fewest pixels of halo and leave few threads
/// without work, but into enough for all multiprocessors.
Shape divide(const Instance& instance, int element_bytes, const DeviceDescription& device, Arguments& args) {
  const ConvGeometry& g = args.geometry;
  const int packs = g.in_channels / instance.pack, pack_bytes = instance.pack * element_bytes;
  const int wide = ceil_div(g.out_width, instance.columns), high = ceil_div(g.out_height, instance.rows);
  Shape best;
  double best_cost = std::numeric_limits<double>::infinity();
  for (const int most_lanes : {128 / pack_bytes, 64 / pack_bytes}) {
    Arguments a = args;
    a.chunks = ceil_div(packs, most_lanes);
    // A multiple of 16 bytes, so that they are copied 16 at a time.
    a.lanes = std::min(round_up(ceil_div(packs, a.chunks), std::max(1, 16 / pack_bytes)), packs);
    a.chunks = ceil_div(packs, a.lanes);
    a.pixel_bytes = round_up(a.lanes * pack_bytes, 16);
    if (a.pixel_bytes <= 64) a.pixel_bytes += 16;  // neighbours of a warp then lie in other banks
    a.copy_bytes = std::gcd(16, std::gcd(g.in_channels * element_bytes, a.lanes * pack_bytes));
    a.pieces = a.lanes * pack_bytes / a.copy_bytes, a.by_pieces = Divider(a.pieces);
    for (a.threads_x = 1; a.threads_x <= std::min(wide, max_threads / a.lanes); ++a.threads_x) {
      for (a.threads_y = 1; a.threads_y <= std::min(high, max_threads / a.lanes / a.threads_x); a.threads_y *= 2) {
        a.tiles_x = ceil_div(wide, a.threads_x), a.tiles_y = ceil_div(high, a.threads_y);
        a.tile_width = (a.threads_x * instance.columns - 1) * instance.stride + instance.kernel;
        a.tile_height = (a.threads_y * instance.rows - 1) * instance.stride + instance.kernel;
        const int weights = instance.kernel * instance.kernel * a.lanes * instance.pack * 4;
        const int shared = a.tile_width * a.tile_height * a.pixel_bytes + weights;
        if (shared > std::min(shared_limit, device.shared_bytes)) continue;
        const std::int64_t blocks = g.batch * a.tiles_x * a.tiles_y * a.chunks;
        if (blocks > std::numeric_limits<int>::max()) continue;
        const int threads = round_up(a.lanes * a.threads_x * a.threads_y, 32);
        // In bytes: what a block reads, its weights, and what its threads would write, as if all had work; and a start.
        const double block = 1.0 * a.tile_width * a.tile_height * a.lanes * pack_bytes + weights +
                             1.0 * threads * instance.columns * instance.rows * pack_bytes + 1500;
        // A block alone takes as long as if it had a quarter of a multiprocessor.
        const double waves = std::max(0.25, static_cast<double>(blocks) / (4.0 * device.multiprocessors));
        const double cost = block * waves;
        if (cost >= best_cost) continue;
        best_cost = cost;
        args = a;
        best = {blocks, threads, shared};
      }
    }
  }
  return best;
}

class Depthwise final : public Operator {
 public:
  Depthwise(const ConvProblem& problem, const Preparation& p)
      : device_(p.device.device.index), residual_(problem.epilogue.reads_operands()) {
    const ConvGeometry& g = problem.geometry;
    const DType type = p.input().format.dtype;
    args_.geometry = g;
    args_.finish = finish_of(problem.epilogue, p.output().format.dtype);
    for (const Instance& instance : instances(type)) {
      if (!fits(instance, g, p.device, p.tuning.outputs)) continue;
      instance_ = instance;
      if (instance.kernel == 0) {
        const std::int64_t work = g.output_size() / instance.pack;
        shape_ = {.blocks = std::min<std::int64_t>(ceil_div<std::int64_t>(work, max_threads), 1 << 30)};
      } else {
        shape_ = divide(instance, static_cast<int>(size_of(type)), p.device, args_);
      }
      if (shape_.blocks > 0) break;
    }
    if (instance_.kernel != 0)
      reserve_shared_memory(device_, instance_.function, std::min(shared_limit, p.device.shared_bytes));

    const int taps = g.kernel_height * g.kernel_width;
    std::vector<float> weights(static_cast<std::size_t>(g.weight_size()));
    std::vector<float> biases(static_cast<std::size_t>(g.out_channels));
    const float* weight = lamina::detail::floats(problem.weight);
    for (int channel = 0; channel < g.in_channels; ++channel) {
      for (int tap = 0; tap < taps; ++tap) {
        const float w = weight[std::int64_t{channel} * taps + tap];
        weights[static_cast<std::size_t>(tap) * static_cast<std::size_t>(g.in_channels) +
                static_cast<std::size_t>(channel)] = type == DType::f16    ? to_float(to_half(w))
                                                     : type == DType::bf16 ? to_float(to_bfloat16(w))
                                                                           : w;
      }
    }
    if (problem.bias.defined()) std::ranges::copy(problem.bias.values<float>(), biases.begin());
    weight_ = Constant(device_, weights.data(), weights.size() * sizeof(float));
    bias_ = Constant(device_, biases.data(), biases.size() * sizeof(float));
    args_.weight = weight_.as<float>();
    args_.bias = bias_.as<float>();
  }

  std::string description() const override {
    if (instance_.kernel == 0) {
      return lamina::detail::concat("depthwise (any geometry): ", instance_.pack, " channels of a pixel per thread");
    }
    return lamina::detail::concat("depthwise: ", instance_.pack, " channels of ", instance_.rows, " x ",
                                  instance_.columns, " pixels per thread, ", args_.lanes * instance_.pack,
                                  " channels of ", args_.threads_y * instance_.rows, " x ",
                                  args_.threads_x * instance_.columns, " pixels per block, ", shape_.blocks, " blocks");
  }

  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes(); }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    if (outputs[0].numel() == 0) return;  // an empty batch
    const DeviceGuard guard(device_);
    Arguments args = args_;
    args.input = inputs[0].raw();
    args.output = outputs[0].raw();
    if (residual_) args.finish.residual = inputs[1].raw();
    void* arguments[] = {&args};
    launch_kernel(instance_.function,
                  {.grid = dim3(static_cast<unsigned>(shape_.blocks)),
                   .block = dim3(static_cast<unsigned>(shape_.threads)),
                   .shared_bytes = static_cast<std::size_t>(shape_.shared_bytes)},
                  execution.stream, arguments);
  }

 private:
  int device_;
  bool residual_;
  Arguments args_;
  Instance instance_;
  Shape shape_;
  Constant weight_, bias_;
};

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const Format stored = {storage_type(p.precision), Layout::nhwc};
  const auto fit = [&](const View& view, std::int64_t pixels) {
    return view.format.dtype == stored.dtype && (view.format.layout == Layout::nhwc || pixels == 1);
  };
  return g.groups == g.in_channels && g.out_channels == g.in_channels && finish_takes(problem.epilogue, p) &&
         !problem.scaled && fit(p.input(), g.in_pixels()) && fit(p.output(), g.out_pixels());
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation) {
  return std::make_unique<Depthwise>(problem, preparation);
}

}  // namespace lamina::cuda::depthwise
