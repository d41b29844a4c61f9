#include <algorithm>
#include <cstring>
#include <memory>

#include "lamina/c/handles.h"

namespace lamina::c {

using detail::fail;

lamina_port port(const std::string& name, const Shape* shape, DType dtype) {
  lamina_port result = {.name = name.c_str(), .shape = {}, .rank = -1, .dtype = static_cast<lamina_dtype>(dtype)};
  if (shape == nullptr || *shape == Shape{any_rank}) return result;
  result.rank = static_cast<int32_t>(shape->rank());
  std::ranges::copy(*shape, result.shape);
  return result;
}

namespace {

// The numbers of the header are those of the library.
static_assert(static_cast<lamina_dtype>(DType::boolean) == LAMINA_BOOL && LAMINA_MAX_RANK == Shape::max_rank);
static_assert(static_cast<lamina_dtype>(DType::i64) == LAMINA_I64 &&
              static_cast<lamina_dtype>(DType::f64) == LAMINA_F64);
static_assert(batch == LAMINA_BATCH && open == LAMINA_OPEN);

lamina_model* handle_of(Model model) {
  std::unique_ptr<lamina_model> handle(new lamina_model{.model = std::move(model)});
  const Graph& graph = handle->model.graph;
  const auto add = [&graph](const std::vector<int>& nodes, std::vector<lamina_port>& ports) {
    for (const int node : nodes) {
      const Graph::Node& of = graph.nodes()[static_cast<std::size_t>(node)];
      ports.push_back(port(of.name, of.shape ? &*of.shape : nullptr, of.dtype));
    }
  };
  add(graph.inputs(), handle->inputs);
  add(graph.outputs(), handle->outputs);
  handle->name_classes();
  return handle.release();
}

}  // namespace

CompileOptions options_of(const lamina_compile_options* given) {
  constexpr std::size_t least = offsetof(lamina_compile_options, constants);  // of the first header
  const lamina_compile_options own = known_fields(given, least, "lamina_compile_options");
  const auto text = [](const char* value, const char* otherwise) { return value == nullptr ? otherwise : value; };
  CompileOptions options;
  options.device = parse_device(text(own.device, "auto"));
  options.batch = own.batch == 0 ? 1 : own.batch;
  options.precision = parse_precision(text(own.precision, "fp32"));
  options.threads = own.threads;
  options.batch_invariant = own.batch_invariant != 0;
  options.input_format = parse_format(text(own.input_format, "f32"));
  options.output_format = parse_format(text(own.output_format, "f32"));
  if (own.input_shape_count > 0) require(own.input_shapes, "options.input_shapes");
  for (const lamina_port& input : std::span(own.input_shapes, own.input_shape_count)) {
    require(input.name, "options.input_shapes.name");
    if (input.rank < 0 || input.rank > LAMINA_MAX_RANK)
      fail(input.name, ": expected a rank from 0 to ", LAMINA_MAX_RANK, ", got ", input.rank);
    options.input_shapes[input.name] = Shape(std::span(input.shape, static_cast<std::size_t>(input.rank)));
  }
  if (own.constant_count > 0) require(own.constants, "options.constants");
  if (own.constant_count > 0) require(own.constant_names, "options.constant_names");
  for (std::size_t i = 0; i < own.constant_count; ++i) {
    require(own.constant_names[i], "options.constant_names");
    options.constants[own.constant_names[i]] = tensor_of(own.constants[i], own.constant_names[i]).clone();
  }
  if (own.output_count > 0) require(own.outputs, "options.outputs");
  for (const char* output : std::span(own.outputs, own.output_count)) {
    require(output, "options.outputs");
    options.outputs.emplace_back(output);
  }
  if (own.capacity_count > 0)
    require(own.capacities, "options.capacities", own.capacity_names, "options.capacity_names");
  for (std::size_t i = 0; i < own.capacity_count; ++i) {
    require(own.capacity_names[i], "options.capacity_names");
    options.capacity[own.capacity_names[i]] = own.capacities[i];
  }
  return options;
}

}  // namespace lamina::c

using lamina::c::guarded;
using lamina::c::require;

lamina_status lamina_model_load(const char* path, lamina_model** model) {
  return guarded([&] {
    require(path, "path", model, "model");
    *model = lamina::c::handle_of(lamina::load_model(path));
  });
}

lamina_status lamina_model_load_memory(const void* bytes, size_t size, lamina_model** model) {
  return guarded([&] {
    require(bytes, "bytes", model, "model");
    *model = lamina::c::handle_of(lamina::load_model(std::span(static_cast<const std::byte*>(bytes), size)));
  });
}

lamina_status lamina_model_load_network(const char* network, int32_t classes, const char* weights,
                                        lamina_model** model) {
  return guarded([&] {
    require(network, "network", weights, "weights", model, "model");
    lamina::Model loaded;
    loaded.graph = lamina::network(network, classes == 0 ? 1000 : classes);
    loaded.preprocess = lamina::network_preprocess(network);
    loaded.warnings = loaded.graph.load(lamina::Weights::open(weights));
    *model = lamina::c::handle_of(std::move(loaded));
  });
}

void lamina_model_free(lamina_model* model) { delete model; }

lamina_status lamina_model_inputs(const lamina_model* model, const lamina_port** ports, size_t* count) {
  return guarded([&] { require(model, "model"), lamina::c::give(model->inputs, ports, count); });
}

lamina_status lamina_model_outputs(const lamina_model* model, const lamina_port** ports, size_t* count) {
  return guarded([&] { require(model, "model"), lamina::c::give(model->outputs, ports, count); });
}

lamina_status lamina_model_labels(const lamina_model* model, const char* const** labels, size_t* count) {
  return guarded([&] { require(model, "model"), lamina::c::give(model->labels, labels, count); });
}

lamina_status lamina_model_set_labels(lamina_model* model, const char* const* labels, size_t count) {
  return guarded([&] {
    require(model, "model");
    if (count > 0) require(labels, "labels");
    for (const char* label : std::span(labels, count)) require(label, "labels");
    model->model.labels.assign(labels, labels + count);
    model->name_classes();
  });
}

lamina_status lamina_model_metadata(const lamina_model* model, const char* key, const char** value) {
  return guarded([&] {
    require(model, "model", key, "key", value, "value");
    const auto found = model->model.metadata.find(key);
    *value = found == model->model.metadata.end() ? nullptr : found->second.c_str();
  });
}
