// Values that a network quantises and reads again: stored in the eight bits that they have in between.
//
// A file says x_q = QuantizeLinear(x) and y = DequantizeLinear(x_q). Here x is a value of u8 or i8 with a scale and a
// zero point (Program::Value::quantization) which its producer writes and its readers read, and neither op is left. If
// the producer or a reader has no kernel for that, x stays f32, and the ops are computed as they stand.

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/layers/elementwise.h"
#include "lamina/ops/quantization.h"

namespace lamina::detail {
namespace {

/// A view that turns raw whole numbers into codes, which stand for other numbers, or codes into raw numbers. The memory
/// is the same.
class Codes final : public ViewOfInput {
 public:
  std::string_view op() const override { return "codes"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation& p) const override {
    const Format from = p.input().format, to = p.output().format;
    return from.dtype == to.dtype && same_order(p.input().shape, from.layout, to.layout);
  }
};

class EightBits : Dataflow {
 public:
  EightBits(Program& program, const CompileOptions& options)
      : Dataflow(program, options), kept_(program.values.size(), false) {
    for (const int output : program.outputs) kept_[index(output)] = true;
    for (const auto& [name, value] : program.kept) kept_[index(value)] = true;
  }

  void store() {
    if (std::ranges::none_of(program_.operations, [&](const Operation& op) { return codes_of(op).has_value(); }))
      return;
    for (const Operation& op : program_.operations) mark(op);
    unmark_what_does_not_run();
    for (int i = 0, count = static_cast<int>(program_.operations.size()); i < count; ++i) join(operation(i));
    for (int i = 0, count = static_cast<int>(program_.operations.size()); i < count; ++i) read(operation(i));
    for (int i = 0, count = static_cast<int>(program_.operations.size()); i < count; ++i) round_operands(operation(i));
    finish();
  }

 private:
  /// The type and codes that an operation quantises to or dequantises from.
  std::optional<QuantizationStep> codes_of(const Operation& op) const {
    auto found = op.module == nullptr || op.inputs.size() != 1 ? std::nullopt : quantization_of(*op.module);
    if (found && found->kind == QuantizationKind::dequantize) {
      const DType dtype = program_.value(op.inputs[0]).format.dtype;
      if (dtype != DType::u8 && dtype != DType::i8) return std::nullopt;
      found->dtype = dtype;
    }
    return found;
  }

  void set(int value, DType dtype, const Quantization& quantization) {
    program_.value(value).format.dtype = dtype;
    program_.value(value).quantization = quantization;
  }

  /// Marks the f32 value on one side of a quantising or dequantising operation as stored in codes, unless somebody is
  /// to see it as f32.
  void mark(const Operation& op) {
    const auto step = codes_of(op);
    if (!step) return;
    if (step->kind == QuantizationKind::dequantize) {
      if (!kept_[index(op.output)]) set(op.output, step->dtype, step->codes);
      return;
    }
    const int value = op.inputs[0];
    const Operation* const from = computes(value);
    if (from == nullptr || kept_[index(value)] || codes_of(*from)) return;
    const bool alike = std::ranges::all_of(readers(value), [&](int reader) {
      const auto other = reader == none ? std::nullopt : codes_of(operation(reader));
      return other && other->kind == step->kind && other->codes == step->codes && other->dtype == step->dtype;
    });
    if (alike) set(value, step->dtype, step->codes);
  }

  /// Takes marks back until every operation with an operand or a result in codes has a kernel that pays.
  void unmark_what_does_not_run() {
    std::deque<int> left;
    std::vector<bool> waits(program_.operations.size(), true);
    for (int i = 0; i < static_cast<int>(program_.operations.size()); ++i) left.push_back(i);
    const auto look_again = [&](int i) {
      if (i != none && !waits[index(i)]) left.push_back(i), waits[index(i)] = true;
    };
    const auto unmark = [&](int value) {
      set(value, DType::f32, {});
      look_again(producer(value));
      for (const int reader : readers(value)) look_again(reader);
    };
    while (!left.empty()) {
      const int i = left.front();
      left.pop_front(), waits[index(i)] = false;
      const Operation& op = operation(i);
      const bool coded = is_coded(op.output) || std::ranges::any_of(op.inputs, [&](int v) { return is_coded(v); });
      if (op.module == nullptr || !coded || codes_of(op) || has_paying_kernel(op) || pays_on_rounded(op)) continue;
      if (is_coded(op.output)) {
        unmark(op.output);
        continue;
      }
      for (const int input : std::vector<int>(op.inputs)) {
        if (is_coded(input)) unmark(input);
      }
    }
  }

  /// Whether an operation only puts elements in other places and gives codes. Then rounding its operands before it is
  /// the same as rounding its result after it.
  bool passes_on(const Operation& op) const {
    return is_coded(op.output) && !op.view && (problem_of<ConcatProblem>(op) || problem_of<MoveProblem>(op));
  }
  bool is_as_result(const Operation& op, int input) const {
    const Program::Value &operand = program_.value(input), &result = program_.value(op.output);
    return operand.format.dtype == result.format.dtype && operand.quantization == result.quantization;
  }
  /// Whether a kernel takes an operation, and pays, once its operands have the result's codes.
  bool pays_on_rounded(const Operation& op) {
    if (!passes_on(op)) return false;
    std::vector<std::pair<DType, Quantization>> before;
    for (const int input : op.inputs) {
      before.emplace_back(program_.value(input).format.dtype, program_.value(input).quantization);
    }
    for (const int input : op.inputs) {
      set(input, program_.value(op.output).format.dtype, program_.value(op.output).quantization);
    }
    const bool result = has_paying_kernel(op);
    for (std::size_t i = 0; i < before.size(); ++i) set(op.inputs[i], before[i].first, before[i].second);
    return result;
  }

  /// Inserts an operation of that name before `op`, which rounds `value` to these codes. Returns the rounded value.
  int rounded_before(const Operation& op, std::string name, int value, DType dtype, Quantization codes) {
    Operation rounding =
        operation_of(program_.value(value).name, std::make_shared<Elementwise>(PointwiseChain{{Pointwise::identity}}),
                     {value}, shape(value));
    set(rounding.output, dtype, codes);
    rounding.name = std::move(name);
    return insert(op, std::move(rounding));
  }

  void round_operands(Operation& op) {
    if (op.module == nullptr || !passes_on(op)) return;
    Operation longer = op;
    std::map<int, int> rounded;
    for (int& input : longer.inputs) {
      if (is_as_result(op, input)) continue;
      const auto [known, is_new] = rounded.emplace(input, none);
      if (is_new) {
        const Program::Value& result = program_.value(op.output);
        known->second = rounded_before(op, program_.value(input).name, input, result.format.dtype, result.quantization);
      }
      input = known->second;
    }
    if (!rounded.empty()) replace(op, std::move(longer));
  }

  /// Whether a reader of raw codes dequantises them, and its result is stored in these same codes.
  bool reads_codes(int reader, const QuantizationStep& step) const {
    const auto other = reader == none ? std::nullopt : codes_of(operation(reader));
    return other && is_coded(operation(reader).output) && other->codes == step.codes;
  }

  /// Where a quantised value is dequantised again, the readers read the value itself, which is stored in codes, or one
  /// that is rounded to them.
  void join(Operation& op) {
    const auto step = codes_of(op);
    if (!step || step->kind != QuantizationKind::quantize) return;
    const int value = op.inputs[0], raw = op.output;
    std::vector<int> alike;
    std::ranges::copy_if(readers(raw), std::back_inserter(alike),
                         [&](int reader) { return reads_codes(reader, *step); });
    int codes = value;
    if (program_.value(value).quantization != step->codes || program_.value(value).format.dtype != step->dtype) {
      if (alike.empty()) return;
      codes = rounded_before(op, op.name, value, step->dtype, step->codes);
    }
    for (const int reader : alike) read_instead(operation(reader).output, codes);
    if (codes == value) move_codes(raw, codes, *step);
    if (op.module == nullptr) return;  // nobody else reads it
    Operation view = op;
    view.module = std::make_shared<Codes>(), view.view = true, view.inputs = {codes};
    replace(op, std::move(view));
  }

  /// A move of raw codes whose readers all dequantise them becomes a move of the value, of which the plan may choose
  /// the layout.
  void move_codes(int raw, int codes, const QuantizationStep& step) {
    for (const int reader : std::vector<int>(readers(raw).begin(), readers(raw).end())) {
      if (reader == none || !problem_of<MoveProblem>(operation(reader))) continue;
      Operation moved = operation(reader);
      const std::vector<int> ends(readers(moved.output).begin(), readers(moved.output).end());
      const bool alike = std::ranges::all_of(ends, [&](int end) { return reads_codes(end, step); });
      if (!alike || moved.view || shape(moved.output).numel() != shape(codes).numel()) continue;
      moved.inputs = {codes};
      set(moved.output, step.dtype, step.codes);
      if (!has_paying_kernel(moved)) {
        set(moved.output, step.dtype, {});
        continue;
      }
      const int output = moved.output;
      replace(operation(reader), std::move(moved));
      for (const int end : ends) read_instead(operation(end).output, output);
    }
  }

  /// A dequantising operation becomes a view of the stored value or, if f32 is wanted, an operation that reads the
  /// stored value.
  void read(Operation& op) {
    const auto step = codes_of(op);
    if (!step || step->kind != QuantizationKind::dequantize) return;
    Operation other = op;
    if (is_coded(op.output)) {
      other.module = std::make_shared<Codes>(), other.view = true;
    } else {
      const Operation* const raw = computes(op.inputs[0]);
      if (raw == nullptr || !raw->view || program_.value(raw->inputs[0]).quantization != step->codes) return;
      other.module = std::make_shared<Elementwise>(PointwiseChain{{Pointwise::identity}}), other.inputs = raw->inputs;
      if (!has_paying_kernel(other)) return;
    }
    replace(op, std::move(other));
  }

  std::vector<bool> kept_;  // by value: an output, or kept for the caller, so its type may not change
};

}  // namespace

void store_eight_bits(Program& program, const CompileOptions& options) { EightBits(program, options).store(); }

}  // namespace lamina::detail
