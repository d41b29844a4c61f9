// Graph::compile: shapes, fusion, buffers, kernels and memory, in that order.

#include <algorithm>

#include "lamina/cuda/stream.h"
#include "lamina/graph/graph.h"
#include "lamina/graph/plan_impl.h"
#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/error.h"
#include "lamina/tensor/math.h"

namespace lamina {
namespace {

using detail::concat;
using detail::fail;

constexpr int none = -1;

class Compiler {
 public:
  Compiler(const Graph& graph, const CompileOptions& options)
      : graph_(graph), nodes_(graph.nodes()), plan_(std::make_unique<Plan::Impl>()) {
    plan_->options = options;
  }

  std::unique_ptr<Plan::Impl> compile() {
    check_options();
    shapes_ = graph_.shapes(plan_->options.batch);
    count_uses();
    find_fusions();
    assign_buffers();
    prepare_steps();
    add_ports();
    allocate();
    return std::move(plan_);
  }

 private:
  void check_options() {
    CompileOptions& o = plan_->options;
    if (nodes_.empty() || graph_.outputs().empty())
      fail("compile: expected a graph with an output; call Graph::output");
    if (o.threads < 0) fail("compile: expected threads of 0 (one for each core) or more, got ", o.threads);
    if (o.device.is_cuda()) detail::require_cuda_device(o.device.index);
    if (o.keep_all) o.fuse = false;
    if (o.threads == 0) o.threads = cpu::ThreadPool::default_threads();
    if (o.device.is_cuda()) o.threads = 1;
    plan_->pool = std::make_unique<cpu::ThreadPool>(o.threads);
  }

  bool is_output(int node) const {
    return std::find(graph_.outputs().begin(), graph_.outputs().end(), node) != graph_.outputs().end();
  }

  const Graph::Node& node(int index) const { return nodes_[static_cast<std::size_t>(index)]; }
  const Shape& shape(int index) const { return shapes_[static_cast<std::size_t>(index)]; }
  int& buffer_of(int index) { return buffer_of_[static_cast<std::size_t>(index)]; }
  int count() const { return static_cast<int>(nodes_.size()); }

  void count_uses() {
    uses_.assign(nodes_.size(), 0);
    for (const Graph::Node& n : nodes_) {
      for (const int input : n.inputs) ++uses_[static_cast<std::size_t>(input)];
    }
  }

  /// The node that computes node i: i itself, or the one that it was folded into.
  int root(int i) const {
    const int into = folded_into_[static_cast<std::size_t>(i)];
    return into == none ? i : into;
  }

  bool sole_use(int i) const { return uses_[static_cast<std::size_t>(i)] == 1 && !is_output(i); }

  /// The module that node i runs: its own, or what became of it when a batch norm was folded into it.
  const Module& module_of(int i) const {
    const auto& folded = folded_modules_[static_cast<std::size_t>(i)];
    return folded == nullptr ? *node(i).module : *folded;
  }

  /// Bytes of folded parameters that the operator uses in place; on a GPU it has copies, which it counts itself.
  std::size_t folded_bytes(int i) const {
    const auto& folded = folded_modules_[static_cast<std::size_t>(i)];
    if (folded == nullptr || plan_->options.device.is_cuda()) return 0;
    std::size_t bytes = 0;
    for (const Module::Parameter& parameter : folded->parameters()) bytes += parameter.value->bytes();
    return bytes;
  }

  void find_fusions() {
    folded_into_.assign(nodes_.size(), none);
    fused_relu_.assign(nodes_.size(), false);
    folded_modules_.resize(nodes_.size());
    if (!plan_->options.fuse) return;
    for (int i = 0; i < count(); ++i) {
      if (node(i).module == nullptr || node(i).inputs.size() != 1) continue;
      const int source = node(i).inputs[0];
      const auto into = static_cast<std::size_t>(root(source));
      if (nodes_[into].module == nullptr || fused_relu_[into] || !sole_use(source)) continue;
      if (node(i).module->op() == "relu") {
        fused_relu_[into] = module_of(root(source)).fuses_relu();
        if (fused_relu_[into]) folded_into_[static_cast<std::size_t>(i)] = root(source);
      } else if (auto folded = followed_by(root(source), i)) {
        folded_modules_[into] = std::move(folded);
        folded_into_[static_cast<std::size_t>(i)] = root(source);
      }
    }
  }

  std::shared_ptr<Module> followed_by(int source, int next) const {
    try {
      return module_of(source).followed_by(*node(next).module);
    } catch (const Error& error) {
      fail(node(next).name, ": ", error.what());
    }
  }

  /// The names of the nodes folded into node i, in order.
  std::string fused_names(int i) const {
    std::string names;
    for (int other = i + 1; other < count(); ++other) {
      if (folded_into_[static_cast<std::size_t>(other)] == i) names += (names.empty() ? "" : ", ") + node(other).name;
    }
    return names;
  }

  int new_buffer(int index) {
    Plan::Impl::Buffer buffer;
    const auto bytes = detail::checked_mul<std::int64_t>(shape(index).numel(), sizeof(float));
    if (!bytes) fail(node(index).name, ": an output of ", shape(index), " is too large");
    buffer.life = {static_cast<std::size_t>(*bytes), index, index};
    buffer.input = node(index).module == nullptr;
    plan_->buffers.push_back(std::move(buffer));
    return static_cast<int>(plan_->buffers.size()) - 1;
  }

  /// Node i's output is its operand's buffer, with nothing to compute.
  bool is_alias(int i) const { return folded_into_[static_cast<std::size_t>(i)] != none || node(i).module->is_view(); }

  /// The operand whose buffer node i's output shares, or `none`.
  int shares_with(int i) {
    const Graph::Node& n = node(i);
    if (n.module == nullptr) return none;
    const int source = n.inputs.empty() ? none : n.inputs[0];
    if (is_alias(i)) return source;
    if (!n.module->in_place() || plan_->options.keep_all) return none;
    // Writing over the operand must not be seen: nobody else reads its buffer, now or later.
    const auto buffer = static_cast<std::size_t>(buffer_of(source));
    const bool overwritable = !plan_->buffers[buffer].input && readers_[buffer] == 1;
    return overwritable ? source : none;
  }

  void assign_buffers() {
    buffer_of_.assign(nodes_.size(), none);
    count_readers();
    for (int i = 0; i < count(); ++i) {
      const int source = shares_with(i);
      buffer_of(i) = source == none ? new_buffer(i) : buffer_of(source);
      if (source == none) readers_.push_back(0);
      // A result written over its operand has readers of its own; a view or a folded node was counted with its source.
      if (source == none || !is_alias(i)) {
        readers_[static_cast<std::size_t>(buffer_of(i))] = reads_of_class_[static_cast<std::size_t>(i)];
      }
    }
    // Steps are numbered by node. A buffer lives from the node that writes it to the last that reads it.
    for (int i = 0; i < count(); ++i) {
      for (const int input : node(i).inputs) extend(buffer_of(input), i);
      extend(buffer_of(i), i);
    }
    for (const int output : graph_.outputs()) extend(buffer_of(output), count());
    if (plan_->options.keep_all) {
      for (int i = 0; i < count(); ++i) extend(buffer_of(i), count());
    }
  }

  /// How many nodes, or the caller, read node i's output or a view of it.
  void count_readers() {
    reads_of_class_.assign(nodes_.size(), 0);
    for (int i = count() - 1; i >= 0; --i) {
      const auto at = static_cast<std::size_t>(i);
      if (is_output(i)) ++reads_of_class_[at];
      for (const int input : node(i).inputs) {
        reads_of_class_[static_cast<std::size_t>(input)] += is_alias(i) ? reads_of_class_[at] : 1;
      }
    }
  }

  void extend(int buffer, int step) {
    detail::Lifetime& life = plan_->buffers[static_cast<std::size_t>(buffer)].life;
    life.last = std::max(life.last, step);
  }

  void prepare_steps() {
    const CompileOptions& o = plan_->options;
    for (int i = 0; i < count(); ++i) {
      const Graph::Node& n = node(i);
      const bool computes =
          n.module != nullptr && !n.module->is_view() && folded_into_[static_cast<std::size_t>(i)] == none;
      if (!computes) continue;
      std::vector<Shape> inputs;
      for (const int input : n.inputs) inputs.push_back(shape(input));
      Plan::Impl::Step step;
      step.name = n.name;
      step.fused = fused_names(i);
      try {
        step.op = module_of(i).prepare({.inputs = inputs,
                                        .device = o.device,
                                        .precision = o.precision,
                                        .algorithm = o.algorithm,
                                        .linear_weights = o.linear_weights,
                                        .threads = o.threads,
                                        .relu = fused_relu_[static_cast<std::size_t>(i)],
                                        .workspace_limit = o.workspace_limit});
      } catch (const Error& error) {
        fail(n.name, ": ", error.what());
      }
      step.inputs.resize(inputs.size());
      plan_->memory.workspace = std::max(plan_->memory.workspace, step.op->workspace_bytes());
      plan_->memory.parameters += step.op->parameter_bytes() + folded_bytes(i);

      const std::size_t number = plan_->steps.size();
      for (std::size_t slot = 0; slot < inputs.size(); ++slot) {
        use(n.inputs[slot], {number, static_cast<int>(slot), inputs[slot]});
      }
      use(i, {number, none, shape(i)});
      plan_->steps.push_back(std::move(step));
    }
  }

  void use(int index, Plan::Impl::Use use) {
    plan_->buffers[static_cast<std::size_t>(buffer_of(index))].uses.push_back(use);
  }

  Plan::Impl::Port port(int index) {
    return {.name = node(index).name,
            .shape = shape(index),
            .buffer = static_cast<std::size_t>(buffer_of(index)),
            .bindable = false,
            .staging = {}};
  }

  void add_ports() {
    std::vector<bool> claimed(plan_->buffers.size(), false);
    for (const int index : graph_.inputs()) plan_->inputs.push_back(port(index));
    for (const int index : graph_.outputs()) {
      Plan::Impl::Port output = port(index);
      output.bindable = !plan_->buffers[output.buffer].input && !claimed[output.buffer];
      claimed[output.buffer] = true;
      plan_->outputs.push_back(std::move(output));
    }
    for (const auto& input : plan_->inputs) {
      plan_->input_names.push_back(input.name);
      plan_->input_shapes.push_back(input.shape);
    }
    for (const auto& output : plan_->outputs) {
      plan_->output_names.push_back(output.name);
      plan_->output_shapes.push_back(output.shape);
    }
    if (!plan_->options.keep_all) return;
    for (int i = 0; i < count(); ++i) {
      plan_->kept.push_back({node(i).name, shape(i), static_cast<std::size_t>(buffer_of(i))});
    }
  }

  /// Host memory that downloads overlap with other work on.
  static Tensor pinned(const Shape& shape) {
    const auto memory = std::make_shared<cuda::PinnedBuffer>(static_cast<std::size_t>(shape.numel()) * sizeof(float));
    return Tensor::borrow(memory->data(), shape, DType::f32, Device::cpu(), memory);
  }

  void allocate() {
    const Device device = plan_->options.device;
    // A CPU plan reads its inputs where the caller has them; on a GPU they may have to be uploaded to somewhere.
    std::vector<detail::Lifetime> lives;
    std::vector<std::size_t> homed;
    for (std::size_t b = 0; b < plan_->buffers.size(); ++b) {
      if (plan_->buffers[b].input && device.is_cpu()) continue;
      lives.push_back(plan_->buffers[b].life);
      // All uploads come before the first step.
      if (plan_->buffers[b].input) lives.back().first = 0;
      homed.push_back(b);
    }
    const detail::Arena arena = detail::plan_arena(lives);
    const auto bytes = [](std::size_t n) { return Shape{static_cast<std::int64_t>(n)}; };
    plan_->memory.activations = arena.bytes;
    plan_->arena = Tensor(bytes(arena.bytes), DType::u8, device);
    plan_->workspace = Tensor(bytes(plan_->memory.workspace), DType::u8, device);
    for (std::size_t i = 0; i < homed.size(); ++i) {
      Plan::Impl::Buffer& buffer = plan_->buffers[homed[i]];
      const auto offset = static_cast<std::int64_t>(arena.offsets[i]);
      buffer.home = plan_->arena.slice(offset, offset + static_cast<std::int64_t>(buffer.life.bytes));
      plan_->bind(homed[i], buffer.home);
    }
    for (auto& output : plan_->outputs) {
      if (device.is_cuda()) output.staging = pinned(output.shape);
    }
    plan_->results.resize(plan_->outputs.size());
    plan_->named_inputs.resize(plan_->inputs.size());
  }

  const Graph& graph_;
  const std::vector<Graph::Node>& nodes_;
  std::unique_ptr<Plan::Impl> plan_;
  std::vector<Shape> shapes_;
  std::vector<int> uses_;                                // nodes that read each node
  std::vector<int> folded_into_;                         // the node that computes this one too, or none
  std::vector<bool> fused_relu_;                         // a ReLU was folded into the node
  std::vector<std::shared_ptr<Module>> folded_modules_;  // see module_of
  std::vector<int> reads_of_class_;                      // see count_readers
  std::vector<int> readers_;                             // the same, by buffer
  std::vector<int> buffer_of_;
};

}  // namespace

Plan Graph::compile(const CompileOptions& options) const { return Plan(Compiler(*this, options).compile()); }

}  // namespace lamina
