#include "lamina/layers/op_table.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/concat.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/local_response_norm.h"
#include "lamina/layers/pool2d.h"
#include "lamina/layers/softmax.h"
#include "lamina/layers/views.h"

namespace lamina::detail {
namespace {

/// The shape of a parameter that must be there, of the wanted rank, with extents that fit in int.
Shape required_shape(const NodeSpec& spec, std::string_view op, std::string_view name, std::string_view meaning,
                     std::size_t rank) {
  const auto shape = spec.parameter_shape(name);
  if (!shape) fail(op, ": the file has no tensor \"", name, "\" for this node");
  if (shape->rank() != rank) fail(op, ": expected a ", name, ' ', meaning, ", got ", *shape);
  for (const std::int64_t extent : *shape) {
    if (extent < 1 || extent > std::numeric_limits<int>::max()) {
      fail(op, ": expected a ", name, ' ', meaning, " with something in it, got ", *shape);
    }
  }
  return *shape;
}

std::shared_ptr<Module> make_conv2d(const NodeSpec& spec, AttributeReader& attributes) {
  const Shape weight = required_shape(spec, "conv2d", "weight", "[out, in / groups, KH, KW]", 4);
  const auto extent = [&](int i) { return static_cast<int>(weight[i]); };
  Conv2dOptions options;
  options.stride = attributes.size("stride", 1);
  options.padding = attributes.size("padding", 0);
  options.dilation = attributes.size("dilation", 1);
  options.groups = attributes.integer("groups", 1);
  if (options.groups < 1 || options.groups > std::numeric_limits<int>::max() / extent(1)) {
    fail("conv2d: expected groups of 1 or more, got ", options.groups);
  }
  options.in = extent(1) * options.groups;
  options.out = extent(0);
  options.kernel = {extent(2), extent(3)};
  options.bias = spec.parameter_shape("bias").has_value();
  return std::make_shared<Conv2d>(options);
}

std::shared_ptr<Module> make_linear(const NodeSpec& spec, AttributeReader&) {
  const Shape weight = required_shape(spec, "linear", "weight", "[out, in]", 2);
  return std::make_shared<Linear>(LinearOptions{.in = static_cast<int>(weight[1]),
                                                .out = static_cast<int>(weight[0]),
                                                .bias = spec.parameter_shape("bias").has_value()});
}

std::shared_ptr<Module> make_batch_norm2d(const NodeSpec& spec, AttributeReader& attributes) {
  const Shape mean = required_shape(spec, "batch_norm2d", "running_mean", "[channels]", 1);
  return std::make_shared<BatchNorm2d>(BatchNorm2dOptions{
      .channels = static_cast<int>(mean[0]),
      .eps = attributes.number("eps", 1e-5),
      .affine = spec.parameter_shape("weight").has_value() || spec.parameter_shape("bias").has_value()});
}

std::shared_ptr<Module> make_max_pool2d(const NodeSpec&, AttributeReader& attributes) {
  MaxPool2dOptions options;
  options.kernel = attributes.size("kernel");
  options.stride = attributes.size("stride", options.kernel);
  options.padding = attributes.size("padding", 0);
  options.dilation = attributes.size("dilation", 1);
  options.ceil_mode = attributes.boolean("ceil_mode", false);
  return std::make_shared<MaxPool2d>(options);
}

std::shared_ptr<Module> make_avg_pool2d(const NodeSpec&, AttributeReader& attributes) {
  AvgPool2dOptions options;
  options.kernel = attributes.size("kernel");
  options.stride = attributes.size("stride", options.kernel);
  options.padding = attributes.size("padding", 0);
  options.ceil_mode = attributes.boolean("ceil_mode", false);
  options.count_include_pad = attributes.boolean("count_include_pad", true);
  return std::make_shared<AvgPool2d>(options);
}

std::shared_ptr<Module> make_adaptive_avg_pool2d(const NodeSpec&, AttributeReader& attributes) {
  return std::make_shared<AdaptiveAvgPool2d>(attributes.size("output"));
}

std::shared_ptr<Module> make_local_response_norm(const NodeSpec&, AttributeReader& attributes) {
  LocalResponseNormOptions options;
  options.size = attributes.integer("size", options.size);
  options.alpha = attributes.number("alpha", options.alpha);
  options.beta = attributes.number("beta", options.beta);
  options.k = attributes.number("k", options.k);
  return std::make_shared<LocalResponseNorm>(options);
}

/// A module whose one attribute is a dimension.
template <class M, int fallback>
std::shared_ptr<Module> make_along(const NodeSpec&, AttributeReader& attributes) {
  return std::make_shared<M>(attributes.integer("dim", fallback));
}

template <class M>
std::shared_ptr<Module> make_plain(const NodeSpec&, AttributeReader&) {
  return std::make_shared<M>();
}

struct Row {
  std::string_view op;
  std::shared_ptr<Module> (*make)(const NodeSpec&, AttributeReader& attributes);
};

// A new layer adds its line here.
constexpr Row table[] = {{"adaptive_avg_pool2d", make_adaptive_avg_pool2d},
                         {"add", make_plain<Add>},
                         {"avg_pool2d", make_avg_pool2d},
                         {"batch_norm2d", make_batch_norm2d},
                         {"concat", make_along<Concat, 0>},
                         {"conv2d", make_conv2d},
                         {"dropout", make_plain<Dropout>},
                         {"flatten", make_plain<Flatten>},
                         {"linear", make_linear},
                         {"local_response_norm", make_local_response_norm},
                         {"max_pool2d", make_max_pool2d},
                         {"relu", make_plain<ReLU>},
                         {"sigmoid", make_plain<Sigmoid>},
                         {"softmax", make_along<Softmax, -1>}};

/// The rows that programs add.
struct AddedRows {
  std::shared_mutex mutex;
  std::map<std::string, MakeModule, std::less<>> rows;
};
AddedRows& added() {
  static AddedRows rows;
  return rows;
}

/// A module that writes another name into files could not be read back.
std::shared_ptr<Module> made(std::string_view op, const MakeModule& make, const NodeSpec& spec) {
  std::shared_ptr<Module> module = make(spec);
  if (module == nullptr) fail("op ", quote(op), ": expected a module of what was registered for it, got null");
  if (module->op() != op) {
    fail("op ", quote(op), ": what was registered for it made a module whose op() is ", quote(module->op()));
  }
  return module;
}

}  // namespace

std::shared_ptr<Module> make_module(std::string_view op, const NodeSpec& spec, std::vector<std::string> known) {
  for (const Row& row : table) {
    known.emplace_back(row.op);
    if (row.op != op) continue;
    AttributeReader attributes(spec.attributes);
    std::shared_ptr<Module> module = row.make(spec, attributes);
    attributes.finish();
    return module;
  }
  MakeModule make;
  {
    const std::shared_lock lock(added().mutex);
    const auto found = added().rows.find(op);
    if (found != added().rows.end()) make = found->second;
    for (const auto& row : added().rows) known.push_back(row.first);
  }
  if (make != nullptr) return made(op, make, spec);
  if (op.find('.') != op.npos)  // as custom layers are called
    fail("unknown op ", quote(op),
         "; one of your own is known after register_op, before the model is loaded; docs/custom_layers.md in Lamina's "
         "repository says how");
  fail("unknown op ", quote(op), nearest_text(op, known),
       "; docs/formats.md and docs/inside/ops.md in Lamina's repository list those that are known");
}

std::vector<std::string> known_ops() {
  std::vector<std::string> names;
  for (const Row& row : table) names.emplace_back(row.op);
  return names;
}

bool knows_op(std::string_view op) {
  if (std::ranges::find(table, op, &Row::op) != std::end(table)) return true;
  const std::shared_lock lock(added().mutex);
  return added().rows.contains(op);
}

bool add_row(const std::string& op, MakeModule make) {
  const std::unique_lock lock(added().mutex);
  return added().rows.emplace(op, std::move(make)).second;
}

}  // namespace lamina::detail
