#include "help.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/base/text_table.h"

namespace lamina::app {
namespace {

constexpr std::size_t description_width = 78;

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view s) { return text.starts_with(s); });
}

/// What stands for the value: the choices where there are some, else N for a number, what type_name() says, or FILE,
/// which is what most texts without a validator are here. CLI11's type names are the C++ type, then a colon and what
/// the validators say.
std::string value_name(const CLI::Option& option) {
  std::string type = option.get_type_name();
  if (const auto colon = type.find(':'); colon != std::string::npos) {
    std::string choices = type.substr(colon + 1);
    if (choices.front() == '{') {
      choices = choices.substr(1, choices.find('}') - 1);
      std::replace(choices.begin(), choices.end(), ',', '|');
      return choices;
    }
    if (choices.find('|') != std::string::npos) return choices;
    type.resize(colon);
  }
  if (starts_with_any(type, {"INT", "UINT", "FLOAT", "NUMBER"})) return "N";
  return starts_with_any(type, {"TEXT", "std::"}) ? "FILE" : type;
}

std::string unbracketed(std::string text) {
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  return text;
}

/// What few need: `--help-all` has it. Everything else is in `--help` too.
constexpr std::string_view rare =
    " weights key strip-prefix input-shape constant as-stored memory fill scale mean std bgr resize fit algorithm "
    "architecture batch-invariant linear-weights path max-body allow-host max-queue max-delay ";

bool is_rare(const CLI::Option& option) {
  return std::ranges::any_of(option.get_lnames(),
                             [](const std::string& name) { return rare.find(' ' + name + ' ') != rare.npos; });
}

/// "there is no option ..." for the first argument that looks like one and is none of the command's; empty if all is
/// well.
std::string unknown_option(const CLI::App& command, std::span<char* const> arguments) {
  for (const std::string argument : arguments) {
    if (argument == "--") break;
    std::string option = argument.substr(0, argument.find('='));
    const bool is_word =
        option.size() > 2 && option[0] == '-' && std::isalpha(static_cast<unsigned char>(option[1])) != 0;
    if (is_word) option.insert(0, "-");  // -top
    if (!option.starts_with("--") || (!is_word && command.get_option_no_throw(option) != nullptr)) continue;
    std::vector<std::string> names;
    for (const CLI::Option* known : command.get_options()) {
      for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
    }
    const auto longer = std::ranges::find_if(names, [&](const std::string& name) { return name.starts_with(option); });
    return detail::concat("there is no option ", argument.substr(0, argument.find('=')), "; did you mean ",
                          longer != names.end() ? *longer : detail::nearest_names(option, names, 1).front(), '?');
  }
  return "";
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  all_ = mode != CLI::AppFormatMode::Normal;
  return CLI::Formatter::make_help(app, std::move(name), mode);
}

std::string HelpFormatter::make_group(std::string group, bool positional,
                                      std::vector<const CLI::Option*> options) const {
  const std::size_t before = options.size();
  if (!all_) std::erase_if(options, [](const CLI::Option* option) { return is_rare(*option); });
  std::string text = CLI::Formatter::make_group(std::move(group), positional, options);
  if (options.size() < before) {
    text += detail::concat("\n", before - options.size(), " more, which few need, are shown by --help-all.\n");
  }
  return text;
}

std::string HelpFormatter::make_option_name(const CLI::Option* option, bool positional) const {
  if (positional) return option->get_name(true, false);
  std::string names;
  for (const std::string& name : option->get_snames()) names += '-' + name + ',';
  return names + (option->get_lnames().empty() ? "" : "--" + option->get_lnames().front());
}

std::string HelpFormatter::make_option_opts(const CLI::Option* option) const {
  if (option->get_positional()) return option->get_expected_max() > 1 ? "..." : "";
  if (option->get_type_name().empty()) return "";  // a flag
  std::string value = value_name(*option);
  if (option->get_expected_max() > 1 && option->get_delimiter() != '\0') {
    value += "[," + (value.find('|') == std::string::npos ? value : "") + "...]";
  } else if (option->get_expected_max() > 1 && option->get_allow_extra_args()) {
    value += "...";
  }
  return " " + value;
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  std::string description = option->get_description();
  const std::string preset = unbracketed(option->get_default_str());
  if (!option->get_type_name().empty() && !preset.empty()) description += " (default: " + preset + ")";
  if (option->get_required() && !option->get_positional()) description += " (required)";
  for (const CLI::Option* other : option->get_excludes()) description += "; not with " + other->get_name();
  std::string text;
  for (const std::string& line : detail::wrapped(description, description_width))
    text += (text.empty() ? "" : "\n") + line;
  return text;
}

std::string misspelling(const CLI::App& app, std::span<char* const> arguments) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty()) return unknown_option(app, arguments);
  if (arguments.empty()) return "";
  if (arguments[0][0] == '-') return unknown_option(app, arguments.first(1));
  const std::string word = arguments[0];
  std::vector<std::string> names;
  for (const CLI::App* command : commands) {
    if (command->get_name() == word) return misspelling(*command, arguments.subspan(1));
    names.push_back(command->get_name());
  }
  for (const Room& room : rooms) {
    if (word != room.command || room.add != nullptr) continue;
    return detail::concat("this build has no ", word,
                          ": scripts/build_wheel.sh makes a package that has it; or configure with ", room.needs);
  }
  return detail::concat("there is no command ", detail::quote(word), "; did you mean ",
                        detail::nearest_names(word, names, 1).front(), '?');
}

std::string problem_of(const CLI::ParseError& error) {
  const std::string text = error.what();
  if (error.get_name() == "ValidationError") return text;
  if (error.get_name() == "ArgumentMismatch") return text.substr(0, text.find(": ")) + ": expected a value behind it";
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"A subcommand is required", "expected a command"}, {" excludes ", ": not with "}, {" requires ", " needs "}};
  return detail::in_words(text, words);
}

std::string command_line(const CLI::App& app, std::span<char* const> arguments) {
  std::string line = app.get_name();
  if (arguments.empty()) return line;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == arguments[0]) line += ' ' + command_line(*command, arguments.subspan(1));
  }
  return line;
}

}  // namespace lamina::app
