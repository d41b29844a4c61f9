#include "lamina/files/torch/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string_view>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

namespace lamina::detail {
namespace {

// Where training scripts keep the weights among what else they save, the likeliest first.
constexpr std::array<std::string_view, 9> usual_keys = {
    "state_dict", "model_state_dict", "model", "params", "params_ema", "model_ema", "state_dict_ema", "ema", "net"};

// Bounds on what a hostile file makes of the search.
constexpr std::size_t deepest = 4;
constexpr std::size_t longest_key = 256;
constexpr std::size_t max_listed = 8;

/// A dict of tensors, and the keys that lead to it.
struct Candidate {
  std::vector<std::string_view> keys;
  const PickleDict* dict = nullptr;
  std::size_t tensors = 0;
};
using Candidates = std::vector<Candidate>;

/// All of them in `dict` and below, each once, however often it is there.
void collect(const PickleDict& dict, std::vector<std::string_view>& keys, std::set<const PickleDict*>& seen,
             Candidates& found) {
  if (!seen.insert(&dict).second) return;
  const auto tensors = std::ranges::count_if(dict.items, [](const auto& item) { return as_tensor(item.second); });
  if (tensors > 0) found.push_back({keys, &dict, static_cast<std::size_t>(tensors)});
  if (keys.size() == deepest) return;
  for (const auto& [key, value] : dict.items) {
    const auto* text = as<std::string_view>(key);
    const auto* inner = as_object<PickleDict>(value);
    if (text == nullptr || inner == nullptr || text->size() > longest_key) continue;
    keys.push_back(*text);
    collect(*inner, keys, seen, found);
    keys.pop_back();
  }
}

Candidates collect(const PickleDict& dict) {
  std::vector<std::string_view> keys;
  std::set<const PickleDict*> seen;
  Candidates found;
  collect(dict, keys, seen, found);
  return found;
}

std::string joined(const Candidate& candidate) {
  std::string text;
  for (const std::string_view key : candidate.keys) text += (text.empty() ? "" : ".") + std::string(key);
  return text;
}

/// "\"model\" (62 tensors), \"ema\" (62 tensors)", without `chosen`.
std::string listed(const Candidates& candidates, const Candidate* chosen = nullptr) {
  std::string text;
  std::size_t count = 0;
  for (const Candidate& candidate : candidates) {
    if (&candidate == chosen || candidate.keys.empty() || ++count > max_listed) continue;
    text += concat(text.empty() ? "" : ", ", quote(joined(candidate)), " (", candidate.tensors,
                   candidate.tensors == 1 ? " tensor)" : " tensors)");
  }
  return count > max_listed ? concat(text, " and ", count - max_listed, " more") : text;
}

constexpr std::string_view how_to_choose = "choose with OpenOptions::key";

/// The one of `group` to read; they share their first `depth` keys. Null: that does not tell.
const Candidate* choose(const std::vector<const Candidate*>& group, std::size_t depth) {
  const auto own = std::ranges::find_if(group, [&](const Candidate* c) { return c->keys.size() == depth; });
  const auto below = [&](std::string_view key) {
    std::vector<const Candidate*> result;
    for (const Candidate* c : group) {
      if (c->keys.size() > depth && c->keys[depth] == key) result.push_back(c);
    }
    return result;
  };
  for (const std::string_view key : usual_keys) {
    const std::vector<const Candidate*> inner = below(key);
    // Tensors beside them, such as a random generator's state, are few. No parameter is called state_dict.
    const auto has_more = [&](const Candidate* c) { return own == group.end() || c->tensors > (*own)->tensors; };
    if (std::ranges::any_of(inner, has_more) || (!inner.empty() && key == usual_keys[0]))
      return choose(inner, depth + 1);
  }
  if (own != group.end()) return *own;
  const std::vector<const Candidate*> first = below(group[0]->keys[depth]);
  return first.size() == group.size() ? choose(first, depth + 1) : nullptr;
}

/// The dict that `dict` has under `key`, also through others: "model.state_dict". Null if there is none.
const PickleDict* under(const PickleDict& dict, std::string_view key) {
  for (const auto& [name, value] : dict.items) {
    const auto* text = as<std::string_view>(name);
    const auto* inner = as_object<PickleDict>(value);
    if (text == nullptr || inner == nullptr || text->empty() || !key.starts_with(*text)) continue;
    if (text->size() == key.size()) return inner;
    if (key[text->size()] != '.') continue;
    if (const PickleDict* found = under(*inner, key.substr(text->size() + 1))) return found;
  }
  return nullptr;
}

[[noreturn]] void fail_without_tensors(const PickleDict& dict, const std::string& path) {
  std::string keys;
  for (std::size_t i = 0; i < std::min(dict.items.size(), max_listed); ++i) {
    const auto* text = as<std::string_view>(dict.items[i].first);
    keys += concat(i == 0 ? " " : ", ", text == nullptr ? kind_of(dict.items[i].first) : quote(*text), " (",
                   kind_of(dict.items[i].second), ')');
  }
  const auto is_made = [](const auto& item) { return as_object<PickleCall>(item.second) != nullptr; };
  const bool objects = std::ranges::any_of(dict.items, is_made);
  fail(path, ": expected a state dict, got a dict without tensors; it holds", keys,
       dict.items.size() > max_listed ? ", ..." : "",
       objects ? "; nothing was executed, so objects are not made. Save the weights alone, with "
                 "torch.save(model.state_dict(), ...)"
               : "");
}

}  // namespace

FoundWeights find_weights(const PickleDict& checkpoint, const std::string& key, const std::string& path) {
  const PickleDict* top = key.empty() ? &checkpoint : under(checkpoint, key);
  const Candidates all = collect(checkpoint);
  if (top == nullptr) {
    fail(path, ": there are no weights under the key ", quote(key), "; there are ",
         all.empty()                              ? "none"
         : all[0].keys.empty() && all.size() == 1 ? "those of the file itself"
                                                  : listed(all));
  }
  const Candidates candidates = key.empty() ? all : collect(*top);
  if (candidates.empty() && !top->items.empty()) fail_without_tensors(*top, path);
  if (candidates.empty()) return {top, ""};
  std::vector<const Candidate*> group;
  for (const Candidate& candidate : candidates) group.push_back(&candidate);
  const Candidate* chosen = choose(group, 0);
  if (chosen == nullptr) fail(path, ": there are weights under ", listed(candidates), ": ", how_to_choose);
  if (chosen->keys.empty() || !key.empty()) return {chosen->dict, ""};
  const std::string others = listed(candidates, chosen);
  return {chosen->dict, concat(path, ": the weights are those under ", quote(joined(*chosen)),
                               others.empty() ? "" : concat("; there are also ", others, ": ", how_to_choose))};
}

}  // namespace lamina::detail
