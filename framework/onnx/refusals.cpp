#include "lamina/onnx/refusals.h"

#include <algorithm>
#include <array>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/onnx/call.h"

namespace lamina::detail::onnx {
namespace {

constexpr std::size_t max_rows = 40;
constexpr std::size_t longest = 100;

constexpr std::array<std::string_view, 3> control_flow = {"If", "Loop", "Scan"};
constexpr std::array<std::string_view, 3> training = {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss",
                                                      "Gradient"};

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

std::string_view foreign_kind(const FlatNode& node) {
  if (contains(node.domain, "training")) return "training";
  if (is_microsoft(node.domain, node.op)) return "";
  if (node.domain.starts_with("ai.onnx.ml"))
    return "decision trees, SVMs and texts are no networks: keep ONNX Runtime for this file";
  if (!node.domain.empty()) return "Lamina has no ops of this domain, and the model does not define it";
  const bool chosen = node.op == "If" && node.inputs.size() == 3;  // bodies.cpp's own, as is a Loop without a body
  const bool unrolled = node.op == "Loop" && node.arguments.empty() && node.inputs.size() > 5;
  if (!chosen && !unrolled && std::ranges::find(control_flow, node.op) != control_flow.end()) return "control flow";
  if (node.op == "SequenceMap") return "sequences";
  if (node.op.starts_with("Optional")) return "optional values";
  if (node.op.starts_with("String")) return "texts";
  if (std::ranges::find(training, node.op) != training.end()) return "training";
  return "";
}

void Refusals::add(const FlatNode& node, std::string_view why) {
  const std::string_view domain = node.domain.substr(0, longest), op = node.op.substr(0, longest);
  Row& row = rows_[{std::string(domain), std::string(op), node.version, std::string(why)}];
  if (row.count++ == 0) row.first = node.name;
}

void Refusals::finish(const std::string& path) const {
  if (rows_.empty()) return;
  std::uint64_t total = 0;
  for (const auto& [key, row] : rows_) total += row.count;
  std::string text = concat(path, ": Lamina cannot run ", total, total == 1 ? " node" : " nodes", " of this model:");
  std::size_t shown = 0;
  for (const auto& [key, row] : rows_) {
    if (shown++ == max_rows) {
      text += concat("\n  and ", rows_.size() - max_rows, " kinds more");
      break;
    }
    const auto& [domain, op, version, why] = key;
    // A name may hold line ends, which Error lets through.
    text += "\n  " + printable(concat(domain, domain.empty() ? "" : ".", op, " (opset ", version, ')'));
    text += concat(": ", row.count, row.count == 1 ? " node, " : " nodes, the first ", printable(row.first));
    text += why.empty() ? ": no such op" : concat(": ", why);
  }
  fail(ErrorKind::unsupported, text);
}

}  // namespace lamina::detail::onnx
