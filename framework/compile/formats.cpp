// Formats: how every activation is stored, so that few have to be converted.
//
// Backwards, each value learns the format that the first of its readers to whom it matters would like best, given what
// that reader's own readers would like. Forwards, each operation picks the formats for which the fewest bytes are
// converted: of its operands, from the formats that they now have, and of its result, to the format that was wished.
// Among equals it picks those for which the fewest bytes of operands are converted, because a reader may yet take the
// result as it is.

#include <algorithm>
#include <limits>
#include <map>

#include "lamina/base/error.h"
#include "lamina/compile/conversion.h"
#include "lamina/compile/program.h"

namespace lamina::detail {
namespace {

class Negotiator {
 public:
  Negotiator(Program program, const CompileOptions& options)
      : program_(std::move(program)),
        options_(options),
        natural_(program_.values.size(), Layout::nchw),
        wished_(program_.values.size()) {}

  Program negotiate() {
    for (const int output : program_.outputs) wished(output) = as_asked(output);
    find_natural();
    collect_wishes();
    settled_.values = program_.values;
    settled_.inputs = program_.inputs;
    settled_.output_names = program_.output_names;
    settled_.output_counts = program_.output_counts;
    settled_.input_batched = program_.input_batched;
    settled_.output_batched = program_.output_batched;
    for (const int input : settled_.inputs) {
      settled_.value(input).format = as_given(input);
    }
    if (options_.photos) take_photos();
    for (const Program::Operation& op : program_.operations) settle(op);
    for (const int output : program_.outputs) settled_.outputs.push_back(in_format(output, as_asked(output)));
    for (const auto& [name, value] : program_.kept) settled_.kept.emplace_back(name, plain(value));
    return std::move(settled_);
  }

 private:
  using Operation = Program::Operation;

  std::vector<Format> formats_of(int value) const { return formats(program_.value(value), options_); }
  /// Those of `some` in which an operation may store its result: f32 alone if the result must stay f32.
  std::vector<Format> as_kept(const Operation& op, std::vector<Format> some) const {
    if (program_.value(op.output).keeps_f32) std::erase_if(some, [](Format f) { return f.dtype != DType::f32; });
    return some;
  }
  std::vector<Format> output_formats(const Operation& op) const { return as_kept(op, formats_of(op.output)); }
  /// The format in which the caller wants an output.
  Format as_asked(int value) const { return format_of_input(program_.value(value), options_.output_format); }
  /// The value in plain nchw, as `Plan::activation` shows it.
  int plain(int value) { return in_format(value, {.dtype = program_.value(value).format.dtype}); }

  /// The formats that the operation's operands of f32 may agree on: those of the operand with the most choice, which is
  /// an image if there is one. Operands of other types have one format each.
  std::vector<Format> input_formats(const Operation& op) const {
    std::vector<Format> most;
    bool of_floats = false;  // operands of f32 decide, unless they are constants beside codes
    const bool of_codes =
        std::ranges::any_of(op.inputs, [&](int input) { return program_.value(input).quantization.defined(); });
    for (const int input : op.inputs) {
      const bool floats = program_.value(input).format.dtype == DType::f32;
      if (of_codes && program_.value(input).constant.defined()) continue;
      std::vector<Format> some = formats_of(input);
      if ((some.size() == 1 && !floats) || (of_floats && !floats)) continue;
      if (some.size() > most.size() || floats > of_floats) most = std::move(some), of_floats = floats;
    }
    most = as_kept(op, std::move(most));
    return most.empty() ? formats_of(op.inputs[0]) : most;
  }
  Layout& natural(int value) { return natural_[static_cast<std::size_t>(value)]; }
  Format& wished(int value) { return wished_[static_cast<std::size_t>(value)]; }
  Format as_given(int input) const { return format_of_input(program_.value(input), options_.input_format); }

  void take_photos() {
    std::string found;
    bool any = false;
    for (const int input : settled_.inputs) {
      Program::Value& value = settled_.value(input);
      found += concat(found.empty() ? "" : ", ", value.name, ' ', value.shape);
      if (value.shape.rank() != 4 || value.shape[1] != 3 || program_.value(input).format.dtype != DType::f32) continue;
      value.format = photo;
      any = true;
      if (normalization_ != nullptr) continue;
      normalization_ = at_node(value.name, [&] { return std::make_shared<Normalization>(*options_.photos); });
    }
    if (!any) fail("compile: photos: expected a graph with an input [N, 3, H, W], this one has ", found);
  }

  /// The layout in which each value would be stored if no reader wished for anything: the best one for the operation
  /// that computes it, given the natural layouts of its operands.
  void find_natural() {
    for (const int input : program_.inputs) natural(input) = as_given(input).layout;
    for (const Operation& op : program_.operations) natural(op.output) = natural_of(op).layout;
  }

  Format natural_of(const Operation& op) {
    PreparedViews views(program_, op, options_);
    const std::vector<Format> inputs = input_formats(op), outputs = output_formats(op);
    const Format input = in_natural_layout(op, inputs);
    std::vector<Format> likely = outputs;
    std::stable_partition(likely.begin(), likely.end(), [&](Format output) { return output.layout == input.layout; });
    for (const Format output : likely) {
      if (op.module->keeps_order(views.with(input, output))) return output;
    }
    for (const Format output : is_product(op) ? outputs : likely) {
      if (std::ranges::any_of(inputs, [&](Format from) { return views.pay(from, output); })) return output;
    }
    return outputs.back();
  }

  /// Kernels of products prefer a layout; others take any.
  bool is_product(const Operation& op) const {
    std::vector<Shape> shapes;
    for (const int input : op.inputs) shapes.push_back(program_.value(input).shape);
    return op.module->flops(shapes) > 0;
  }

  /// Of some formats for an operation's operands, the first in the natural layout of the largest operand.
  Format in_natural_layout(const Operation& op, const std::vector<Format>& some) {
    const auto elements = [&](int input) {
      const Program::Value& value = program_.value(input);
      return value.constant.defined() ? 0 : value.shape.numel();
    };
    const Layout layout = natural(std::ranges::max(op.inputs, {}, elements));
    const auto found = std::ranges::find(some, layout, &Format::layout);
    return found == some.end() ? some.front() : *found;
  }

  void collect_wishes() {
    std::vector<bool> asked(program_.values.size(), false);
    for (auto op = program_.operations.rbegin(); op != program_.operations.rend(); ++op) {
      const bool any = takes_any(*op, wished(op->output));
      const Format wish = best_input(*op, any);
      for (const int input : op->inputs) {
        const auto at = static_cast<std::size_t>(input);
        if (!any || !asked[at]) wished(input) = wish;
        asked[at] = true;
      }
    }
  }

  /// Whether the operation gives `output` from operands of any format without moving further bytes.
  bool takes_any(const Operation& op, Format output) {
    PreparedViews views(program_, op, options_);
    return std::ranges::all_of(input_formats(op), [&](Format input) {
      return views.pay(input, output) && op.module->extra_bytes(views.preparation) == 0;
    });
  }

  /// The operand format that suits the operation best: the first from which it gives the wished result and moves the
  /// fewest further bytes; if there is none, the first that it takes at all. An operation that takes any format, and is
  /// no product, gets its operands in their natural layout.
  Format best_input(const Operation& op, bool takes_any) {
    PreparedViews views(program_, op, options_);
    const std::vector<Format> inputs = input_formats(op);
    const Format& wish = wished(op.output);
    for (const Format input : inputs) {
      if (op.module->keeps_order(views.with(input, wish))) return input;
    }
    if (takes_any && !is_product(op)) return in_natural_layout(op, inputs);
    const Format* best = nullptr;
    std::size_t least = 0;
    for (const Format& input : inputs) {
      if (!views.pay(input, wish)) continue;
      const std::size_t extra = op.module->extra_bytes(views.preparation);
      if (extra == 0) return input;
      if (best == nullptr || extra < least) best = &input, least = extra;
    }
    if (best != nullptr) return *best;
    for (const Format input : inputs) {
      for (const Format output : output_formats(op)) {
        if (views.pay(input, output)) return input;
      }
    }
    return inputs.back();
  }

  void settle(Operation op) {
    PreparedViews views(program_, op, options_);
    std::pair least(std::numeric_limits<std::size_t>::max(), std::size_t{0});
    op.input_format = input_formats(op).back();
    Format best_output = {.dtype = program_.value(op.output).format.dtype};
    for (const Format input : input_formats(op)) {
      for (const Format output : output_formats(op)) {
        const std::size_t before = converted_operands(op, input);
        std::size_t cost = before + converted(program_.value(op.output).shape, output, wished(op.output));
        cost += op.module->extra_bytes(views.with(input, output));
        if (std::pair(cost, before) >= least || !views.pay(input, output)) continue;
        least = {cost, before};
        op.input_format = input;
        best_output = output;
      }
    }
    if (!op.view && op.module->keeps_order(views.with(op.input_format, best_output))) op.view = true;
    // If the module takes no format, `prepare` in plain f32, which modules always have to take, throws the Error that
    // says why.
    for (int& input : op.inputs) input = in_format(input, format_of_input(program_.value(input), op.input_format));
    settled_.value(op.output).format = best_output;
    if (op.second_output >= 0) settled_.value(op.second_output).format = best_output;
    settled_.operations.push_back(std::move(op));
  }

  static bool is_photo(const Program::Value& value) { return value.format == photo && !value.quantization.defined(); }

  static std::size_t converted(const Shape& shape, Format from, Format to) {
    return from == to ? 0 : bytes_of(shape, from) + bytes_of(shape, to);
  }

  std::size_t converted_operands(const Operation& op, Format format) {
    std::size_t bytes = 0;
    for (const int value : op.inputs) {
      const Program::Value& source = settled_.value(value);
      if (source.constant.defined()) continue;  // converted now, not in each run
      // Photos count as plain f32: the first layer's kernel, and so its bits, must not depend on where its input comes
      // from.
      const Format from = is_photo(source) ? Format{} : source.format;
      bytes += converted(source.shape, from, format_of_input(program_.value(value), format));
    }
    return bytes;
  }

  /// The value itself, or a conversion of it.
  int in_format(int value, Format format) {
    const Program::Value source = settled_.value(value);
    if (source.format == format) return value;
    for (auto [known, end] = conversions_.equal_range(value); known != end; ++known) {
      if (settled_.value(known->second).format == format) return known->second;
    }
    const auto converted = static_cast<int>(settled_.values.size());
    conversions_.emplace(value, converted);
    settled_.values.push_back({source.name, source.shape, format});
    settled_.values.back().quantization = source.quantization;
    if (source.constant.defined()) {
      settled_.values.back().constant = converted_constant(source.constant, source.format.layout, format);
      return converted;
    }
    Operation op;
    op.name = source.name;
    op.inputs = {value};
    op.output = converted;
    op.input_format = source.format;
    op.module = is_photo(source) ? normalization_ : conversion_;
    op.view = source.format.dtype == format.dtype && same_order(source.shape, source.format.layout, format.layout);
    settled_.operations.push_back(std::move(op));
    return converted;
  }

  Program program_;
  const CompileOptions& options_;
  std::vector<Layout> natural_;  // by value
  std::vector<Format> wished_;   // by value
  Program settled_;
  std::multimap<int, int> conversions_;  // from a value to its conversions
  const std::shared_ptr<const Module> conversion_ = std::make_shared<Conversion>();
  std::shared_ptr<const Module> normalization_;  // of photos
};

}  // namespace

std::vector<Format> formats(const Program::Value& value, const CompileOptions& options) {
  std::vector<DType> types = {value.format.dtype};
  const bool floats = types[0] == DType::f32;
  if (!floats && !value.quantization.defined()) return {{.dtype = types[0]}};
  if (const DType type = storage_type(options.precision); floats && type != types[0]) types.insert(types.begin(), type);
  std::vector<Format> result;
  for (const DType type : types) {
    if (value.shape.rank() == 4) result.push_back({type, Layout::nhwc});
    result.push_back({type, Layout::nchw});
  }
  return result;
}

Format format_of_input(const Program::Value& value, Format format) {
  if (value.format.dtype != DType::f32 || !is_activation(format.dtype)) format.dtype = value.format.dtype;
  const bool any_layout = value.format.dtype == DType::f32 || value.quantization.defined();
  if (value.shape.rank() != 4 || !any_layout) format.layout = Layout::nchw;
  return format;
}

void settle_formats(Program& program, const CompileOptions& options) {
  program = Negotiator(std::move(program), options).negotiate();
}

}  // namespace lamina::detail
