// Which activations share a buffer, and where each buffer lies.

#include <algorithm>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/compile/passes.h"

namespace lamina::detail {
namespace {

using Operation = Program::Operation;

class Assignment {
 public:
  Assignment(const Program& program, Plan::Impl& plan)
      : program_(program), plan_(plan), buffer_of_(program.values.size(), none), is_shared_(program.values.size()) {
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      if (const int whole = program.values[v].whole; whole != none) {
        is_shared_[v] = is_shared_[static_cast<std::size_t>(whole)] = true;
      }
    }
  }

  std::vector<int> assign() {
    count_readers();
    find_neighbours();
    for (const int input : program_.inputs) {
      new_buffer(input, 0);
      buffer(buffer_of(input)).input = true;
    }
    add_constants();
    for (int step = 0; step < end(); ++step) {
      const Operation& op = program_.operations[static_cast<std::size_t>(step)];
      if (const int operand = shared_operand(op); operand != none) {
        buffer_of(op.output) = buffer_of(op.inputs[static_cast<std::size_t>(operand)]);
      } else if (buffer_of(op.output) == none) {  // a whole has one as soon as a slice of it is written
        const int whole = program_.value(op.output).whole;
        if (whole == none || buffer_of(whole) == none)
          new_buffer(whole == none ? op.output : whole, first_beside_[static_cast<std::size_t>(step)]);
        if (whole != none) buffer_of(op.output) = buffer_of(whole);
      }
      // A result written over its operand has readers of its own; a view's were counted with its source.
      if (!op.view) {
        for (const int input : op.inputs) forget_reader(buffer_of(input));
        readers_[static_cast<std::size_t>(buffer_of(op.output))] = reads_of_class_[static_cast<std::size_t>(op.output)];
      }
      if (is_shared_[static_cast<std::size_t>(op.output)])
        shares_[static_cast<std::size_t>(buffer_of(op.output))] = true;
      if (op.second_output != none) {
        new_buffer(op.second_output, first_beside_[static_cast<std::size_t>(step)]);
        readers_.back() = reads_of_class_[static_cast<std::size_t>(op.second_output)];
      }
      const int last = last_beside_[static_cast<std::size_t>(step)];
      for (const int input : op.inputs) extend(input, last);
      for (const int result : {op.output, op.second_output}) {
        if (result != none) extend(result, last);
      }
    }
    for (const int output : program_.outputs) extend(output, end());
    for (const auto& [name, value] : program_.kept) extend(value, end());
    return std::move(buffer_of_);
  }

 private:
  int& buffer_of(int value) { return buffer_of_[static_cast<std::size_t>(value)]; }
  Plan::Impl::Buffer& buffer(int index) { return plan_.buffers[static_cast<std::size_t>(index)]; }
  int end() const { return static_cast<int>(program_.operations.size()); }

  void new_buffer(int value, int step) {
    const Program::Value& v = program_.value(value);
    const std::size_t bytes = at_node(v.name, [&] { return bytes_of(v.shape, v.format); });
    plan_.buffers.emplace_back().life = {bytes, step, step};
    buffer_of(value) = static_cast<int>(plan_.buffers.size()) - 1;
    readers_.push_back(0);
    shares_.push_back(false);
  }

  void add_constants() {
    for (std::size_t v = 0; v < program_.values.size(); ++v) {
      const Tensor& constant = program_.values[v].constant;
      if (!constant.defined()) continue;
      new_buffer(static_cast<int>(v), 0);
      Plan::Impl::Buffer& made = plan_.buffers.back();
      made.constant = detail::constant(constant, plan_.options.device)
                          .reinterpret({static_cast<std::int64_t>(constant.bytes())}, DType::u8);
    }
  }

  void extend(int value, int step) {
    Lifetime& life = buffer(buffer_of(value)).life;
    life.last = std::max(life.last, step);
  }

  /// On a CPU steps do not overlap, so a reader that has run does not count any more.
  void forget_reader(int index) {
    if (plan_.options.device.is_cpu()) --readers_[static_cast<std::size_t>(index)];
  }

  /// The input in whose memory the output lies.
  int shared_operand(const Operation& op) {
    if (op.view) return 0;
    if (plan_.options.keep_all) return none;
    const int operand = op.module->in_place(PreparedViews(program_, op, plan_.options).preparation);
    if (operand == none) return none;
    const int input = op.inputs[static_cast<std::size_t>(operand)];
    const Program::Value &from = program_.value(input), &result = program_.value(op.output);
    if (from.format != result.format || from.shape != result.shape) return none;
    // Writing over the operand must not be seen: nobody else reads its buffer from now on.
    const int source = buffer_of(input);
    const bool last = readers_[static_cast<std::size_t>(source)] == 1;
    const bool own =
        !buffer(source).input && !buffer(source).constant.defined() && !shares_[static_cast<std::size_t>(source)];
    return last && own && !is_shared_[static_cast<std::size_t>(op.output)] ? operand : none;
  }

  /// Operations side by side use their memory at the same time.
  void find_neighbours() {
    const auto count = program_.operations.size();
    first_beside_.resize(count), last_beside_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      first_beside_[i] = program_.operations[i].beside ? first_beside_[i - 1] : static_cast<int>(i);
    }
    for (std::size_t i = count; i-- > 0;) {
      const bool more = i + 1 < count && program_.operations[i + 1].beside;
      last_beside_[i] = more ? last_beside_[i + 1] : static_cast<int>(i);
    }
  }

  /// Counts who reads a value or a view of it: operations, and the caller.
  void count_readers() {
    reads_of_class_.assign(program_.values.size(), 0);
    for (const int output : program_.outputs) ++reads_of_class_[static_cast<std::size_t>(output)];
    for (auto op = program_.operations.rbegin(); op != program_.operations.rend(); ++op) {
      for (const int input : op->inputs) {
        reads_of_class_[static_cast<std::size_t>(input)] +=
            op->view ? reads_of_class_[static_cast<std::size_t>(op->output)] : 1;
      }
    }
  }

  const Program& program_;
  Plan::Impl& plan_;
  std::vector<int> buffer_of_;                   // by value
  std::vector<int> reads_of_class_;              // by value, see count_readers
  std::vector<int> readers_;                     // by buffer: readers that have not run yet
  std::vector<int> first_beside_, last_beside_;  // by step: of the steps that may run together with it
  std::vector<bool> is_shared_;                  // by value: a slice, or what has slices
  std::vector<bool> shares_;                     // by buffer: it is that of a value with is_shared_
};

}  // namespace

void assign_buffers(Compilation& c) { c.buffers = Assignment(c.program, *c.plan).assign(); }

void place_buffers(Compilation& c) {
  // A CPU plan reads its inputs where the caller has them; on a GPU they may have to be uploaded to somewhere.
  std::vector<Lifetime> lives;
  for (std::size_t b = 0; b < c.plan->buffers.size(); ++b) {
    const Plan::Impl::Buffer& buffer = c.plan->buffers[b];
    if (buffer.constant.defined() || (buffer.input && c.plan->options.device.is_cpu())) continue;
    lives.push_back(buffer.life);
    c.homed.push_back(b);
  }
  c.arena = plan_arena(lives);
  for (std::size_t i = 0; i < c.homed.size(); ++i) c.plan->buffers[c.homed[i]].offset = c.arena.offsets[i];
  c.plan->memory.activations = c.arena.bytes;
}

}  // namespace lamina::detail
