#pragma once

#include <string>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/ops/op.h"
#include "support/problem_data.h"

/// Graphs of quantised values.
namespace lamina::test {

inline Tensor scalar(float value) { return Tensor::from(std::vector<float>{value}, Shape{}); }

/// One number of a type of eight bits.
inline Tensor code(std::int64_t value, DType dtype) {
  return Tensor::from(std::vector<std::int64_t>{value}, Shape{}).to(dtype);
}

inline std::vector<std::int64_t> whole(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::i64);
  const auto values = wide.values<std::int64_t>();
  return {values.begin(), values.end()};
}

/// Adds nodes to a graph, and names them.
struct Build {
  Graph graph = {};
  int count = 0;

  Value constant(Tensor value) {
    return graph.add("c" + std::to_string(count++), std::make_shared<Constant>(std::move(value)), {});
  }
  Value op(const std::string& name, std::vector<Value> inputs, Attributes attributes = {}) {
    return graph.add(name + std::to_string(count++), std::make_shared<Op>(name, std::move(attributes)), inputs);
  }
  Value quantize(Value x, float scale, std::int64_t zero, DType dtype) {
    return op("QuantizeLinear", {x, constant(scalar(scale)), constant(code(zero, dtype))});
  }
  Value dequantize(Value x, float scale, std::int64_t zero, DType dtype) {
    return op("DequantizeLinear", {x, constant(scalar(scale)), constant(code(zero, dtype))});
  }
};

}  // namespace lamina::test
