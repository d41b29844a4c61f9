#include "serve/inference.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "lamina/base/json.h"
#include "lamina/base/names.h"
#include "words.h"

namespace lamina::app {
namespace {

using Json = nlohmann::ordered_json;

struct TypeName {
  DType dtype;
  const char* protocol;
  const char* config;
};
constexpr TypeName types[] = {
    {DType::boolean, "BOOL", "TYPE_BOOL"}, {DType::u8, "UINT8", "TYPE_UINT8"},    {DType::i8, "INT8", "TYPE_INT8"},
    {DType::u16, "UINT16", "TYPE_UINT16"}, {DType::i16, "INT16", "TYPE_INT16"},   {DType::u32, "UINT32", "TYPE_UINT32"},
    {DType::i32, "INT32", "TYPE_INT32"},   {DType::u64, "UINT64", "TYPE_UINT64"}, {DType::i64, "INT64", "TYPE_INT64"},
    {DType::f16, "FP16", "TYPE_FP16"},     {DType::bf16, "BF16", "TYPE_BF16"},    {DType::f32, "FP32", "TYPE_FP32"},
    {DType::f64, "FP64", "TYPE_FP64"}};

const TypeName& type_of(DType dtype) {
  return *std::ranges::find_if(types, [&](const TypeName& type) { return type.dtype == dtype; });
}

Json shape_json(const Shape& shape, bool batched, bool config) {
  Json extents = Json::array();
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (batched && i == 0) {
      if (!config) extents.push_back(-1);
    } else {
      extents.push_back(std::max<std::int64_t>(shape[static_cast<int>(i)], -1));  // the protocol's word for open
    }
  }
  return extents;
}

Json port(const std::string& name, DType dtype, const Json& shape, bool config) {
  const TypeName& type = type_of(dtype);
  if (config) return {{"name", name}, {"data_type", type.config}, {"dims", shape}};
  return {{"name", name}, {"datatype", type.protocol}, {"shape", shape}};
}

Json ports(const Hosted& hosted, std::span<const std::string> names, std::span<const Shape> shapes,
           std::span<const DType> dtypes, bool config) {
  Json list = Json::array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    list.push_back(port(names[i], dtypes[i], shape_json(shapes[i], hosted.batched(), config), config));
  }
  return list;
}

/// Inputs that have a value in the file, and need not be sent.
void append_optional(Json& inputs, const Graph& graph, bool config) {
  for (const int i : graph.optional_inputs()) {
    const Graph::Node& node = graph.nodes()[static_cast<std::size_t>(i)];
    inputs.push_back(port(node.name, node.dtype, shape_json(*node.shape, false, config), config));
    (config ? inputs.back() : inputs.back()["parameters"])["optional"] = true;
  }
}

std::string described(const Hosted& hosted, bool config) {
  const Plan& plan = const_cast<Hosted&>(hosted).pool().plan();
  Json inputs = ports(hosted, plan.input_names(), hosted.input_shapes(), plan.input_dtypes(), config);
  append_optional(inputs, hosted.model().graph, config);
  const Json outputs = ports(hosted, plan.output_names(), hosted.output_shapes(), plan.output_dtypes(), config);
  if (!config) {
    return Json{
        {"name", hosted.name()}, {"versions", {"1"}}, {"platform", "lamina"}, {"inputs", inputs}, {"outputs", outputs}}
        .dump();
  }
  return Json{{"name", hosted.name()}, {"platform", "lamina"},
              {"backend", "lamina"},   {"max_batch_size", hosted.batched() ? plan.options().batch : 0},
              {"input", inputs},       {"output", outputs}}
      .dump();
}

const Json* member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

std::string text_of(const Json& json, const char* name, const std::string& where) {
  const Json* text = member(json, name);
  if (text == nullptr || !text->is_string()) refuse(fmt::format("{}: expected a text \"{}\"", where, name));
  return text->get<std::string>();
}

bool flag(const Json& json, const char* name, bool otherwise) {
  const Json* parameters = member(json, "parameters");
  const Json* value = parameters == nullptr ? nullptr : member(*parameters, name);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

std::size_t index_of(std::span<const std::string> names, const std::string& name, const char* what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    refuse(fmt::format("the model has no {} \"{}\"{}", what, name, detail::nearest_text(name, names)));
  return static_cast<std::size_t>(found - names.begin());
}

constexpr std::int64_t most_elements = std::int64_t{1} << 32;

Shape parse_shape(const Json& input, const std::string& name, const Shape& declared, bool batched, std::int64_t most) {
  const Json* extents = member(input, "shape");
  std::vector<std::int64_t> values;
  bool whole = extents != nullptr && extents->is_array() && extents->size() == declared.rank();
  for (std::size_t i = 0; whole && i < declared.rank(); ++i) {
    whole = (*extents)[i].is_number_integer();
    if (whole) values.push_back((*extents)[i].get<std::int64_t>());
    const std::int64_t expected = declared[static_cast<int>(i)];
    whole = whole && (batched && i == 0                       ? values[i] >= 1 && values[i] <= most
                      : expected == open || expected == batch ? values[i] >= 0
                                                              : values[i] == expected);
  }
  if (!whole) {
    refuse(fmt::format("{}: expected a shape of {}{}, got {}", name, declared.to_string(),
                       batched ? " or fewer images" : "", extents == nullptr ? "none" : extents->dump()));
  }
  const Shape shape(values);
  if (shape.numel() > most_elements) refuse(fmt::format("{}: more than {} numbers", name, most_elements));
  return shape;
}

/// Where it is in the request, if it is aligned there.
Tensor tensor_at(const Call& call, const char* data, const Shape& shape, DType dtype) {
  const Tensor there = Tensor::borrow(const_cast<char*>(data), shape, dtype, Device::cpu(), call.storage);
  if (call.storage != nullptr && reinterpret_cast<std::uintptr_t>(data) % 64 == 0) return there;
  call.reserve(there.bytes());
  return there.clone();
}

/// A tree takes many times its text: no more of it than a request of this model needs.
Json parse_json(const Call& call, std::string_view text, const Hosted& hosted) {
  std::size_t limit = hosted.is_open() ? text.size() : 10000;  // names, shapes, parameters
  for (const Shape& shape : hosted.input_shapes()) {
    if (!hosted.is_open()) limit += 2 * static_cast<std::size_t>(shape.numel());
  }
  constexpr std::size_t bytes_of_value = 40;
  const auto values =
      static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return c == ',' || c == '[' || c == '{'; }));
  if (values > limit) throw Refusal{413, fmt::format("expected JSON of at most {} values, got {}", limit, values)};
  call.reserve(text.size() + values * bytes_of_value);
  try {
    return lamina::detail::parse_json<Json>(text, "the request");
  } catch (const Error& error) {
    refuse(error.what());
  }
}

}  // namespace

std::string model_metadata(const Hosted& hosted) { return described(hosted, false); }
std::string model_config(const Hosted& hosted) { return described(hosted, true); }

InferenceRequest parse_inference(const Call& call, Hosted& hosted) {
  const Plan& plan = hosted.pool().plan();
  std::string_view text = call.body, binary;
  if (const std::string length = call.header("inference-header-content-length"); !length.empty()) {
    const auto bytes = number_in<std::size_t>(length);
    if (!bytes || *bytes > text.size()) {
      refuse("Inference-Header-Content-Length: expected the length of the JSON in the body, got " + length);
    }
    binary = text.substr(*bytes);
    text = text.substr(0, *bytes);
  }
  const Json json = parse_json(call, text, hosted);
  InferenceRequest request;
  if (const Json* id = member(json, "id"); id != nullptr && id->is_string()) request.id = id->get<std::string>();
  const Json* inputs = member(json, "inputs");
  if (inputs == nullptr || !inputs->is_array()) refuse("expected a list \"inputs\"");
  request.inputs.resize(plan.input_names().size());
  for (const Json& input : *inputs) {
    const std::string name = text_of(input, "name", "inputs");
    const Graph::Node* node = hosted.model().graph.find(name);
    const bool optional = node != nullptr && node->is_optional();
    const std::size_t i = optional ? 0 : index_of(plan.input_names(), name, "input");
    const DType dtype = optional ? node->dtype : plan.input_dtypes()[i];
    Tensor& value = optional ? request.constants[name] : request.inputs[i];
    if (value.defined()) refuse(fmt::format("{}: is given twice", name));
    if (const std::string given = text_of(input, "datatype", name); given != type_of(dtype).protocol) {
      refuse(fmt::format("{}: expected datatype {}, got {}", name, type_of(dtype).protocol, given));
    }
    const Shape shape = parse_shape(input, name, optional ? *node->shape : hosted.input_shapes()[i],
                                    !optional && plan.batched(), plan.options().batch);
    const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    const Json* parameters = member(input, "parameters");
    const Json* size = parameters == nullptr ? nullptr : member(*parameters, "binary_data_size");
    if (size == nullptr) {
      const Json* data = member(input, "data");
      if (data == nullptr) refuse(fmt::format("{}: expected \"data\", or binary data behind the JSON", name));
      call.reserve(bytes);
      value = tensor_of(name, *data, shape, dtype);
      continue;
    }
    if (!size->is_number_unsigned() || size->get<std::uint64_t>() != bytes || binary.size() < bytes) {
      refuse(fmt::format("{}: expected {} bytes of binary data, got {} of {} left", name, bytes, size->dump(),
                         binary.size()));
    }
    value = tensor_at(call, binary.data(), shape, dtype);
    binary.remove_prefix(bytes);
  }
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    if (!request.inputs[i].defined()) refuse(fmt::format("the input \"{}\" is missing", plan.input_names()[i]));
  }
  if (!binary.empty()) refuse(fmt::format("{} bytes of binary data are left over", binary.size()));
  const bool all_binary = flag(json, "binary_data_output", false);
  if (const Json* outputs = member(json, "outputs"); outputs != nullptr && outputs->is_array()) {
    for (const Json& output : *outputs) {
      const std::size_t i = index_of(plan.output_names(), text_of(output, "name", "outputs"), "output");
      if (std::ranges::count(request.outputs, i, &InferenceRequest::Output::index) > 0) {
        refuse(fmt::format("the output \"{}\" is asked for twice", plan.output_names()[i]));
      }
      request.outputs.push_back({i, flag(output, "binary_data", all_binary)});
    }
  }
  if (request.outputs.empty()) {
    for (std::size_t i = 0; i < plan.output_names().size(); ++i) request.outputs.push_back({i, all_binary});
  }
  return request;
}

void reserve_results(const Call& call, const InferenceRequest& request, const Plan& plan) {
  // The results, and the reply that they become; as text a number takes up to three times its four bytes.
  const bool fewer = plan.batched() && !request.inputs.empty();
  const std::int64_t batch = fewer ? plan.options().batch / request.inputs[0].shape()[0] : 1;
  for (const auto& [index, as_binary] : request.outputs) {
    const auto bytes =
        static_cast<std::uint64_t>(plan.output_shapes()[index].numel() / batch) * size_of(plan.output_dtypes()[index]);
    call.reserve(as_binary ? 2 * bytes : 4 * bytes);
  }
}

Reply inference_reply(const Hosted& hosted, const InferenceRequest& request, const std::vector<Tensor>& results) {
  const Plan& plan = const_cast<Hosted&>(hosted).pool().plan();
  std::string text = Json{{"model_name", hosted.name()}, {"model_version", "1"}}.dump();
  text.pop_back();
  if (!request.id.empty()) text += ",\"id\":" + Json(request.id).dump();
  text += ",\"outputs\":[";
  std::string binary;
  for (const auto& [index, as_binary] : request.outputs) {
    const Tensor& result = results[index];
    if (text.back() != '[') text += ',';
    std::string head = Json{{"name", plan.output_names()[index]},
                            {"datatype", type_of(result.dtype()).protocol},
                            {"shape", shape_json(result.shape(), false, false)}}
                           .dump();
    head.pop_back();
    text += head;
    if (as_binary) {
      text += fmt::format(",\"parameters\":{{\"binary_data_size\":{}}}}}", result.bytes());
      binary.append(static_cast<const char*>(result.raw()), result.bytes());
    } else {
      text += ",\"data\":";
      append_values(text, result);
      text += '}';
    }
  }
  text += "]}";
  Reply reply = {.body = std::move(text)};
  const bool any_binary = std::ranges::any_of(request.outputs, &InferenceRequest::Output::binary);
  if (any_binary) {
    reply.headers["Inference-Header-Content-Length"] = std::to_string(reply.body.size());
    reply.type = "application/octet-stream";
    reply.body += binary;
  }
  return reply;
}

}  // namespace lamina::app
