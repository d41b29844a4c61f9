#include "lamina/lamina.h"

#include "lamina/cpu/reference.h"
#include "lamina/kernel/kernel.h"
#include "lamina/tensor/device_memory.h"
#include "support/devices.h"
#include "support/layer_cases.h"
#include "support/networks.h"
#include "support/on_gpu.h"

namespace lamina::test::layers_test {
namespace {

class CudaLayers : public OnGpu {};
LAMINA_ON_GPUS(CudaLayers);

Graph graph_of(const LayerCase& c) {
  Graph g;
  std::vector<Value> values;
  for (const Tensor& input : c.inputs) values.push_back(g.input(std::to_string(values.size()), input.shape()));
  g.output(g.add("node", c.module, values));
  return g;
}

TEST_P(CudaLayers, AgreeWithTheReference) {
  for (const LayerCase& c : layer_cases()) {
    const Graph g = graph_of(c);
    Plan plan = g.compile({.device = gpu()});
    Tensor output = Tensor::from(std::vector<float>(c.expected.size(), NAN), plan.output_shapes()[0]).to(gpu());
    plan.run_into(c.inputs, {&output, 1});
    const Tensor host = output.to(Device::cpu());
    EXPECT_EQ(mismatch(c, host.values<float>()), "") << c.name << " (" << plan.summary() << ')';
  }
}

/// A layer's inputs all in one format, its output in another.
struct InFormats {
  InFormats(Device gpu, const Module& layer, std::span<const Tensor> tensors, Precision precision, Format from,
            Format to) {
    std::vector<Shape> shapes;
    for (const Tensor& x : tensors) {
      shapes.push_back(x.shape());
      inputs.push_back({.shape = x.shape(), .format = from});
    }
    output = {.shape = layer.output_shape(shapes), .format = to};
    preparation = {.inputs = inputs, .outputs = {&output, 1}, .device = describe(gpu), .precision = precision};
  }
  InFormats(const InFormats&) = delete;
  InFormats& operator=(const InFormats&) = delete;

  std::vector<View> inputs;
  View output;
  Preparation preparation;
};

/// x in another format, by the kernel that a plan would have for it.
void convert(const Shape& shape, const Tensor& x, Format from, Tensor& y, Format to) {
  const View input = {.shape = shape, .format = from}, output = {.shape = shape, .format = to};
  const Preparation preparation = {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(y.device())};
  const auto op = choose(ConversionProblem{}, preparation).prepare({}, preparation);
  op->run({&x, 1}, {&y, 1}, {});
}

/// What a layer's kernel makes of inputs stored in one format when it gives another, as f32 nchw on the host.
Tensor run_in(const Module& layer, std::span<const Tensor> tensors, const InFormats& formats) {
  const Device gpu = formats.preparation.device.device;
  const auto converted = [gpu](const Tensor& x, const Shape& logical, Format from, Format to) {
    Tensor y(logical, to.dtype, gpu);
    convert(logical, x, from, y, to);
    return y;
  };
  std::vector<Tensor> inputs;
  for (const Tensor& x : tensors) {
    inputs.push_back(converted(x.to(gpu), x.shape(), {}, formats.preparation.input().format));
  }
  const auto op = layer.prepare(formats.preparation);
  const Shape& shape = formats.output.shape;
  const Format format = formats.output.format;
  const Tensor poison =
      Tensor::from(std::vector<float>(static_cast<std::size_t>(shape.numel()), NAN), shape).to(format.dtype);
  Tensor result = poison.to(gpu);
  Tensor workspace(Shape{static_cast<std::int64_t>(op->workspace_bytes())}, DType::u8, gpu);
  Tensor counters = Tensor::zeros({static_cast<std::int64_t>(op->counter_bytes())}, DType::u8, gpu);
  op->wait();
  op->run(inputs, {&result, 1}, {.workspace = workspace.raw(), .counters = counters.raw()});
  return converted(result, shape, format, {}).to(Device::cpu());
}

TEST_P(CudaLayers, AgreeWithTheReferenceInEveryFormatTheyTake) {
  struct Kind {
    Precision precision;
    DType dtype;
    double tolerance;  // operands are rounded once, results once
  };
  int pairs = 0;
  for (const Kind kind : {Kind{Precision::fp32, DType::f32, 0}, Kind{Precision::fp16, DType::f16, 4e-3},
                          Kind{Precision::bf16, DType::bf16, 3e-2}}) {
    for (LayerCase c : layer_cases()) {
      if (c.module->op() == "linear") continue;  // see the next test
      // A batch norm multiplies the rounding of its operand by its scale, here up to 1 / sqrt(0.01) times a weight.
      c.tolerance = std::max(c.tolerance, kind.tolerance * (c.module->op() == "batch_norm2d" ? 20 : 1));
      std::vector<Shape> shapes;
      for (const Tensor& x : c.inputs) shapes.push_back(x.shape());
      if (c.module->is_view(shapes)) continue;
      for (const Layout from : {Layout::nchw, Layout::nhwc}) {
        for (const Layout to : {Layout::nchw, Layout::nhwc}) {
          if (shapes[0].rank() != 4 && (from == Layout::nhwc || to == Layout::nhwc)) continue;
          const Format input = {kind.dtype, from}, output = {kind.dtype, to};
          const InFormats formats(gpu(), *c.module, c.inputs, kind.precision, input, output);
          if (!c.module->pays(formats.preparation)) continue;
          ++pairs;
          const Tensor y = run_in(*c.module, c.inputs, formats);
          ASSERT_EQ(mismatch(c, y.values<float>()), "") << c.name << ", " << input << " to " << output;
        }
      }
    }
  }
  EXPECT_GT(pairs, 2000);  // pooling takes all four pairs of layouts in three types, the others two
}

/// Every pair of formats, at sizes around the tile and the vector; the values are exact in all three types.
TEST_P(CudaLayers, ConversionsKeepEveryElement) {
  for (const Shape& shape :
       std::vector<Shape>{{1, 1, 1, 1}, {2, 3, 7, 5}, {3, 33, 4, 8}, {1, 64, 31, 1}, {2, 130, 9, 11}}) {
    Tensor x(shape);
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.numel()); ++i) {
      x.values<float>()[i] = static_cast<float>(i * 37 % 251) - 125;
    }
    for (const DType first : {DType::f32, DType::f16, DType::bf16}) {
      for (const DType second : {DType::f32, DType::f16, DType::bf16}) {
        for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
          for (const Layout other : {Layout::nchw, Layout::nhwc}) {
            const Format one = {first, layout}, two = {second, other};
            Tensor u(shape, first, gpu()), v(shape, second, gpu()), y(shape, DType::f32, gpu());
            convert(shape, x.to(gpu()), {}, u, one);
            convert(shape, u, one, v, two);
            convert(shape, v, two, y, {});
            const Tensor host = y.to(Device::cpu());
            ASSERT_TRUE(std::ranges::equal(host.values<float>(), x.values<float>())) << shape << one << " to " << two;
            if (layout != Layout::nhwc) continue;
            // The order itself: channels of a pixel lie side by side.
            const Tensor stored = u.to(Device::cpu()).to(DType::f32);
            for (std::int64_t c = 0; c < shape[1]; ++c) {
              EXPECT_EQ(stored.values<float>()[static_cast<std::size_t>(c)],
                        x.values<float>()[static_cast<std::size_t>(c * shape[2] * shape[3])]);
            }
          }
        }
      }
    }
  }
}

/// Linear layers of every precision: K terms, each product within the precision's bound of its scale.
TEST_P(CudaLayers, LinearKeepsTheContractInEveryPrecision) {
  struct Size {
    std::int64_t rows;
    int in, out;
  };
  // Around the numbers of rows and of outputs where another kernel takes over.
  const std::vector<Size> sizes = {{1, 300, 77}, {1, 264, 2050}, {1, 33, 2051}, {1, 9216, 77}, {1, 9216, 2048},
                                   {2, 304, 77}, {3, 8, 77},     {4, 1, 77},    {5, 2048, 77}, {8, 129, 77},
                                   {9, 136, 80}, {16, 300, 77},  {17, 300, 77}, {64, 4096, 77}};
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    for (const auto& [rows, in, out] : sizes) {
      Linear linear({.in = in, .out = out});
      set_parameters(linear, 5);
      const Tensor x = drawn({rows, in}, 6);
      const std::vector<double> truth = reference_linear(linear, x);
      Graph g;
      g.output(g.add("linear", linear, g.input("input", x.shape())));
      Plan plan = g.compile({.device = gpu(), .precision = precision});
      const Tensor y = plan.run(x);
      for (std::size_t i = 0; i < truth.size(); ++i) {
        // In 16 bits the operands' own rounding comes on top: truth is of the unrounded ones.
        const double bound = 1.5 * cpu::error_bound(precision, in, in * 0.64 + 3);
        ASSERT_LE(std::abs(static_cast<double>(y.values<float>()[i]) - truth[i]), bound)
            << name(precision) << ", " << rows << " rows, output " << i;
      }
    }
  }
}

/// An image in either order and its weights in the same: every kernel of the layer (few rows, cuBLAS, tensor cores).
TEST_P(CudaLayers, LinearReadsAFlattenedImageAsItIsStored) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    const DType dtype = storage_type(precision);
    for (const Shape& image :
         std::vector<Shape>{{1, 5, 3, 7}, {3, 16, 6, 6}, {8, 33, 1, 1}, {20, 64, 2, 3}, {40, 1, 9, 4}}) {
      const auto in = static_cast<int>(image.numel() / image[0]);
      Linear linear({.in = in, .out = 72});
      set_parameters(linear, 5);
      const std::shared_ptr<const Linear> flattened = linear.after_flatten();
      const Tensor x = drawn(image, 6);
      const std::vector<double> truth = reference_linear(linear, x);
      for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
        for (const DType output : {dtype, DType::f32}) {
          const Format input = {dtype, layout};
          const InFormats formats(gpu(), *flattened, {&x, 1}, precision, input, {output});
          ASSERT_TRUE(flattened->pays(formats.preparation));
          const Tensor y = run_in(*flattened, {&x, 1}, formats);
          for (std::size_t i = 0; i < truth.size(); ++i) {
            const double bound = 1.5 * cpu::error_bound(precision, in, in * 0.64 + 3);
            ASSERT_LE(std::abs(static_cast<double>(y.values<float>()[i]) - truth[i]), bound)
                << name(precision) << ' ' << image << ' ' << input << ", output " << i;
          }
        }
      }
    }
  }
}

TEST_P(CudaLayers, KeepNan) {
  Tensor x = drawn({1, 1, 5, 5}, 1);
  x.values<float>()[12] = NAN;
  const Tensor largest = MaxPool2d({.kernel = 3, .stride = 1})(x.to(gpu())).to(Device::cpu());
  for (const float y : largest.values<float>()) EXPECT_TRUE(std::isnan(y));
  const Tensor row = Tensor::from(std::vector<float>{1, NAN, 2}, {1, 3});
  const Tensor none = Softmax()(row.to(gpu())).to(Device::cpu());
  for (const float y : none.values<float>()) EXPECT_TRUE(std::isnan(y));
}

/// Whole networks against the CPU, node by node and fused.
TEST_P(CudaLayers, NetworksAgreeWithTheCpu) {
  for (const char* name : {"tiny-alexnet", "tiny-resnet", "layers"}) {
    const std::string golden = std::string(LAMINA_TEST_DATA) + "/golden/" + name;
    const Model model = load_model(golden + ".safetensors");
    const Weights expected = Weights::open(golden + "-golden.safetensors");
    std::vector<Tensor> inputs;
    for (const int node : model.graph.inputs()) {
      inputs.push_back(expected.at(model.graph.nodes()[static_cast<std::size_t>(node)].name));
    }
    for (const bool fuse : {true, false}) {
      Plan plan = model.graph.compile({.device = gpu(), .batch = 2, .fuse = fuse});
      plan.run(inputs);
      for (const std::string& output : plan.output_names()) {
        const Tensor a = plan.output(output), b = expected.at(output);
        for (std::size_t i = 0; i < static_cast<std::size_t>(b.numel()); ++i) {
          const float u = a.values<float>()[i], v = b.values<float>()[i];
          const bool same =
              u == v || (std::isnan(u) && std::isnan(v)) || std::abs(u - v) <= 2e-5f + 2e-5f * std::abs(v);
          ASSERT_TRUE(same) << name << ' ' << output << " [" << i << "] is " << u << ", expected " << v;
        }
      }
    }
  }
}

/// Every node of whole networks in the narrow precisions, whatever formats its kernels chose, fused and not.
void expect_networks_right(const DeviceDescription& device) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    for (const char* name : {"tiny-alexnet", "tiny-resnet"}) {
      const Model model = load_model(std::string(LAMINA_TEST_DATA) + "/golden/" + name + ".safetensors");
      const Graph& graph = model.graph;
      const Shape shape = graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])].shape->with_batch(3);
      const std::vector<Tensor> inputs = {drawn(shape, 7)};
      Plan truth = graph.compile({.batch = 3, .keep_all = true});
      truth.run(inputs);
      CompileOptions options = {.device = device.device, .batch = 3, .precision = precision, .description = device};
      Plan fused = graph.compile(options);
      options.keep_all = true;
      Plan kept = graph.compile(options);
      kept.run(inputs);
      const double tolerance = precision == Precision::bf16 ? 2e-2 : precision == Precision::fp32 ? 1e-5 : 3e-3;
      for (const Graph::Node& node : graph.nodes()) {
        const double error = relative_error(kept.activation(node.name).to(Device::cpu()), truth.activation(node.name));
        EXPECT_LT(error, tolerance) << name << ' ' << node.name << " in " << lamina::name(precision);
      }
      const Tensor output = fused.run(inputs)[0].clone();
      EXPECT_LT(relative_error(output, truth.run(inputs)[0]), tolerance) << fused.summary();
      const Tensor again = fused.run(inputs)[0].clone();
      EXPECT_EQ(std::memcmp(output.raw(), again.raw(), output.bytes()), 0) << "other bits in the second run";
    }
  }
}

TEST_P(CudaLayers, NetworksAgreeWithTheCpuInEveryPrecision) { expect_networks_right(describe(gpu())); }

TEST_P(CudaLayers, NetworksAgreeWithTheCpuAsOnOlderGpus) {
  const DeviceDescription own = describe(gpu());
  for (const int architecture : {75, 80, 86}) {
    if (architecture >= own.architecture) continue;
    SCOPED_TRACE(architecture);
    expect_networks_right(detail::limited_to(architecture, own));
  }
}

}  // namespace
}  // namespace lamina::test::layers_test
