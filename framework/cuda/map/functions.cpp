#include "lamina/cuda/map/functions.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

namespace lamina::cuda {

extern const char map_functions[];  // text/as_string.cmake writes it

namespace {

constexpr std::ptrdiff_t most_lines = 100;  // of a function that becomes part of its kernel

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  const std::pair<std::string_view, std::string_view> word[] = {{from, to}};
  text = detail::in_words(std::move(text), word);
}

/// Names are letters, digits, _ and $.
bool in_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$'; }

/// The last name before a position.
std::string name_before(std::string_view text, std::size_t end) {
  while (end > 0 && !in_name(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && in_name(text[begin - 1])) --begin;
  return std::string(text.substr(begin, end - begin));
}

/// With what nvcc has not contracted kept apart, so that bits do not depend on the driver.
void say_roundings(std::string& text) {
  for (const std::string type : {"f32", "f64"}) {
    for (const std::string op : {"add", "sub", "mul"}) replace_all(text, op + "." + type, op + ".rn." + type);
  }
}

const char* prefix_of(DType compute) {
  switch (compute) {
    case DType::f64: return "f64_";
    case DType::i64: return "i64_";
    case DType::u64: return "u64_";
    default: return "f32_";
  }
}

}  // namespace

const PtxFunctions& PtxFunctions::all() {
  static const PtxFunctions functions(map_functions);
  return functions;
}

PtxFunctions::PtxFunctions(std::string_view module) {
  // Items begin in the first column; what begins with ".func" or ".visible .func" and has a body ends at "}" there.
  for (std::size_t at = 0; at < module.size();) {
    std::size_t end = module.find('\n', at);
    if (end == std::string_view::npos) end = module.size();
    const std::string_view line = module.substr(at, end - at);
    const bool function = line.starts_with(".func") || line.starts_with(".visible .func");
    if (function) {
      const std::size_t head = line.find(") ") + 2, body = module.find("\n{", at), declared = module.find("\n;", at);
      const std::size_t name_end = std::min(line.find('(', head), line.size());
      if (declared < body) {  // said before it is written
        at = declared + 2;
        continue;
      }
      end = module.find("\n}", body) + 2;
      Item item;
      item.text = std::string(module.substr(at, end - at)) + "\n";
      say_roundings(item.text);
      replace_all(item.text, ".visible .func", ".func");
      const std::size_t open = item.text.find("\n{") + 2, close = item.text.rfind('}');
      std::string lines = item.text.substr(open, close - open);
      const bool alone = lines.find(".local") == std::string::npos && lines.find("call") == std::string::npos &&
                         lines.find("__cud") == std::string::npos;
      if (alone && std::count(lines.begin(), lines.end(), '\n') <= most_lines) {
        lines.erase(lines.rfind("ret;"));  // the only one: nvcc's functions have one exit
        item.body = lines;
      }
      items_[std::string(line.substr(head, name_end - head))] = std::move(item);
    } else if (line.starts_with(".global")) {
      end = module.find(';', at) + 1;
      const std::string_view text = module.substr(at, end - at);
      items_[name_before(text, text.find('['))].text = std::string(text) + "\n";
    }
    at = end + 1;
  }
  for (auto& [name, item] : items_) {
    for (const auto& [other, unused] : items_) {
      if (other != name && other.starts_with("__") && item.text.find(other) != std::string::npos) {
        item.needs.push_back(other);
      }
    }
  }
}

std::string PtxFunctions::apply(PtxText& text, Pointwise function, DType compute, bool rounded_to_16,
                                const std::vector<std::string>& operands, std::set<std::string>& called) const {
  const std::string last(describe(function).name);
  auto found = rounded_to_16 && compute == DType::f32 ? items_.find("f16_" + last) : items_.end();
  if (found == items_.end()) found = items_.find(prefix_of(compute) + last);
  if (found == items_.end()) detail::fail("no text of the function ", last, " of ", compute);
  const auto& [name, item] = *found;
  const bool wide = size_of(compute) == 8, floats = is_float(compute);
  const std::string type = floats ? (wide ? "f64" : "f32") : "b64";
  const std::string result = text.fresh(floats ? (wide ? Bank::f64 : Bank::f32) : Bank::b64);
  if (item.body.empty()) {
    called.insert(name);
    const std::string b = wide ? "b64" : "b32";
    text.splice("{\n.param ." + b + " to, v, x, y;\n");
    const char* parameters[] = {"[v]", "[x]", "[y]"};
    for (std::size_t i = 0; i < 3; ++i)
      text.line("st.param." + type, parameters[i], operands[std::min(i, operands.size() - 1)]);
    text.splice("call.uni (to), " + name + ", (v, x, y);\n");
    text.line("ld.param." + type, result, "[to]");
    text.splice("}\n");
    return result;
  }
  std::string body = item.body;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string& operand = operands[std::min(i, operands.size() - 1)];
    replace_all(body, "[" + name + "_param_" + std::to_string(i) + "]", operand);
  }
  for (const char* kind : {"f32", "f64", "u64", "b64", "b32"}) {
    replace_all(body, std::string("ld.param.") + kind, std::string("mov.") + kind);
    replace_all(body, std::string("st.param.") + kind, std::string("mov.") + kind);
  }
  replace_all(body, "[func_retval0+0]", result);
  replace_all(body, "[func_retval0]", result);
  text.splice("{\n" + body + "}\n");
  return result;
}

std::string PtxFunctions::definitions(const std::set<std::string>& called) const {
  std::set<std::string> done;
  std::string text;
  for (const std::string& name : called) define(name, done, text);
  return text;
}

void PtxFunctions::define(const std::string& name, std::set<std::string>& done, std::string& text) const {
  if (!done.insert(name).second) return;
  const Item& item = items_.at(name);
  for (const std::string& need : item.needs) define(need, done, text);
  text += item.text;
}

}  // namespace lamina::cuda
