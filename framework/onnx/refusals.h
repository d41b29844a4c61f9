#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "lamina/onnx/flatten.h"

namespace lamina::detail::onnx {

/// Everything of a model that Lamina cannot run, to be said at once.
class Refusals {
 public:
  /// `why`: "" for an op that Lamina has not at all.
  void add(const FlatNode& node, std::string_view why);
  /// Throws the Error, naming the file at `path`, if there is anything to say.
  void finish(const std::string& path) const;

 private:
  struct Row {
    std::string first;  // node
    std::uint64_t count = 0;
  };

  std::map<std::tuple<std::string, std::string, std::int64_t, std::string>, Row> rows_;  // domain, op, version, why
};

/// What an op that no network for inference should need belongs to: "control flow", "sequences", "training"; else "".
std::string_view foreign_kind(const FlatNode& node);

}  // namespace lamina::detail::onnx
