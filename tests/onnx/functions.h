#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/onnx_writer.h"

/// Functions of a model, and calls of them.
namespace lamina::test::onnx {

struct Function {
  std::string name;
  std::vector<std::string> inputs, outputs;
  std::vector<Node> nodes;
  std::vector<Message> defaults = {};
  std::int64_t opset = 18;
};

inline Message functions(const std::vector<Function>& list) {
  Message all;
  for (const Function& f : list) {
    Message m = Message().text(1, f.name).texts(4, f.inputs).texts(5, f.outputs).text(10, "own");
    for (const Node& n : f.nodes) m.message(7, node(n));
    for (const Message& attribute : f.defaults) m.message(11, attribute);
    all.message(25, m.message(9, opset(f.opset)));
  }
  return all.message(8, opset(1, "own"));
}

inline Node call(const std::string& name, std::vector<std::string> inputs, std::vector<std::string> outputs,
                 std::vector<Message> attributes = {}) {
  return {name, std::move(inputs), std::move(outputs), std::move(attributes), "", "own"};
}

/// `depth` functions, each of which calls the next one `width` times.
inline std::vector<Function> nest(int depth, int width) {
  std::vector<Function> list;
  for (int i = 0; i < depth; ++i) {
    Function f = {"F" + std::to_string(i), {"a"}, {"b"}, {}};
    for (int k = 0; k < width; ++k) {
      const std::string from = k == 0 ? "a" : "t" + std::to_string(k),
                        to = k + 1 == width ? "b" : "t" + std::to_string(k + 1);
      f.nodes.push_back(i + 1 == depth ? Node{"Relu", {from}, {to}} : call("F" + std::to_string(i + 1), {from}, {to}));
    }
    list.push_back(std::move(f));
  }
  return list;
}

}  // namespace lamina::test::onnx
