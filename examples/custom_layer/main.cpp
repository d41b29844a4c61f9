// A layer that Lamina has not: soft thresholding, y = sign(x) · max(|x| − t, 0), with a threshold t of each channel
// that is learned, and one attribute. Saved in a model file, loaded again, run on the Plan's threads.
//   custom_layer FILE          (docs/custom_layers.md explains it)

#include <lamina/lamina.h>

#include <cmath>
#include <cstdio>
#include <memory>

namespace {

/// The kernel: what is left to do when the shapes are known.
class SoftThresholdOnCpu final : public lamina::Operator {
 public:
  SoftThresholdOnCpu(lamina::Tensor threshold, double slope) : threshold_(std::move(threshold)), slope_(slope) {}

  std::string description() const override { return "soft_threshold: a channel of an image for each thread at a time"; }

  void run(std::span<const lamina::Tensor> inputs, std::span<lamina::Tensor> outputs,
           const lamina::Execution& execution) const override {
    const lamina::Shape& shape = inputs[0].shape();  // [N, C, H, W]
    const std::int64_t channels = shape[1], pixels = shape[2] * shape[3];
    const auto slope = static_cast<float>(slope_);
    execution.parallel_for(shape[0] * channels, [&](std::int64_t plane, int /*worker*/) {
      const float* x = inputs[0].values<float>().data() + plane * pixels;
      float* y = outputs[0].values<float>().data() + plane * pixels;
      const float t = threshold_.values<float>()[static_cast<std::size_t>(plane % channels)];
      for (std::int64_t i = 0; i < pixels; ++i) {
        const float over = std::fabs(x[i]) - t;
        y[i] = std::copysign(over > 0 ? over : over * slope, x[i]);
      }
    });
  }

 private:
  lamina::Tensor threshold_;  // [C]; shares the module's memory
  double slope_;
};

/// What is computed: parameters, attributes, shapes.
class SoftThreshold final : public lamina::Module {
 public:
  explicit SoftThreshold(std::int64_t channels, double slope = 0) : slope_(slope) {
    add_parameter("threshold", {channels});
  }

  std::string_view op() const override { return "example.soft_threshold"; }
  lamina::Attributes attributes() const override { return {{"slope", slope_}}; }

  lamina::Shape output_shape(std::span<const lamina::Shape> inputs) const override {
    const std::int64_t channels = parameters()[0].shape[0];
    if (inputs.size() != 1 || inputs[0].rank() != 4 || inputs[0][1] != channels) {
      throw lamina::Error("soft_threshold: expected one input [N, " + std::to_string(channels) + ", H, W], got " +
                          (inputs.size() == 1 ? inputs[0].to_string() : std::to_string(inputs.size()) + " inputs"));
    }
    return inputs[0];
  }

  /// f32 nchw on the CPU. A kernel for a GPU would be one more Operator, which `prepare` makes where the device is one.
  bool takes(const lamina::Preparation& p) const override { return p.device.device.is_cpu() && p.is_plain(); }
  std::unique_ptr<lamina::Operator> prepare(const lamina::Preparation& p) const override {
    if (!takes(p)) throw lamina::Error("soft_threshold: runs on the CPU, in fp32");
    require_parameters();
    return std::make_unique<SoftThresholdOnCpu>(parameter("threshold"), slope_);
  }

 private:
  double slope_;
};

/// The module of a node of a model file; loading sets its parameters afterwards.
std::shared_ptr<lamina::Module> make_soft_threshold(const lamina::NodeSpec& node) {
  lamina::AttributeReader attributes(node.attributes);
  const double slope = attributes.number("slope", 0);
  attributes.finish();
  const auto threshold = node.parameter_shape("threshold");
  if (!threshold || threshold->rank() != 1)
    throw lamina::Error("example.soft_threshold: expected a tensor threshold [C]");
  return std::make_shared<SoftThreshold>((*threshold)[0], slope);
}

lamina::Graph network() {
  lamina::Graph graph;
  lamina::Value x = graph.input("input", {lamina::batch, 3, 8, 8});
  lamina::Conv2d conv({.in = 3, .out = 4, .kernel = 3, .padding = 1});
  lamina::Tensor weight({4, 3, 3, 3});
  for (std::int64_t i = 0; i < weight.numel(); ++i) {
    weight.values<float>()[static_cast<std::size_t>(i)] = std::sin(static_cast<float>(i));
  }
  conv.set_parameter("weight", weight);
  conv.set_parameter("bias", lamina::Tensor::zeros({4}));
  SoftThreshold shrink(4, 0.01);
  shrink.set_parameter("threshold", lamina::Tensor::from<float>({0.1f, 0.2f, 0.4f, 0.8f}, {4}));
  x = graph.add("conv", std::move(conv), x);
  x = graph.add("threshold", std::move(shrink), x);
  graph.output(x);
  return graph;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: custom_layer FILE\n");
    return 2;
  }
  lamina::register_op("example.soft_threshold", make_soft_threshold);  // once, before the first file that names it

  const lamina::Graph built = network();
  built.save(argv[1]);
  const lamina::Graph loaded = lamina::Graph::load(argv[1]);

  lamina::Tensor input({2, 3, 8, 8});
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    input.values<float>()[static_cast<std::size_t>(i)] = std::cos(static_cast<float>(i));
  }
  lamina::Plan one = built.compile({.batch = 2, .threads = 1}), two = loaded.compile({.batch = 2, .threads = 2});
  const lamina::Tensor expected = one.run(input), got = two.run(input);
  int differ = 0, shrunk = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(got.numel()); ++i) {
    differ += got.values<float>()[i] != expected.values<float>()[i];
    shrunk += std::fabs(got.values<float>()[i]) < 0.01f;
  }
  std::printf("%s%d of %lld values shrunk, %d differ after loading\n", loaded.summary(2).c_str(), shrunk,
              static_cast<long long>(got.numel()), differ);
  return differ == 0 && shrunk > 0 ? 0 : 1;
} catch (const lamina::Error& error) {
  std::fprintf(stderr, "custom_layer: %s\n", error.what());
  return 1;
}
