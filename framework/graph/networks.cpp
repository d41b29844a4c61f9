#include "lamina/graph/networks.h"

#include <array>
#include <string>

#include "lamina/base/error.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/local_response_norm.h"
#include "lamina/layers/pool2d.h"
#include "lamina/layers/views.h"

namespace lamina {
namespace {

/// Appends modules named "prefix.0", "prefix.1", ..., as torch.nn.Sequential counts them.
class Sequential {
 public:
  Sequential(Graph& graph, std::string prefix, Value value)
      : graph_(graph), prefix_(std::move(prefix)), value_(value) {}

  template <class M>
  Sequential& add(M module) {
    value_ = graph_.add(prefix_ + '.' + std::to_string(next_++), std::move(module), value_);
    return *this;
  }

  Value value() const { return value_; }

 private:
  Graph& graph_;
  std::string prefix_;
  int next_ = 0;
  Value value_;
};

enum class NormOrder { before_pooling, after_pooling };

/// Caffe's AlexNets: they differ in where the norm stands.
Graph caffe_alexnet(int classes, NormOrder order) {
  Graph g;
  Value x = g.input("data", {batch, 3, 227, 227});
  const auto norm_and_pool = [&](const std::string& number) {
    const MaxPool2d pool({.kernel = 3, .stride = 2, .ceil_mode = true});
    const LocalResponseNorm norm({.size = 5, .alpha = 1e-4, .beta = 0.75, .k = 1});
    if (order == NormOrder::before_pooling) x = g.add("norm" + number, norm, x);
    x = g.add("pool" + number, pool, x);
    if (order == NormOrder::after_pooling) x = g.add("norm" + number, norm, x);
  };
  const auto conv = [&](const std::string& number, const Conv2dOptions& options) {
    x = g.add("conv" + number, Conv2d(options), x);
    x = g.add("relu" + number, ReLU(), x);
  };
  conv("1", {.in = 3, .out = 96, .kernel = 11, .stride = 4});
  norm_and_pool("1");
  conv("2", {.in = 96, .out = 256, .kernel = 5, .padding = 2, .groups = 2});
  norm_and_pool("2");
  conv("3", {.in = 256, .out = 384, .kernel = 3, .padding = 1});
  conv("4", {.in = 384, .out = 384, .kernel = 3, .padding = 1, .groups = 2});
  conv("5", {.in = 384, .out = 256, .kernel = 3, .padding = 1, .groups = 2});
  x = g.add("pool5", MaxPool2d({.kernel = 3, .stride = 2, .ceil_mode = true}), x);
  x = g.add("flatten", Flatten(), x);
  x = g.add("fc6", Linear({.in = 256 * 6 * 6, .out = 4096}), x);
  x = g.add("drop6", Dropout(), g.add("relu6", ReLU(), x));
  x = g.add("fc7", Linear({.in = 4096, .out = 4096}), x);
  x = g.add("drop7", Dropout(), g.add("relu7", ReLU(), x));
  g.output(g.add("fc8", Linear({.in = 4096, .out = classes}), x));
  return g;
}

/// Two 3x3 convolutions and a shortcut, which a 1x1 convolution fits to the new size if that changes.
Value basic_block(Graph& g, const std::string& name, Value x, int in, int out, int stride) {
  const auto conv = [&](const std::string& node, Value from, const Conv2dOptions& options) {
    return g.add(name + '.' + node, Conv2d(options), from);
  };
  const auto norm = [&](const std::string& node, Value from) {
    return g.add(name + '.' + node, BatchNorm2d({.channels = out}), from);
  };
  Value y = conv("conv1", x, {.in = in, .out = out, .kernel = 3, .stride = stride, .padding = 1, .bias = false});
  y = g.add(name + ".relu", ReLU(), norm("bn1", y));
  y = conv("conv2", y, {.in = out, .out = out, .kernel = 3, .padding = 1, .bias = false});
  y = norm("bn2", y);
  if (stride != 1 || in != out) {
    x = conv("downsample.0", x, {.in = in, .out = out, .kernel = 1, .stride = stride, .bias = false});
    x = norm("downsample.1", x);
  }
  y = g.add(name + ".add", Add(), {y, x});
  return g.add(name + ".relu_1", ReLU(), y);  // the name that torch.fx gives to its second use
}

struct Row {
  std::string_view name;
  Graph (*make)(int classes);
  Preprocess (*preprocess)() = torchvision_imagenet;
};

constexpr std::array<Row, 5> known_networks = {{{"alexnet", alexnet},
                                                {"alexnet_original", alexnet_original, caffe_imagenet},
                                                {"caffenet", caffenet, caffe_imagenet},
                                                {"resnet18", resnet18},
                                                {"vgg16", vgg16}}};

const Row& known_network(std::string_view name) {
  std::string known;
  for (const Row& row : known_networks) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  detail::fail("unknown network \"", name, "\"; Lamina knows ", known);
}

}  // namespace

Graph alexnet(int classes) {
  Graph g;
  Sequential features(g, "features", g.input("input", {batch, 3, 224, 224}));
  const MaxPool2d pool({.kernel = 3, .stride = 2});
  features.add(Conv2d({.in = 3, .out = 64, .kernel = 11, .stride = 4, .padding = 2})).add(ReLU()).add(pool);
  features.add(Conv2d({.in = 64, .out = 192, .kernel = 5, .padding = 2})).add(ReLU()).add(pool);
  features.add(Conv2d({.in = 192, .out = 384, .kernel = 3, .padding = 1})).add(ReLU());
  features.add(Conv2d({.in = 384, .out = 256, .kernel = 3, .padding = 1})).add(ReLU());
  features.add(Conv2d({.in = 256, .out = 256, .kernel = 3, .padding = 1})).add(ReLU()).add(pool);
  const Value pooled = g.add("avgpool", AdaptiveAvgPool2d(6), features.value());
  Sequential classifier(g, "classifier", g.add("flatten", Flatten(), pooled));
  classifier.add(Dropout()).add(Linear({.in = 256 * 6 * 6, .out = 4096})).add(ReLU());
  classifier.add(Dropout()).add(Linear({.in = 4096, .out = 4096})).add(ReLU());
  classifier.add(Linear({.in = 4096, .out = classes}));
  g.output(classifier.value());
  return g;
}

Graph alexnet_original(int classes) { return caffe_alexnet(classes, NormOrder::before_pooling); }

Graph caffenet(int classes) { return caffe_alexnet(classes, NormOrder::after_pooling); }

Graph vgg16(int classes) {
  Graph g;
  Sequential features(g, "features", g.input("input", {batch, 3, 224, 224}));
  int channels = 3;
  constexpr int pool = 0;
  for (const int out : {64, 64, pool, 128, 128, pool, 256, 256, 256, pool, 512, 512, 512, pool, 512, 512, 512, pool}) {
    if (out == pool) {
      features.add(MaxPool2d({.kernel = 2, .stride = 2}));
      continue;
    }
    features.add(Conv2d({.in = channels, .out = out, .kernel = 3, .padding = 1})).add(ReLU());
    channels = out;
  }
  const Value pooled = g.add("avgpool", AdaptiveAvgPool2d(7), features.value());
  Sequential classifier(g, "classifier", g.add("flatten", Flatten(), pooled));
  classifier.add(Linear({.in = 512 * 7 * 7, .out = 4096})).add(ReLU()).add(Dropout());
  classifier.add(Linear({.in = 4096, .out = 4096})).add(ReLU()).add(Dropout());
  classifier.add(Linear({.in = 4096, .out = classes}));
  g.output(classifier.value());
  return g;
}

Graph resnet18(int classes) {
  Graph g;
  Value x = g.input("input", {batch, 3, 224, 224});
  x = g.add("conv1", Conv2d({.in = 3, .out = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false}), x);
  x = g.add("bn1", BatchNorm2d({.channels = 64}), x);
  x = g.add("relu", ReLU(), x);
  x = g.add("maxpool", MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}), x);
  int channels = 64;
  for (int layer = 1; layer <= 4; ++layer) {
    const int out = 32 << layer;
    for (int block = 0; block < 2; ++block) {
      const std::string name = "layer" + std::to_string(layer) + '.' + std::to_string(block);
      x = basic_block(g, name, x, channels, out, layer > 1 && block == 0 ? 2 : 1);
      channels = out;
    }
  }
  x = g.add("avgpool", AdaptiveAvgPool2d(1), x);
  x = g.add("flatten", Flatten(), x);
  g.output(g.add("fc", Linear({.in = 512, .out = classes}), x));
  return g;
}

std::span<const std::string_view> network_names() {
  static const auto names = [] {
    std::array<std::string_view, known_networks.size()> result;
    for (std::size_t i = 0; i < known_networks.size(); ++i) result[i] = known_networks[i].name;
    return result;
  }();
  return names;
}

Graph network(std::string_view name, int classes) { return known_network(name).make(classes); }

Preprocess network_preprocess(std::string_view name) { return known_network(name).preprocess(); }

}  // namespace lamina
