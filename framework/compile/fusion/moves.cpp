// Moves of elements before anything is fused: one after another becomes one, and those that only exchange rows change
// places with what is done to each row, where that brings them together. Exporters write a transformer's attention with
// seven of them around each of its products.

#include <algorithm>
#include <optional>

#include "lamina/compile/network_readers.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/rules/move_compose.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/fixed.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/views.h"

namespace lamina::detail {
namespace {

constexpr std::size_t longest_row = 256;  // of nodes that are looked at together: time is to grow with the network

class Moves : NetworkReaders {
 public:
  using NetworkReaders::NetworkReaders;

  void simplify() {
    for (int i = 0; i < network_.size(); ++i) {
      if (move_of(i)) join(i);
    }
    for (int i = 0; i < network_.size(); ++i) {
      if (move_of(i) && !sink(i)) hoist(i);
    }
    for (int i = 0; i < network_.size(); ++i) {
      if (const auto problem = move_of(i)) make_convolution(i, *problem);
    }
    for (int i = 0; i < network_.size(); ++i) {
      if (const auto problem = move_of(i)) make_view(i, *problem);
      if (is_view(i) && is_needed(i)) lift(i);
    }
  }

 private:
  bool is_view(int i) const {
    const Network::Node& node = network_[i];
    if (node.module == nullptr || node.inputs.size() != 1) return false;
    return node.module->is_view({&shape(node.inputs[0]), 1});
  }
  /// What a value is under another shape. Of a longer row of views, one of them.
  int behind_views(int i) const {
    for (std::size_t steps = 0; steps < longest_row && is_view(i); ++steps) i = network_[i].inputs[0];
    return i;
  }
  /// Everything that reads a value, under any shape; nothing if the caller does, or they are many.
  std::optional<std::vector<int>> all_readers(int i) const {
    std::vector<int> all, views = {i};
    while (!views.empty()) {
      const int view = views.back();
      views.pop_back();
      if (is_output_[index(view)]) return std::nullopt;
      for (const int reader : readers(view)) (is_view(reader) ? views : all).push_back(reader);
      if (all.size() + views.size() > longest_row) return std::nullopt;
    }
    return all;
  }

  std::optional<MoveProblem> move_of(int i) const {
    const Network::Node& node = network_[i];
    const auto* layer = dynamic_cast<const Layer<MoveProblem>*>(node.module.get());
    if (layer == nullptr || !is_needed(i) || node.inputs.size() != 1) return std::nullopt;
    return layer->problem({&shape(node.inputs[0]), 1});
  }
  void set_move(int i, const MoveProblem& problem, int source, Shape to) {
    replace(i, std::make_shared<Fixed<MoveProblem>>(problem, to, network_[i].dtype), {source}, to);
  }

  /// With the move before it, if whatever reads that one is a move too.
  void join(int i) {
    const int before = behind_views(network_[i].inputs[0]);
    const auto first = move_of(before), second = move_of(i);
    const auto others = all_readers(before);
    if (!first || !others || !std::ranges::all_of(*others, [&](int j) { return move_of(j).has_value(); })) return;
    // Of an image under another shape it reads the image, which may be channels last.
    const auto both = composed(*second, *first);
    if (both) set_move(i, *both, behind_views(network_[before].inputs[0]), shape(i));
  }

  /// Whether each row of its result, the last dimension, is made of the same row of its first input alone.
  bool is_rowwise(int i) const {
    const Network::Node& node = network_[i];
    const auto constant = [&](int input) {
      const Network::Node& operand = network_[input];
      const std::int64_t count = operand.shape.numel();
      return operand.constant.defined() && (count == 1 || (count == node.shape[-1] && operand.shape[-1] == count));
    };
    if (node.inputs.empty() || network_[node.inputs[0]].constant.defined()) return false;
    if (node.shape.rank() < 2 || shape(node.inputs[0]).rank() != node.shape.rank()) return false;
    if (dynamic_cast<const Linear*>(node.module.get()) != nullptr) return node.inputs.size() == 1;
    return dynamic_cast<const Elementwise*>(node.module.get()) != nullptr && shape(node.inputs[0]) == node.shape &&
           std::all_of(node.inputs.begin() + 1, node.inputs.end(), constant);
  }

  /// Whether layers of rows can have results of `rank` dimensions: their known operands broadcast to no fewer.
  bool can_have(std::size_t rank, const std::vector<int>& path) const {
    return std::ranges::all_of(path, [&](int node) {
      const std::vector<int>& inputs = network_[node].inputs;
      return std::all_of(inputs.begin() + 1, inputs.end(), [&](int i) { return shape(i).rank() <= rank; });
    });
  }

  static Shape with_rows_of(Shape shape, std::int64_t length) {
    shape.set(-1, length);
    return shape;
  }

  /// Behind what is done to each row, if moves follow that.
  bool sink(int i) {
    const int source = network_[i].inputs[0];
    if (shape(source).rank() < 2 || shape(source)[-1] != shape(i)[-1]) return false;
    std::vector<int> path;
    int last = i;
    while (is_read_once(last) && is_rowwise(readers(last)[0]) && network_[readers(last)[0]].inputs[0] == last) {
      path.push_back(last = readers(last)[0]);
    }
    const auto ends = all_readers(last);
    const auto rows = moves_rows(*move_of(i), shape(source).numel(), shape(i)[-1], shape(last)[-1]);
    if (path.empty() || !ends || ends->empty() || !rows || !can_have(shape(source).rank(), path)) return false;
    std::vector<MoveProblem> joined;
    for (const int end : *ends) {
      const auto move = move_of(end);
      const auto both = move ? composed(*move, *rows) : std::nullopt;
      if (!both) return false;
      joined.push_back(*both);
    }
    int before = source;
    for (const int node : path) {
      replace_input(node, before, with_rows_of(shape(source), shape(node)[-1]));
      before = node;
    }
    for (std::size_t e = 0; e < ends->size(); ++e) set_move((*ends)[e], joined[e], last, shape((*ends)[e]));
    return true;
  }

  /// In front of what is done to each row, if a move is there.
  bool hoist(int i) {
    std::vector<int> path;  // from the move to what is done first
    int first = behind_views(network_[i].inputs[0]);
    const auto read_once = [&](int node) {  // under any shape
      const auto all = all_readers(node);
      return all && all->size() == 1;
    };
    const auto has_its_rows = [&](int node) {  // a view may be of other rows
      return path.empty() || shape(node)[-1] == shape(network_[path.back()].inputs[0])[-1];
    };
    while (is_rowwise(first) && read_once(first) && has_its_rows(first)) {
      path.push_back(first);
      first = behind_views(network_[first].inputs[0]);
    }
    if (path.empty() || shape(path.front())[-1] != shape(i)[-1] || !can_have(shape(i).rank(), path)) return false;
    const auto before = move_of(first);
    if (!before || !read_once(first)) return false;
    const std::int64_t length = shape(network_[path.back()].inputs[0])[-1];
    const auto rows = moves_rows(*move_of(i), shape(path.front()).numel(), shape(i)[-1], length);
    const auto both = rows ? composed(*rows, *before) : std::nullopt;
    if (!both) return false;
    const Shape to = shape(i);
    set_move(first, *both, network_[first].inputs[0], with_rows_of(to, length));
    for (auto node = path.rbegin(); node != path.rend(); ++node) {
      replace_input(*node, first, with_rows_of(to, shape(*node)[-1]));
      first = *node;
    }
    read_instead(i, first);
    return true;
  }

  /// Where the rows of a linear layer become the pixels of images, [N, H, W, C] to [N, C, H, W], and functions follow
  /// (ConvNeXt's factors of channels and residual sums): a 1x1 convolution behind that move, which can take them in.
  void make_convolution(int i, const MoveProblem& problem) {
    const int source = network_[i].inputs[0];
    const View rows = {.shape = shape(source)}, image = {.shape = shape(i), .format = {.layout = Layout::nhwc}};
    if (image.shape.rank() != 4 || rows.shape.rank() != 4 || image.shape[1] != rows.shape[3]) return;
    if (!is_still(problem, {.inputs = {&rows, 1}, .outputs = {&image, 1}, .device = {}})) return;
    if (!is_read_once(source) || !is_read_once(i)) return;
    if (dynamic_cast<const Elementwise*>(network_[readers(i)[0]].module.get()) == nullptr) return;
    const auto layer_of = [&](int node) { return std::dynamic_pointer_cast<const Linear>(network_[node].module); };
    int product = source;
    auto linear = layer_of(product);
    if (linear == nullptr && is_rowwise(source)) {  // the addition of a bias
      product = network_[source].inputs[0], linear = layer_of(product);
      if (linear == nullptr || network_[source].inputs.size() != 2 || !is_read_once(product)) return;
      const Module::Operand operands[] = {{}, {1, network_[network_[source].inputs[1]].constant}};
      const Module::Absorbed absorbed = linear->absorb(*network_[source].module, operands);
      linear = absorbed.parameters ? std::dynamic_pointer_cast<const Linear>(absorbed.module) : nullptr;
    }
    if (linear == nullptr || !linear->weight().defined() || network_[product].inputs.size() != 1) return;
    const auto [in, out, bias] = linear->options();
    auto conv = std::make_shared<Conv2d>(Conv2dOptions{.in = in, .out = out, .bias = bias});
    conv->set_weight(linear->weight().view({out, in, 1, 1}));
    if (bias) conv->set_bias(linear->bias());
    const std::int64_t n = image.shape[0], h = image.shape[2], w = image.shape[3];
    set_move(product, {.axes = {{n, h * w * in}, {in, 1}, {h, w * in}, {w, in}}}, network_[product].inputs[0],
             {n, in, h, w});
    const int last = product == source ? i : source;
    replace(last, std::move(conv), {product}, image.shape);
    if (last != i) read_instead(i, last);
  }

  /// What moves nothing is a view, and does not stand between what can be fused. How an image lies in memory is not
  /// settled yet: such a move is looked at again then.
  void make_view(int i, const MoveProblem& problem) {
    const int source = network_[i].inputs[0];
    const View input = {.shape = shape(source)}, output = {.shape = shape(i)};
    if (input.shape.rank() == 4 || output.shape.rank() == 4) return;
    const Preparation preparation = {.inputs = {&input, 1}, .outputs = {&output, 1}, .device = {}};
    if (is_still(problem, preparation)) replace(i, std::make_shared<Reshape>(output.shape), {source}, output.shape);
  }

  /// A view in front of what is done to each row, if the rows come out of a view or a move, which may have any shape:
  /// what reads it may then become part of that.
  void lift(int i) {
    std::vector<int> path;  // from the view to what is done first
    int first = behind_views(i);
    while (is_rowwise(first) && is_read_once(first)) {
      path.push_back(first);
      first = network_[first].inputs[0];
    }
    const Shape to = shape(i);
    if (path.empty() || to.rank() < 2 || shape(path.front())[-1] != to[-1] || !can_have(to.rank(), path)) return;
    const auto move = move_of(first);
    if ((!move && !is_view(first)) || !is_read_once(first)) return;
    const Shape rows = with_rows_of(to, shape(first)[-1]);
    if (rows != shape(first)) {  // else it stays what it is: a Flatten becomes part of a Linear, a Reshape does not
      const int source = network_[first].inputs[0];
      move ? set_move(first, *move, source, rows) : replace(first, std::make_shared<Reshape>(rows), {source}, rows);
    }
    for (auto node = path.rbegin(); node != path.rend(); ++node) {
      replace_input(*node, first, with_rows_of(to, shape(*node)[-1]));
      first = *node;
    }
    read_instead(i, first);
  }
};

}  // namespace

void simplify_moves(Resolved& resolved) { Moves(resolved).simplify(); }

}  // namespace lamina::detail
