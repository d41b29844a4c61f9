// A network as an .onnx file, whose messages are numbered as onnx.proto numbers them.

#include <algorithm>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <tuple>

#include "lamina/base/atomic_file.h"
#include "lamina/base/error.h"
#include "lamina/files/safetensors.h"
#include "lamina/graph/resolve.h"
#include "lamina/onnx/onnx.h"
#include "lamina/ops/element_type.h"
#include "lamina/ops/op.h"

namespace lamina {
namespace {

using detail::fail;
using protozero::pbf_writer;

/// Ops that ONNX has by another name.
using Renamed = std::pair<std::string_view, std::string_view>;
constexpr Renamed other_names[] = {{"relu", "Relu"},
                                   {"sigmoid", "Sigmoid"},
                                   {"add", "Add"},
                                   {"concat", "Concat"},
                                   {"conv2d", "Conv"},
                                   {"max_pool2d", "MaxPool"},
                                   {"softmax", "Softmax"},
                                   {"dropout", "Identity"},
                                   {"linear", "Gemm"},
                                   {"flatten", "Flatten"},
                                   {"avg_pool2d", "AveragePool"},
                                   {"adaptive_avg_pool2d", "AveragePool"},
                                   {"local_response_norm", "LRN"},
                                   {"batch_norm2d", "BatchNormalization"}};
constexpr Renamed other_attributes[] = {{"kernel", "kernel_shape"}, {"stride", "strides"}, {"padding", "pads"},
                                        {"dilation", "dilations"},  {"dim", "axis"},       {"groups", "group"},
                                        {"eps", "epsilon"},         {"k", "bias"}};

/// Ops of Lamina's that are none of ONNX's, or something else there.
constexpr std::string_view own_ops[] = {
    "AdaptiveAvgPool", "AdaptiveMaxPool", "ConstantOfShape", "If", "Loop", "LoopValue", "Roll",
    "Rsqrt",           "Scatter",         "Upsample"};

/// The operator set that is written, and the first that has these ops and attributes.
constexpr std::int64_t usual_opset = 21;
constexpr std::pair<std::string_view, std::int64_t> late[] = {
    {"Attention", 24}, {"CumProd", 26},       {"RMSNormalization", 24}, {"RotaryEmbedding", 24},
    {"Swish", 24},     {"TensorScatter", 24}, {"precision", 24},  // of QuantizeLinear
    {"round_mode", 24}};

constexpr std::size_t most_outputs = 65536;  // far beyond any op

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
      for (const std::int64_t one : *list) a.add_int64(8, one);
      typed(of_ints);
    } else {
      const auto* const flag = std::get_if<bool>(&value);
      a.add_int64(3, flag != nullptr ? std::int64_t{*flag} : std::get<std::int64_t>(value)), typed(of_int);
    }
  });
}

/// A node of an .onnx file.
struct Call {
  std::string op;
  std::vector<std::string> inputs;
  Attributes attributes;
  std::vector<std::string> outputs = {};  // "": one that nobody reads
  std::size_t least = 1;                  // so many of them are there nevertheless
};

void put_call(pbf_writer& graph, const Call& call) {
  put(graph, 1, [&](pbf_writer& n) {
    for (const std::string& input : call.inputs) n.add_string(1, input);
    for (const std::string& output : call.outputs) n.add_string(2, output);
    n.add_string(3, *std::ranges::find_if_not(call.outputs, &std::string::empty)), n.add_string(4, call.op);
    for (const auto& [name, value] : call.attributes) put_attribute(n, name, value);
  });
}

void put_constant(pbf_writer& graph, const std::string& name, const Tensor& value) {
  put(graph, 5, [&](pbf_writer& t) {
    for (const std::int64_t extent : value.shape()) t.add_int64(1, extent);
    t.add_int32(2, detail::data_type_of(value.dtype())), t.add_string(8, name);
    t.add_bytes(9, static_cast<const char*>(value.raw()), value.bytes());
  });
}

/// An input, or an output, whose shape readers infer where it is not known, and its type too if there is none.
void put_value(pbf_writer& graph, protozero::pbf_tag_type tag, const Graph::Node& node, std::optional<DType> dtype) {
  put(graph, tag, [&](pbf_writer& v) {
    v.add_string(1, node.name);
    if (!dtype) return;
    put(v, 2, [&](pbf_writer& type) {
      put(type, 1, [&](pbf_writer& tensor) {
        tensor.add_int32(1, detail::data_type_of(*dtype));
        if (!node.shape || *node.shape == Shape{any_rank}) return;
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

/// The types of the network's outputs; nothing where its open extents must be others than these.
std::vector<DType> output_types(const Graph& network) {
  constexpr std::int64_t guess = 224;
  CompileOptions options;
  for (const int input : network.inputs()) {
    const Graph::Node& node = network.nodes()[static_cast<std::size_t>(input)];
    if (*node.shape == Shape{any_rank}) return {};
    std::vector<std::int64_t> shape;
    for (const std::int64_t extent : *node.shape)
      shape.push_back(extent == batch ? 1 : extent == open ? guess : extent);
    options.input_shapes[node.name] = Shape(shape);
  }
  std::vector<DType> types;
  try {
    const detail::Resolved resolved = detail::resolve(network, options);
    for (const int output : resolved.outputs) types.push_back(resolved.network[output].dtype);
  } catch (const Error&) {
  }
  return types;
}

Call call_of(const Graph& network, const Graph::Node& node) {
  const std::string own(node.module->op());
  Call call = {std::string(renamed(other_names, own)), {}, node.module->attributes()};
  const auto& nodes = network.nodes();
  for (const int input : node.inputs)
    call.inputs.push_back(input < 0 ? "" : nodes[static_cast<std::size_t>(input)].name);
  const auto refuse = [&](const char* why) { fail(node.name, ": ", own, why, " is not written to .onnx files"); };
  const bool op = dynamic_cast<const Op*>(node.module.get()) != nullptr;
  if (op ? std::ranges::find(own_ops, own) != std::end(own_ops) : call.op == own) refuse("");
  if (op) return call;
  const Shape from = nodes[static_cast<std::size_t>(node.inputs[0])].shape.value_or(Shape{any_rank});
  const Shape to = node.shape.value_or(Shape{any_rank});
  const std::span<const Module::Parameter> parameters = node.module->parameters();
  if (own == "batch_norm2d" && parameters.size() < 4) refuse(" without weight and bias");
  if (own == "local_response_norm" && AttributeReader(call.attributes).integer("size", 0) % 2 == 0)
    refuse(" over an even number of channels");
  if (own == "linear" && from.rank() != 2) refuse(" of more than two dimensions");
  if (own == "linear") call.attributes = {{"transB", std::int64_t{1}}};
  if (own == "adaptive_avg_pool2d" && to.rank() == 4 && to[2] == 1 && to[3] == 1) {
    call = {"GlobalAveragePool", std::move(call.inputs), {}};
  } else if (own == "adaptive_avg_pool2d") {
    const auto window = [&](int d) {
      if (to.rank() != 4 || from[d] < 1 || from[d] % to[d] != 0) refuse(" of windows that are not of one size");
      return from[d] / to[d];
    };
    const std::vector<std::int64_t> windows = {window(2), window(3)};
    call.attributes = {{"kernel_shape", windows}, {"strides", windows}};
  }
  for (auto& [name, value] : call.attributes) {
    name = renamed(other_attributes, name);
    auto* const pads = std::get_if<std::vector<std::int64_t>>(&value);
    if (name == "pads") pads->insert(pads->end(), pads->begin(), pads->end());  // before, and after
  }
  for (const Module::Parameter& parameter : parameters) {
    call.inputs.push_back(detail::concat(node.name, '.', parameter.name));
    if (!parameter.value.defined()) fail(node.name, ": ", parameter.name, " was never set");
    if (network.find(call.inputs.back()) != nullptr) fail("two things are called ", call.inputs.back());
  }
  return call;
}

/// The outputs that ONNX's node has, also where nobody reads them.
std::size_t least_outputs(const Graph& network, const Graph::Node& node, const Call& call) {
  if (call.op != "Split") return call.op == "TopK" ? 2 : call.op == "DynamicQuantizeLinear" ? 3 : 1;
  if (call.inputs.size() < 2 || call.inputs[1].empty())
    return static_cast<std::size_t>(std::max(AttributeReader(call.attributes).integer("num_outputs", 0), 1));
  const auto* const sizes = dynamic_cast<const Constant*>(network.find(call.inputs[1])->module.get());
  if (sizes == nullptr) fail(node.name, ": Split by sizes that are no constant is not written to .onnx files");
  return static_cast<std::size_t>(sizes->value().numel());
}

bool take(Attributes& attributes, std::string_view name) {
  return std::erase_if(attributes, [&](const auto& attribute) { return attribute.first == name; }) > 0;
}

/// The network's ops as ONNX has them. Nodes that are alike but for which output they are, are one there.
std::vector<Call> calls_of(const Graph& network) {
  std::vector<Call> calls;
  std::map<std::tuple<std::string, std::vector<std::string>, Attributes>, std::size_t> places;
  const auto unused = [&](std::string name) {
    while (network.find(name) != nullptr) name += '_';
    return name;
  };
  for (const Graph::Node& node : network.nodes()) {
    if (node.module == nullptr || node.module->op() == "Constant") continue;
    Call call = call_of(network, node);
    const auto output = static_cast<std::size_t>(AttributeReader(call.attributes).integer("output", 0));
    take(call.attributes, "output");
    call.least = least_outputs(network, node, call);
    const std::size_t count = std::max(call.least, output + 1);
    if (count > most_outputs) fail(node.name, ": expected at most ", most_outputs, " outputs, got ", count);
    if (take(call.attributes, "flatten")) {  // as before opset 13: of a matrix
      const std::string shape = unused(node.name + "_shape"), matrix = unused(node.name + "_matrix"),
                        rows = unused(node.name + "_rows");
      calls.push_back({"Shape", call.inputs, {}, {shape}});
      calls.push_back({"Flatten", call.inputs, call.attributes, {matrix}});
      calls.push_back({call.op, {matrix}, {{"axis", std::int64_t{1}}}, {rows}});
      call = {"Reshape", {rows, shape}, {}};
    }
    std::size_t& place = places.try_emplace({call.op, call.inputs, call.attributes}, calls.size()).first->second;
    if (place < calls.size() && output < calls[place].outputs.size() && !calls[place].outputs[output].empty())
      place = calls.size();  // the same once more
    if (place == calls.size()) calls.push_back(std::move(call));
    std::vector<std::string>& outputs = calls[place].outputs;
    outputs.resize(std::max(outputs.size(), count));
    outputs[output] = node.name;
  }
  for (Call& call : calls) {
    const std::string& name = *std::ranges::find_if_not(call.outputs, &std::string::empty);
    for (std::size_t i = 0; i < call.least; ++i) {
      if (call.outputs[i].empty()) call.outputs[i] = unused(detail::concat(name, "_output_", i));
    }
  }
  return calls;
}

}  // namespace

void detail::require_onnx(const Graph& network) { (void)calls_of(network); }

void save_onnx(const std::filesystem::path& path, const Graph& network) {
  detail::require_ending(path, {".onnx"});
  const std::vector<Call> calls = calls_of(network);
  const std::vector<DType> types = output_types(network);
  std::string bytes;
  pbf_writer model(bytes);
  std::int64_t opset = usual_opset;
  model.add_int64(1, 10);  // ir_version
  model.add_string(2, "Lamina");
  put(model, 7, [&](pbf_writer& graph) {
    graph.add_string(2, "network");
    for (const Graph::Node& node : network.nodes()) {
      if (node.module == nullptr || node.is_optional()) put_value(graph, 11, node, node.dtype);
      if (node.module == nullptr) continue;
      const bool constant = node.module->op() == "Constant";
      for (const Module::Parameter& p : node.module->parameters())
        put_constant(graph, constant ? node.name : detail::concat(node.name, '.', p.name), p.value);
    }
    for (const Call& call : calls) {
      put_call(graph, call);
      for (const auto& [name, first] : late) {
        const bool has = call.op == name || std::ranges::find(call.attributes, name, &Attributes::value_type::first) !=
                                                call.attributes.end();
        if (has) opset = std::max(opset, first);
      }
    }
    for (std::size_t i = 0; i < network.outputs().size(); ++i) {
      const Graph::Node& node = network.nodes()[static_cast<std::size_t>(network.outputs()[i])];
      put_value(graph, 12, node, types.empty() ? std::nullopt : std::optional(types[i]));
    }
  });
  put(model, 8, [&](pbf_writer& set) { set.add_string(1, ""), set.add_int64(2, opset); });
  constexpr std::size_t most = 0x7fffffff;
  if (bytes.size() > most)
    fail(path.string(), ": a network of ", bytes.size(), " bytes, more than an .onnx file holds");
  detail::write_file_atomically(path, std::as_bytes(std::span(bytes)));
}

}  // namespace lamina
