#include "cuda/map/ptx_program.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace lamina::test::ptx {

Program::Program(const std::string& text) {
  const std::size_t open = text.find("\n{"), shared = text.find("memory[");
  if (shared != std::string::npos) shared_bytes = std::stoul(text.substr(shared + 7));
  std::istringstream lines(text.substr(open + 2, text.rfind('}') - open - 2));
  scopes_.emplace_back();
  std::vector<std::pair<std::size_t, std::string>> branches;
  std::string line;
  while (std::getline(lines, line)) read(line, branches);
  for (const auto& [at, label] : branches) instructions[at].target = labels_.at(label);
  for (Instruction& i : instructions) {
    std::size_t from = 0;
    while (true) {
      const std::size_t dot = i.op.find('.', from);
      i.words.push_back(std::string_view(i.op).substr(from, dot - from));
      if (dot == std::string::npos) break;
      from = dot + 1;
    }
    const std::string_view what = i.words[0];
    const auto in_parts = [](const Operand& operand) { return operand.kind == Operand::Kind::vector; };
    const bool moves = what == "ld" || what == "st" || what == "atom" || std::ranges::any_of(i.operands, in_parts);
    if (!moves) i.compute = arithmetic(i);
    i.is_collective = what == "bar" || what == "shfl";
  }
}

void Program::read(std::string line, Branches& branches) {
  line.erase(0, line.find_first_not_of(" \t"));
  const std::size_t end = line.find_last_not_of(" \t\r");
  line.resize(end == std::string::npos ? 0 : end + 1);
  if (line.empty() || line.starts_with("//")) return;
  if (line == "{") return scopes_.emplace_back(), ++serial_, void();
  if (line == "}") return scopes_.pop_back();
  if (line.ends_with(":")) {
    labels_[label(line.substr(0, line.size() - 1))] = instructions.size();
    return;
  }
  if (line.starts_with(".reg")) {
    const std::size_t percent = line.find('%');
    scopes_.back()[line.substr(percent, line.find('<') - percent)] = ++serial_;
    return;
  }
  if (line[0] == '.') return;
  if (line.back() == ';') line.pop_back();
  Instruction i;
  if (line[0] == '@') {
    i.unless = line[1] == '!';
    const std::size_t space = line.find_first_of(" \t");
    i.guard = reg(line.substr(i.unless ? 2 : 1, space - (i.unless ? 2 : 1)));
    line.erase(0, line.find_first_not_of(" \t", space));
  }
  const std::size_t space = std::min(line.find_first_of(" \t"), line.size());
  i.op = line.substr(0, space);
  std::string rest = line.substr(space);
  if (i.op.starts_with("bra")) {
    rest.erase(0, rest.find_first_not_of(" \t"));
    branches.emplace_back(instructions.size(), label(rest));
  } else {
    i.operands = operands(rest);
  }
  instructions.push_back(std::move(i));
}

/// Labels of a spliced function are its own.
std::string Program::label(const std::string& text) const {
  return text.starts_with("$L")
             ? text + "@" + std::to_string(scopes_.back().empty() ? 0 : scopes_.back().begin()->second)
             : text;
}

int Program::reg(const std::string& name) {
  const std::string prefix = name.substr(0, name.find_first_of("0123456789"));
  for (std::size_t s = scopes_.size(); s-- > 0;) {
    if (const auto found = scopes_[s].find(prefix); found != scopes_[s].end()) {
      const auto [entry, fresh] = numbers_.try_emplace(name + "@" + std::to_string(found->second), registers);
      registers += fresh ? 1 : 0;
      return entry->second;
    }
  }
  const auto [entry, fresh] = numbers_.try_emplace(name, registers);  // the kernel's own
  registers += fresh ? 1 : 0;
  return entry->second;
}

std::vector<Operand> Program::operands(const std::string& text) {
  std::vector<Operand> result;
  for (std::size_t at = 0; at < text.size();) {
    at = text.find_first_not_of(" \t,", at);
    if (at == std::string::npos) break;
    const char close = text[at] == '{' ? '}' : text[at] == '[' ? ']' : ',';
    std::size_t end = std::min(text.find(close, at + 1), text.size());
    if (close != ',') ++end;
    result.push_back(operand(text.substr(at, end - at)));
    at = end;
  }
  return result;
}

Operand Program::operand(std::string text) {
  text.resize(text.find_last_not_of(" \t") + 1);
  Operand o;
  o.text = text;
  if (text[0] == '{') {
    o.kind = Operand::Kind::vector;
    o.parts = operands(text.substr(1, text.size() - 2));
  } else if (text[0] == '[') {
    o.kind = Operand::Kind::memory;
    const std::size_t sign = text.find('+', 1), end = std::min(sign, text.size() - 1);
    if (text[1] == '%') o.reg = reg(text.substr(1, end - 1));
    if (sign != std::string::npos) o.number = static_cast<Word>(std::stoll(text.substr(sign + 1)));
  } else if (text.starts_with("%tid") || text.starts_with("%ctaid")) {
    o.kind = Operand::Kind::special;
  } else if (text[0] == '%') {
    o.kind = Operand::Kind::reg, o.reg = reg(text);
  } else if (text.starts_with("0f") || text.starts_with("0d")) {
    o.kind = Operand::Kind::number, o.number = std::stoull(text.substr(2), nullptr, 16);
  } else if (text == "memory") {
    o.kind = Operand::Kind::number;
  } else if (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-') {
    o.kind = Operand::Kind::number;
    o.number = text[0] == '-' ? static_cast<Word>(std::stoll(text, nullptr, 0)) : std::stoull(text, nullptr, 0);
  }
  return o;
}

}  // namespace lamina::test::ptx
