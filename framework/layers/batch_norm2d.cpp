#include "lamina/layers/batch_norm2d.h"

#include <algorithm>
#include <cmath>

#include "lamina/layers/absorption.h"
#include "lamina/module/checks.h"

namespace lamina {
namespace {

Tensor rounded(const std::vector<double>& values) {
  Tensor result({static_cast<std::int64_t>(values.size())});
  std::ranges::transform(values, result.values<float>().begin(),
                         [](double value) { return static_cast<float>(value); });
  return result;
}

}  // namespace

BatchNorm2d::BatchNorm2d(const BatchNorm2dOptions& options) : options_(options) {
  if (options_.channels < 1) detail::fail("batch_norm2d: expected 1 or more channels, got ", options_.channels);
  if (!(options_.eps >= 0)) detail::fail("batch_norm2d: expected an eps of 0 or more, got ", options_.eps);
  const Shape shape = {options_.channels};
  if (options_.affine) {
    add_parameter("weight", shape);
    add_parameter("bias", shape);
  }
  add_parameter("running_mean", shape);
  add_parameter("running_var", shape);
}

BatchNorm2d::Coefficients BatchNorm2d::coefficients() const {
  require_parameters();
  const auto values = [this](std::string_view name) { return parameter(name).values<float>(); };
  Coefficients result;
  for (std::size_t c = 0; c < static_cast<std::size_t>(options_.channels); ++c) {
    const double weight = options_.affine ? static_cast<double>(values("weight")[c]) : 1.0;
    const double bias = options_.affine ? static_cast<double>(values("bias")[c]) : 0.0;
    const double scale = weight / std::sqrt(static_cast<double>(values("running_var")[c]) + options_.eps);
    result.scale.push_back(scale);
    result.shift.push_back(bias - static_cast<double>(values("running_mean")[c]) * scale);
  }
  return result;
}

Attributes BatchNorm2d::attributes() const { return {{"eps", options_.eps}}; }

Shape BatchNorm2d::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = detail::lone_image(op(), inputs);
  if (input[1] != options_.channels) {
    detail::fail("batch_norm2d: expected ", options_.channels, " input channels, got ", input[1], " (input ", input,
                 ')');
  }
  return input;
}

Module::Absorbed BatchNorm2d::absorb(const Module& next, std::span<const Operand> operands) const {
  auto longer = std::make_shared<BatchNorm2d>(*this);
  if (!detail::append(longer->chain_, next, operands)) return {};
  return {.module = std::move(longer)};
}

AffineProblem BatchNorm2d::problem(std::span<const Shape>) const {
  const auto is_set = [](const Parameter& parameter) { return parameter.value.defined(); };
  AffineProblem result = {.epilogue = {.chain = chain_}};
  if (std::all_of(parameters().begin(), parameters().end(), is_set)) {
    const Coefficients known = coefficients();
    result.scale = rounded(known.scale), result.shift = rounded(known.shift);
  }
  return result;
}

}  // namespace lamina
