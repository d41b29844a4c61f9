#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/onnx/flatten.h"

/// How flatten.h's `flatten` works: for flatten.cpp, and for bodies.cpp, which puts bodies where they are called.
namespace lamina::detail::onnx {

/// The names of a graph or of a function's body.
struct Scope {
  struct Entry {
    int value;
    bool defined;  // false: an output of the body that no node has made so far
  };

  const Scope* outer = nullptr;  // what a branch sees; null for a function, which sees its inputs only
  std::string prefix = {};       // of the values' names
  std::map<std::string_view, Entry> names = {};
  std::map<std::string_view, std::int64_t> versions;  // of operator sets
  const std::vector<Argument>* arguments = nullptr;   // of the call
  const FunctionProto* function = nullptr;            // whose body it is in; null for the model's graph
  int depth = 0;
  std::string where;  // for messages: "graph", "function \"f\""
};

class Flattener {
 public:
  Flattener(const ModelProto& model, Tensors& tensors) : model_(model), tensors_(tensors) {}

  FlatGraph run();

 private:
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

  void add_constants(const GraphProto& graph, Scope& scope);
  void add_body(const std::vector<NodeProto>& nodes, Scope& scope);
  void add_node(const NodeProto& node, Scope& scope);
  void add_constant(const FlatNode& node);
  void call(const FunctionProto& function, const FlatNode& node, const std::string& prefix, const Scope& scope);
  bool branch(const FlatNode& node, const Scope& scope);
  bool loop(const FlatNode& node, const Scope& scope);
  Scope body_of(const GraphProto& graph, const FlatNode& node, const Scope& scope, std::string_view suffix);
  std::vector<int> add_branch(const GraphProto& graph, const FlatNode& node, const Scope& scope,
                              std::string_view suffix);
  void expect_outputs(const std::vector<std::string>& names, const FlatNode& node, Scope& body);
  void connect_outputs(const std::vector<std::string>& names, const FlatNode& node, const Scope& body);
  void append(FlatNode node);

  int define(std::string_view name, Scope& scope);
  int find(std::string_view name, const Scope& scope) const;  // -2: there is none
  std::string unique_name(std::string_view name, const Scope& scope);
  std::vector<Argument> arguments_of(const NodeProto& node, const Scope& scope);
  std::int64_t version_of(std::string_view domain, const Scope& scope) const;
  void pay(std::uint64_t amount, const Scope& scope);
  FlatValue& value(int id) { return graph_.values[static_cast<std::size_t>(id)]; }
  template <class... Parts>
  [[noreturn]] void refuse(const Scope& scope, const Parts&... parts) const {
    fail(model_.file->path(), ": ", scope.where, ": ", parts...);
  }

  const ModelProto& model_;
  Tensors& tensors_;
  FlatGraph graph_;
  std::map<Key, const FunctionProto*> functions_;
  std::set<std::string, std::less<>> taken_;  // names of values
  std::uint64_t paid_ = 0;
};

/// "" for ONNX's own domain, which has two names.
inline std::string_view own(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

std::map<std::string_view, std::int64_t> versions_of(const std::vector<OperatorSetIdProto>& opsets,
                                                     const std::string& path);

}  // namespace lamina::detail::onnx
