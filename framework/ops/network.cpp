#include "lamina/ops/network.h"

#include <algorithm>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/module/checks.h"
#include "lamina/module/run_once.h"
#include "lamina/ops/counts.h"

namespace lamina::detail {
namespace {

// What all constants that are computed may take, more where the network has weights: what is beyond is computed anew in
// each run. A file of some bytes may ask for any number of ones, any number of times. Shapes and the like do not count.
constexpr std::size_t of_each_image = std::size_t{64} << 20, of_each_byte = 4, uncounted = std::size_t{4} << 10;

}  // namespace

int Network::append(Node node) {
  // Products of extents, strides among them, are then counted in 64 bits wherever they are formed.
  if (node.shape.numel() > max_elements) fail(node.name, ": a value of ", node.shape, " is too large");
  nodes_.push_back(std::move(node));
  return size() - 1;
}

int Network::add_input(std::string name, Shape shape, DType dtype) {
  return append({.name = std::move(name), .shape = shape, .dtype = dtype});
}

void Network::set_count(int id, int axis, int count) {
  Node& node = nodes_[static_cast<std::size_t>(id)];
  node.counts.resize(node.shape.rank(), -1);
  node.counts[static_cast<std::size_t>(axis)] = count;
  if (std::ranges::all_of(node.counts, [](int c) { return c < 0; })) node.counts.clear();
}

bool Network::has_room(std::size_t bytes) const {
  return bytes <= of_any_network_ && computed_ + bytes <= of_any_network_ + of_each_byte * stored_;
}

void Network::add_room_of(std::int64_t batch) {
  constexpr std::int64_t most = 1024;  // images
  of_any_network_ += of_each_image * static_cast<std::size_t>(std::min(batch, most) - 1);
}

void Network::spend(std::size_t bytes) {
  if (bytes <= uncounted) return;
  if (!has_room(bytes)) {
    fail("lists and constants that take ", computed_ + bytes,
         " bytes with those of the nodes before; expected at most ", of_any_network_ + of_each_byte * stored_,
         " for a network with ", stored_, " bytes of constants");
  }
  computed_ += bytes;
}

void Network::drop_constant(int id) {
  Node& node = nodes_[static_cast<std::size_t>(id)];
  computed_ -= std::exchange(node.computed, 0);
  node.constant = {};
}

int Network::add_constant(std::string name, Tensor value) {
  stored_ += value.bytes();
  return append_constant(std::move(name), std::move(value));
}

int Network::add_made_constant(std::string name, Tensor value) {
  spend(value.bytes());
  return append_constant(std::move(name), std::move(value));
}

int Network::append_constant(std::string name, Tensor value) {
  const Shape shape = value.shape();
  const DType dtype = value.dtype();
  return append({.name = std::move(name), .shape = shape, .dtype = dtype, .constant = std::move(value)});
}

int Network::add(std::string name, std::shared_ptr<const Module> module, std::vector<int> inputs) {
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<Tensor> constants;
  for (const int input : inputs) {
    const Node& node = (*this)[input];
    shapes.push_back(node.shape);
    dtypes.push_back(node.dtype);
    if (node.constant.defined()) constants.push_back(node.constant);
  }
  Node node = {.name = std::move(name), .module = std::move(module), .inputs = std::move(inputs)};
  node.dtype = node.module->output_dtype(dtypes);
  node.shape = node.module->output_shape(shapes);
  if (shapes.empty() || constants.size() != shapes.size()) {
    node.counts = carried_counts(*this, *node.module, node.inputs, node.shape);
    node.range = range_of(*this, node);
    return append(std::move(node));
  }
  if (node.module->is_view(shapes)) return append_constant(std::move(node.name), constants[0].view(node.shape));
  const std::size_t bytes = bytes_of(node.shape, {.dtype = node.dtype}), counted = bytes > uncounted ? bytes : 0;
  if (bytes > of_any_network_ + of_each_byte * stored_)
    spend(bytes);  // which refuses it: no run has room for it either
  if (!has_room(counted)) return append(std::move(node));
  computed_ += counted;
  const int id = append_constant(std::move(node.name), run_once(*node.module, constants, node.shape, node.dtype, 1));
  nodes_[static_cast<std::size_t>(id)].computed = counted;
  return id;
}

int Network::add_sequence(std::vector<int> nodes) {
  spend(nodes.size() * sizeof(int));
  sequences_.push_back(std::move(nodes));
  return -1 - static_cast<int>(sequences_.size());
}

int& Network::made_once(std::string_view op, Attributes attributes, std::vector<int> inputs) {
  std::erase_if(attributes, [](const auto& attribute) { return attribute.first == "output"; });
  return made_once_.try_emplace({std::string(op), std::move(attributes), std::move(inputs)}, -1).first->second;
}

std::vector<std::string> Network::inputs_of(int id) const {
  std::vector<bool> needed(nodes_.size(), false);
  needed[static_cast<std::size_t>(id)] = true;
  std::vector<std::string> names;
  for (int i = id; i >= 0; --i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    const Node& node = (*this)[i];
    if (node.module == nullptr && !node.constant.defined()) names.push_back(node.name);
    for (const int input : node.inputs) needed[static_cast<std::size_t>(input)] = true;
  }
  return names;
}

}  // namespace lamina::detail
