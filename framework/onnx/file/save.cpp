// A network as an .onnx file, whose messages are numbered as onnx.proto numbers them.

#include <algorithm>
#include <protozero/pbf_writer.hpp>

#include "lamina/base/atomic_file.h"
#include "lamina/base/error.h"
#include "lamina/onnx/onnx.h"
#include "lamina/ops/element_type.h"
#include "lamina/ops/op.h"

namespace lamina {
namespace {

using detail::fail;
using protozero::pbf_writer;

/// Ops that ONNX has by another name.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {{"relu", "Relu"},
                                                                         {"sigmoid", "Sigmoid"},
                                                                         {"add", "Add"},
                                                                         {"concat", "Concat"},
                                                                         {"flatten", "Flatten"},
                                                                         {"max_pool2d", "MaxPool"},
                                                                         {"softmax", "Softmax"},
                                                                         {"dropout", "Identity"},
                                                                         {"avg_pool2d", "AveragePool"},
                                                                         {"adaptive_avg_pool2d", "GlobalAveragePool"}};
constexpr std::pair<std::string_view, std::string_view> other_attributes[] = {
    {"kernel", "kernel_shape"}, {"stride", "strides"}, {"padding", "pads"}, {"dilation", "dilations"}, {"dim", "axis"}};

/// The operator set that is written, and that of ops that it has not.
constexpr std::int64_t usual_opset = 21, late_opset = 24;
constexpr std::string_view late[] = {"Attention", "RMSNormalization", "RotaryEmbedding", "Swish", "TensorScatter"};

template <class Pairs>
std::string_view renamed(const Pairs& pairs, std::string_view name) {
  const auto found = std::ranges::find(pairs, name, [](const auto& pair) { return pair.first; });
  return found == std::end(pairs) ? name : found->second;
}

/// A message within another.
template <class Write>
void put(pbf_writer& to, protozero::pbf_tag_type tag, const Write& write) {
  pbf_writer message(to, tag);
  write(message);
}

void put_attribute(pbf_writer& node, std::string_view name, const Attribute& value) {
  enum : int { of_float = 1, of_int, of_string, of_floats = 6, of_ints };
  put(node, 5, [&](pbf_writer& a) {
    a.add_string(1, std::string(name));
    const auto typed = [&](int type) { a.add_enum(20, type); };
    if (const auto* number = std::get_if<double>(&value)) {
      a.add_float(2, static_cast<float>(*number)), typed(of_float);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      a.add_bytes(4, *text), typed(of_string);
    } else if (const auto* numbers = std::get_if<std::vector<double>>(&value)) {
      for (const double one : *numbers) a.add_float(7, static_cast<float>(one));
      typed(of_floats);
    } else if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      // Pads are those before, and those after.
      for (int i = 0; i < (name == "pads" && list->size() == 2 ? 2 : 1); ++i) {
        for (const std::int64_t one : *list) a.add_int64(8, one);
      }
      typed(of_ints);
    } else {
      const auto* const flag = std::get_if<bool>(&value);
      a.add_int64(3, flag != nullptr ? std::int64_t{*flag} : std::get<std::int64_t>(value)), typed(of_int);
    }
  });
}

void put_node(pbf_writer& graph, const Graph& network, const Graph::Node& node) {
  const std::string own(node.module->op());
  const std::string op(renamed(other_names, own));
  const bool known = op != own || dynamic_cast<const Op*>(node.module.get()) != nullptr;
  const Attributes attributes = node.module->attributes();
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(attributes, [&](const auto& a) { return a.first == name; });
  };
  const auto& shape = node.shape;
  const bool whole = own != "adaptive_avg_pool2d" || (shape && (*shape)[2] == 1 && (*shape)[3] == 1);
  if (!known || !whole || op == "Split" || has("output"))
    fail(node.name, ": an ", own, " is not written to .onnx files");
  put(graph, 1, [&](pbf_writer& n) {
    for (const int input : node.inputs)
      n.add_string(1, input < 0 ? std::string() : network.nodes()[static_cast<std::size_t>(input)].name);
    n.add_string(2, node.name), n.add_string(3, node.name), n.add_string(4, op);
    for (const auto& [name, value] : attributes) {
      if (own != "adaptive_avg_pool2d") put_attribute(n, op == own ? name : renamed(other_attributes, name), value);
    }
  });
}

void put_constant(pbf_writer& graph, const std::string& name, const Tensor& value) {
  put(graph, 5, [&](pbf_writer& t) {
    for (const std::int64_t extent : value.shape()) t.add_int64(1, extent);
    t.add_int32(2, detail::data_type_of(value.dtype())), t.add_string(8, name);
    t.add_bytes(9, static_cast<const char*>(value.raw()), value.bytes());
  });
}

/// An input, or an output, whose shape readers infer.
void put_value(pbf_writer& graph, protozero::pbf_tag_type tag, const Graph::Node& node) {
  put(graph, tag, [&](pbf_writer& v) {
    v.add_string(1, node.name);
    put(v, 2, [&](pbf_writer& type) {
      put(type, 1, [&](pbf_writer& tensor) {
        tensor.add_int32(1, detail::data_type_of(node.dtype));
        if (node.module != nullptr) return;
        put(tensor, 2, [&](pbf_writer& shape) {
          int place = 0;
          for (const std::int64_t extent : *node.shape) {
            put(shape, 1, [&](pbf_writer& dim) {
              if (extent >= 0) return dim.add_int64(1, extent);
              dim.add_string(2, extent == batch ? "N" : detail::concat(node.name, '.', place));
            });
            ++place;
          }
        });
      });
    });
  });
}

}  // namespace

void save_onnx(const std::filesystem::path& path, const Graph& network) {
  std::string bytes;
  pbf_writer model(bytes);
  std::int64_t opset = usual_opset;
  model.add_int64(1, 10);  // ir_version
  model.add_string(2, "Lamina");
  put(model, 7, [&](pbf_writer& graph) {
    graph.add_string(2, "network");
    for (const Graph::Node& node : network.nodes()) {
      if (node.module == nullptr) {
        put_value(graph, 11, node);
      } else if (const auto* constant = dynamic_cast<const Constant*>(node.module.get())) {
        put_constant(graph, node.name, constant->value());
      } else {
        put_node(graph, network, node);
        if (std::ranges::find(late, node.module->op()) != std::end(late)) opset = late_opset;
      }
    }
    for (const int output : network.outputs()) put_value(graph, 12, network.nodes()[static_cast<std::size_t>(output)]);
  });
  put(model, 8, [&](pbf_writer& set) { set.add_string(1, ""), set.add_int64(2, opset); });
  constexpr std::size_t most = 0x7fffffff;
  if (bytes.size() > most)
    fail(path.string(), ": a network of ", bytes.size(), " bytes, more than an .onnx file holds");
  detail::write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

}  // namespace lamina
