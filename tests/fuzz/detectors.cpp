// Detectors: the bytes draw how many outputs a model has, their forms, types and numbers, and what its exporter noted.

#include <array>
#include <cmath>
#include <string>

#include "fuzz/target.h"
#include "lamina/base/error.h"
#include "lamina/detect/detector.h"
#include "lamina/ops/op.h"

namespace lamina::fuzz {
namespace {

/// Whole numbers out of bytes; 0 where they end.
class Draw {
 public:
  explicit Draw(Bytes bytes) : bytes_(bytes) {}

  std::size_t below(std::size_t count) {
    if (bytes_.empty()) return 0;
    const std::size_t value = bytes_[0];
    bytes_ = bytes_.subspan(1);
    return value % count;
  }
  template <class T, std::size_t n>
  T of(const std::array<T, n>& values) {
    return values[below(n)];
  }

 private:
  Bytes bytes_;
};

constexpr std::array<std::int64_t, 16> extents = {1, 7, 60, 6, 39, 56, 8, 32, 5, 4, 2, 300, 38, 16, 3, 57};
constexpr std::array dtypes = {DType::f32, DType::f16, DType::i64, DType::f64, DType::u8, DType::boolean};

Tensor numbers(Draw& draw) {
  std::int64_t elements = 1;
  std::vector<std::int64_t> shape;
  for (std::size_t rank = draw.of(std::array<std::size_t, 8>{3, 4, 3, 4, 2, 1, 0, 5}); shape.size() < rank;) {
    const std::int64_t extent = draw.of(extents);
    shape.push_back(elements * extent > 1 << 14 ? 1 : extent);
    elements *= shape.back();
  }
  Tensor tensor{Shape(std::span<const std::int64_t>(shape))};
  const float scale = draw.of(std::array{1.0f, 0.01f, 30.0f, 1e9f, 3e38f, NAN, 0.0f});
  auto state = static_cast<std::uint32_t>(draw.below(256));
  const DType dtype = draw.of(dtypes);
  const bool any = dtype == DType::f32 || dtype == DType::f64;
  for (float& value : tensor.values<float>()) {
    state = state * 1664525 + 1013904223;
    value = any ? scale * static_cast<float>(state >> 8) / (1 << 24) : static_cast<float>(state >> 31);
  }
  return tensor.to(dtype);
}

}  // namespace

void detector(Bytes input) {
  Draw draw(input);
  Model model;
  model.graph.input("images", {1 + static_cast<std::int64_t>(draw.below(2)), 3, 32, 32});
  const auto note = [&](const char* key, const char* value) {
    if (*value != 0) model.metadata[key] = value;
  };
  note("task", draw.of(std::array{"", "detect", "segment", "pose", "obb", "classify"}));
  note("head", draw.of(std::array{"", "", "rtdetr", "RTDETRDecoder"}));
  note("layout", draw.of(std::array{"", "", "raw", "objectness", "end2end", "queries", "queries_by_class"}));
  note("names", draw.of(std::array{"", "", "{0: 'a', 1: 'b'}", "['a']", "{9: 'a'}"}));
  note("kpt_shape", draw.of(std::array{"", "[17, 3]", "[2, 2]", "[1000000, 3]", "[-1, 3]"}));
  DetectOptions options{.confidence = draw.of(std::array{0.25, 0.0, 0.9}), .most = draw.of(std::array{300, 1})};
  for (std::size_t i = draw.of(std::array<std::size_t, 5>{1, 2, 3, 0, 4}); i-- > 0;) {
    const std::string name = "output" + std::to_string(i);
    model.graph.output(model.graph.add(name, Constant(numbers(draw)), {}));
  }
  try {
    const Detector detector(model, {.compile = {.threads = 1}});
    const Image photo{40, 30, std::vector<std::uint8_t>(3 * 40 * 30, 9)};
    for (const Detection& thing : detector.detect(photo, options).found) {
      if (thing.mask && thing.mask->pixels().size() != 40 * 30) broken("a mask is as large as its photograph");
    }
  } catch (const Error&) {
  }
}

}  // namespace lamina::fuzz
