#include "lamina/kernel/conv_geometry.h"

#include <array>
#include <utility>

#include "lamina/base/error.h"

namespace lamina {
namespace {

template <class Enum, std::size_t n>
using NameTable = std::array<std::pair<Enum, std::string_view>, n>;

constexpr NameTable<Precision, 4> precisions = {
    {{Precision::fp32, "fp32"}, {Precision::tf32, "tf32"}, {Precision::fp16, "fp16"}, {Precision::bf16, "bf16"}}};

constexpr NameTable<ConvAlgorithm, 9> algorithms = {{{ConvAlgorithm::automatic, "auto"},
                                                     {ConvAlgorithm::direct, "direct"},
                                                     {ConvAlgorithm::direct_fixed, "direct_fixed"},
                                                     {ConvAlgorithm::direct_padded, "direct_padded"},
                                                     {ConvAlgorithm::tiled, "tiled"},
                                                     {ConvAlgorithm::im2col, "im2col"},
                                                     {ConvAlgorithm::implicit_gemm, "implicit_gemm"},
                                                     {ConvAlgorithm::eigen, "eigen"},
                                                     {ConvAlgorithm::blocked, "blocked"}}};

template <class Enum, std::size_t n>
std::string_view name_in(const NameTable<Enum, n>& table, Enum value) {
  for (const auto& [candidate, text] : table) {
    if (candidate == value) return text;
  }
  return "?";
}

template <class Enum, std::size_t n>
Enum parse_in(const NameTable<Enum, n>& table, std::string_view what, std::string_view text) {
  std::string choices;
  for (const auto& [candidate, known] : table) {
    if (known == text) return candidate;
    choices += (choices.empty() ? "" : ", ") + std::string(known);
  }
  detail::fail(what, ": expected one of ", choices, "; got \"", text, '"');
}

}  // namespace

std::string_view name(Precision precision) { return name_in(precisions, precision); }
Precision parse_precision(std::string_view text) { return parse_in(precisions, "precision", text); }

DType storage_type(Precision precision) {
  switch (precision) {
    case Precision::fp16: return DType::f16;
    case Precision::bf16: return DType::bf16;
    case Precision::fp32:
    case Precision::tf32: break;
  }
  return DType::f32;
}

std::string_view name(ConvAlgorithm algorithm) { return name_in(algorithms, algorithm); }
ConvAlgorithm parse_conv_algorithm(std::string_view text) { return parse_in(algorithms, "algorithm", text); }

}  // namespace lamina
