// Formats: how every activation is stored, so that few have to be converted.
//
// Backwards, each value learns the format that its first reader would like best, given what that reader's own readers
// would like. Forwards, each operation picks the formats that convert the fewest bytes: of its operands as they now
// are, and of its result if it is not as wished.

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/compile/conversion.h"
#include "lamina/compile/program.h"
#include "lamina/plan/arena.h"

namespace lamina::detail {
namespace {

class Negotiator {
 public:
  Negotiator(Program program, const CompileOptions& options)
      : program_(std::move(program)), options_(options), wished_(program_.values.size()) {}

  Program negotiate() {
    collect_wishes();
    settled_.values = program_.values;
    settled_.inputs = program_.inputs;
    if (options_.photos) take_photos();
    for (const Program::Operation& op : program_.operations) settle(op);
    for (const int output : program_.outputs) settled_.outputs.push_back(in_format(output, Format{}));
    for (const auto& [name, value] : program_.kept) settled_.kept.emplace_back(name, in_format(value, Format{}));
    return std::move(settled_);
  }

 private:
  using Operation = Program::Operation;

  std::vector<Format> formats_of(int value) const { return formats(program_.value(value).shape, options_); }
  Format& wished(int value) { return wished_[static_cast<std::size_t>(value)]; }

  void take_photos() {
    std::string found;
    bool any = false;
    for (const int input : settled_.inputs) {
      Program::Value& value = settled_.value(input);
      found += concat(found.empty() ? "" : ", ", value.name, ' ', value.shape);
      if (value.shape.rank() != 4 || value.shape[1] != 3) continue;
      value.format = photo;
      any = true;
      try {
        if (normalization_ == nullptr) normalization_ = std::make_shared<Normalization>(*options_.photos);
      } catch (const Error& error) {
        fail(value.name, ": ", error.what());
      }
    }
    if (!any) fail("compile: photos: expected a graph with an input [N, 3, H, W], this one has ", found);
  }

  void collect_wishes() {
    for (auto op = program_.operations.rbegin(); op != program_.operations.rend(); ++op) {
      const Format wish = best_input(*op);
      for (const int input : op->inputs) wished(input) = wish;
    }
  }

  /// The first format, in order of preference, from which the operation gives what is wished of it; else the first
  /// that it takes at all.
  Format best_input(const Operation& op) {
    PreparedViews views(program_, op, options_);
    const std::vector<Format> inputs = formats_of(op.inputs[0]);
    for (const Format input : inputs) {
      if (op.module->takes(views.with(input, wished(op.output)))) return input;
    }
    for (const Format input : inputs) {
      for (const Format output : formats_of(op.output)) {
        if (op.module->takes(views.with(input, output))) return input;
      }
    }
    return {};
  }

  void settle(Operation op) {
    PreparedViews views(program_, op, options_);
    auto least = std::numeric_limits<std::size_t>::max();
    Format best_output;
    for (const Format input : formats_of(op.inputs[0])) {
      for (const Format output : formats_of(op.output)) {
        const std::size_t cost = converted_bytes(op, input, output);
        if (cost >= least || !op.module->takes(views.with(input, output))) continue;
        least = cost;
        op.input_format = input;
        best_output = output;
      }
    }
    // If nothing takes any format, preparing it in the one that modules always take says why.
    for (int& input : op.inputs) input = in_format(input, op.input_format);
    settled_.value(op.output).format = best_output;
    settled_.operations.push_back(std::move(op));
  }

  std::size_t converted_bytes(const Operation& op, Format input, Format output) {
    std::size_t bytes = 0;
    const auto add = [&](const Shape& shape, Format from, Format to) {
      // The first layer's kernel is not to depend on where its input comes from, nor are its bits.
      if (from == photo) from = Format{};
      if (from != to) bytes += bytes_of(shape, from) + bytes_of(shape, to);
    };
    for (const int value : op.inputs) add(program_.value(value).shape, settled_.value(value).format, input);
    add(program_.value(op.output).shape, output, wished(op.output));
    return bytes;
  }

  /// The value itself, or a conversion of it.
  int in_format(int value, Format format) {
    const Program::Value source = settled_.value(value);
    if (source.format == format) return value;
    for (const auto& [from, to] : conversions_) {
      if (from == value && settled_.value(to).format == format) return to;
    }
    const auto converted = static_cast<int>(settled_.values.size());
    settled_.values.push_back({source.name, source.shape, format});
    Operation op;
    op.name = source.name;
    op.inputs = {value};
    op.output = converted;
    op.input_format = source.format;
    op.module = source.format == photo ? normalization_ : conversion_;
    op.view = source.format.dtype == format.dtype && same_order(source.shape, source.format.layout, format.layout);
    settled_.operations.push_back(std::move(op));
    conversions_.emplace_back(value, converted);
    return converted;
  }

  Program program_;
  const CompileOptions& options_;
  std::vector<Format> wished_;  // by value
  Program settled_;
  std::vector<std::pair<int, int>> conversions_;  // values, from and to
  const std::shared_ptr<const Module> conversion_ = std::make_shared<Conversion>();
  std::shared_ptr<const Module> normalization_;  // of photos
};

}  // namespace

std::vector<Format> formats(const Shape& shape, const CompileOptions& options) {
  if (options.device.is_cpu()) return {Format{}};
  std::vector<DType> types = {DType::f32};
  if (const DType type = storage_type(options.precision); type != types[0]) types.insert(types.begin(), type);
  std::vector<Format> result;
  for (const DType type : types) {
    if (shape.rank() == 4) result.push_back({type, Layout::nhwc});
    result.push_back({type, Layout::nchw});
  }
  return result;
}

PreparedViews::PreparedViews(const Program& program, const Program::Operation& op, const CompileOptions& options) {
  const std::size_t alignment = options.device.is_cpu() ? alignof(float) : port_alignment;
  for (const int input : op.inputs) {
    inputs.push_back({.shape = program.value(input).shape, .format = op.input_format, .alignment = alignment});
  }
  const Program::Value& result = program.value(op.output);
  output = {.shape = result.shape, .format = result.format, .alignment = alignment};
  preparation = {.inputs = inputs,
                 .outputs = {&output, 1},
                 .device = *options.description,
                 .precision = options.precision,
                 .algorithm = options.algorithm,
                 .linear_weights = options.linear_weights,
                 .threads = options.threads,
                 .workspace_limit = options.workspace_limit};
}

Preparation& PreparedViews::with(Format in, Format out) {
  for (View& input : inputs) input.format = in;
  output.format = out;
  return preparation;
}

Program negotiate(Program program, const CompileOptions& options) {
  return Negotiator(std::move(program), options).negotiate();
}

}  // namespace lamina::detail
