// How an operation's operands and results lie in memory: what its kernels are asked about.

#include <deque>
#include <numeric>

#include "lamina/base/error.h"
#include "lamina/compile/program.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/plan/arena.h"

namespace lamina::detail {

/// What a module answered for each way in which the operands and results of its operation may lie.
struct Answers {
  struct Answer {
    std::vector<View> inputs, outputs;
    bool pays = false;
    Finding finding = {};
  };
  std::weak_ptr<const Module> module;
  std::deque<Answer> known = {};  // a deque: addresses of its elements stay valid

  Answer* find(const PreparedViews& views) {
    for (Answer& answer : known) {
      if (answer.inputs == views.inputs && answer.outputs == views.outputs) return &answer;
    }
    return nullptr;
  }
};

namespace {

/// If a view's strides step through neighbouring channels of a larger nhwc image: how many channels that image has.
/// Else 0.
std::int64_t channels_of_slice(const View& view) {
  const bool pixels =
      view.format.layout == Layout::nhwc && view.shape.rank() == 4 && view.shape.numel() > view.shape[1];
  const auto gaps = pixels ? gaps_of(view) : std::nullopt;
  if (!gaps) return 0;
  return gaps->row == gaps->pitch ? view.shape[1] : gaps->row == view.shape[1] ? gaps->pitch : 0;
}

}  // namespace

PreparedViews::PreparedViews(const Program& program, const Program::Operation& op, const CompileOptions& options)
    : op_(op) {
  const auto view = [&](int index) {
    const Program::Value& value = program.value(index);
    const std::size_t alignment = options.device.is_cpu() ? alignof(float) : port_alignment;
    View result = {
        .shape = value.shape, .format = value.format, .alignment = alignment, .quantization = value.quantization};
    const auto size = static_cast<std::int64_t>(size_of(value.format.dtype));
    if (value.strides.rank() > 0) {
      result.strides = value.strides;
      std::size_t step = Program::slice_offset(value);
      for (int d = 0; d < static_cast<int>(value.shape.rank()); ++d) {
        const std::int64_t bytes = value.strides[d] * size;
        if (value.shape[d] > 1 && value.strides[d] != 1) step = std::gcd(step, static_cast<std::size_t>(bytes));
      }
      result.alignment = std::gcd(alignment, step);
      if (const std::int64_t channels = channels_of_slice(result); channels > 0) {  // slices suit more kernels
        result.strides = {}, result.channels = channels;
      }
    } else if (value.whole >= 0) {
      result.channels = program.value(value.whole).shape[1];
      const auto pixel = static_cast<std::size_t>(result.channels) * size_of(value.format.dtype);
      result.alignment = std::gcd(std::gcd(alignment, Program::slice_offset(value)), pixel);
    }
    return result;
  };
  for (const int input : op.inputs) {
    inputs.push_back(view(input));
    values_.push_back(&program.value(input));
  }
  outputs.push_back(view(op.output));
  if (op.second_output >= 0) outputs.push_back(view(op.second_output));
  preparation = {.inputs = inputs,
                 .outputs = outputs,
                 .device = *options.description,
                 .precision = options.precision,
                 .algorithm = options.algorithm,
                 .linear_weights = options.linear_weights,
                 .threads = options.threads,
                 .images = options.batch,
                 .batch_invariant = options.batch_invariant,
                 .workspace_limit = options.workspace_limit};
  if (op.answers == nullptr || op.answers->module.lock() != op.module) return;
  if (Answers::Answer* known = op.answers->find(*this)) preparation.finding = &known->finding;
}

Preparation& PreparedViews::with(Format in, Format out) {
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].format = format_of_input(*values_[i], in);
  for (View& output : outputs) output.format = out;
  preparation.finding = nullptr;
  return preparation;
}

bool PreparedViews::pay() {
  std::shared_ptr<Answers>& answers = op_.answers;
  if (answers == nullptr || answers->module.lock() != op_.module) {
    answers = std::make_shared<Answers>(Answers{op_.module});
  }
  if (const Answers::Answer* known = answers->find(*this)) return known->pays;
  Answers::Answer& answer = answers->known.emplace_back(Answers::Answer{inputs, outputs});
  preparation.finding = &answer.finding;
  return answer.pays = at_node(op_.name, [&] { return op_.module->pays(preparation); });
}

bool pays_in_some_format(const Program& program, const Program::Operation& op, const CompileOptions& options) {
  PreparedViews views(program, op, options);
  for (const Format input : formats(program.value(op.inputs[0]), options)) {
    for (const Format output : formats(program.value(op.output), options)) {
      if (views.pay(input, output)) return true;
    }
  }
  return false;
}

bool pays_in_place(const Program& program, const Program::Operation& op, const CompileOptions& options) {
  return op.module->knows_gaps() && PreparedViews(program, op, options).pay();
}

}  // namespace lamina::detail
