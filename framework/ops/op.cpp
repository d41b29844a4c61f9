#include "lamina/ops/op.h"

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/ops/table.h"

namespace lamina {

using detail::fail;

Shape Constant::output_shape(std::span<const Shape> inputs) const {
  if (!inputs.empty()) fail("Constant: expected no inputs, got ", inputs.size());
  return parameters()[0].shape;
}

Attributes Constant::attributes() const {
  if (!input_) return {};
  return {{"input", std::vector<std::int64_t>(input_->begin(), input_->end())}};
}

std::unique_ptr<Operator> Constant::prepare(const Preparation&) const { fail("Constant: computes nothing"); }

Op::Op(std::string name, Attributes attributes) : name_(std::move(name)), attributes_(std::move(attributes)) {
  if (detail::find_op(name_) != nullptr) return;
  std::vector<std::string> names;
  for (const detail::OpRow& row : detail::all_ops()) names.emplace_back(row.name);
  fail("there is no op ", detail::quote(name_), detail::nearest_text(name_, names),
       "; docs/inside/ops.md in Lamina's repository lists them");
}

Attributes Op::attributes() const { return attributes_; }

Shape Op::output_shape(std::span<const Shape>) const {
  fail(name_, ": its shape is known when the network is compiled; use it in a Graph");
}

std::unique_ptr<Operator> Op::prepare(const Preparation&) const {
  fail(name_, ": is made of others; use it in a Graph");
}

}  // namespace lamina
