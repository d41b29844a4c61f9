#include "lamina/layers/op_table.h"

#include <array>
#include <limits>

#include "lamina/layers/conv2d.h"
#include "lamina/layers/relu.h"
#include "lamina/layers/views.h"
#include "lamina/tensor/error.h"

namespace lamina::detail {
namespace {

std::shared_ptr<Module> make_conv2d(const NodeSpec& spec) {
  AttributeReader attributes(spec.attributes);
  const auto weight = spec.parameter_shape("weight");
  if (!weight) fail("conv2d: the file has no tensor \"weight\" for this node");
  if (weight->rank() != 4) fail("conv2d: expected a weight [out, in / groups, KH, KW], got ", *weight);
  for (const std::int64_t extent : *weight) {
    if (extent < 1 || extent > std::numeric_limits<int>::max())
      fail("conv2d: a weight of shape ", *weight, " makes no filter");
  }
  const auto extent = [&](int i) { return static_cast<int>((*weight)[i]); };

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
  attributes.finish();
  return std::make_shared<Conv2d>(options);
}

template <class M>
std::shared_ptr<Module> make_plain(const NodeSpec& spec) {
  AttributeReader(spec.attributes).finish();
  return std::make_shared<M>();
}

struct Row {
  std::string_view op;
  std::shared_ptr<Module> (*make)(const NodeSpec&);
};

// A new layer adds its line here.
constexpr std::array<Row, 4> table = {{{"conv2d", make_conv2d},
                                       {"dropout", make_plain<Dropout>},
                                       {"flatten", make_plain<Flatten>},
                                       {"relu", make_plain<ReLU>}}};

}  // namespace

std::shared_ptr<Module> make_module(std::string_view op, const NodeSpec& spec) {
  std::string known;
  for (const Row& row : table) {
    if (row.op == op) return row.make(spec);
    known += (known.empty() ? "" : ", ") + std::string(row.op);
  }
  fail("unknown op \"", op, "\"; Lamina knows ", known);
}

}  // namespace lamina::detail
