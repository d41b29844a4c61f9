#include "help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "commands/commands.h"
#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/base/text_table.h"
#include "outputs.h"
#include "photos/photos.h"
#include "words.h"

namespace lamina::app {
namespace {

/// Columns of the terminal, or what COLUMNS says; where nothing does, the usual 80.
std::size_t help_width() {
  winsize size = {};
  const char* const said = std::getenv("COLUMNS");
  std::size_t width = said == nullptr ? 0 : number_in<std::size_t>(said).value_or(0);
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width == 0 ? 80 : std::clamp<std::size_t>(width, 60, 160);
}

std::string in_lines(const std::string& text, std::size_t width) {
  std::string lines;
  for (const std::string& line : detail::wrapped(text, width)) lines += (lines.empty() ? "" : "\n") + line;
  return lines;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view s) { return text.starts_with(s); });
}

/// What stands for the value: the choices where there are some, else N for a number, what type_name() says, or FILE,
/// which is what most texts without a validator are here. CLI11's type names are the C++ type, then a colon and what
/// the validators say.
std::string value_name(std::string type) {
  if (constexpr std::string_view each = "[MODEL=]"; type.starts_with(each)) {
    return std::string(each) + value_name(type.substr(each.size()));
  }
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
    " key strip-prefix input-shape constant as-stored memory fill scale mean std bgr resize fit algorithm "
    "architecture batch-invariant linear-weights path max-body allow-host max-queue max-delay ";

bool is_rare(const CLI::Option& option) {
  return std::ranges::any_of(option.get_lnames(),
                             [](const std::string& name) { return rare.find(' ' + name + ' ') != rare.npos; });
}

/// The command that the arguments name, as far as they name one.
const CLI::App& named(const CLI::App& app, std::span<char* const> arguments) {
  if (arguments.empty()) return app;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == arguments[0]) return named(*command, arguments.subspan(1));
  }
  return app;
}

/// The option that is called otherwise elsewhere, with a value where that says it: --confidence of --threshold.
std::string of_other_programs(const CLI::App& command, std::string_view option) {
  constexpr std::pair<std::string_view, std::string_view> others[] = {{"--threshold", "--confidence"},
                                                                      {"--thresh", "--confidence"},
                                                                      {"--nms", "--iou"},
                                                                      {"--max-det", "--most"},
                                                                      {"--output", "--out"},
                                                                      {"--output", "--json"},
                                                                      {"--imgsz", "--size"},
                                                                      {"--img", "--size"},
                                                                      {"--img-size", "--size"},
                                                                      {"--topk", "--top"},
                                                                      {"--top-k", "--top"},
                                                                      {"--names", "--labels"},
                                                                      {"--classes", "--labels"},
                                                                      {"--workers", "--threads"},
                                                                      {"--network", "--model"},
                                                                      {"--gpu", "--device cuda"},
                                                                      {"--cuda", "--device cuda"},
                                                                      {"--cpu", "--device cpu"},
                                                                      {"--half", "--precision fp16"},
                                                                      {"--fp16", "--precision fp16"},
                                                                      {"--save-txt", "--txt"},
                                                                      {"--save-crop", "--crops"},
                                                                      {"--o", "--out"},
                                                                      {"--o", "--json"},
                                                                      {"--m", "--model"},
                                                                      {"--i", "--input"}};
  for (const auto& [other, own] : others) {
    const std::string name(own.substr(0, own.find(' ')));
    if (other == option && command.get_option_no_throw(name) != nullptr) return std::string(own);
  }
  return "";
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
    const bool is_letter = option.size() == 2 && std::isalpha(static_cast<unsigned char>(option[1])) != 0;
    if (is_letter && command.get_option_no_throw(option) == nullptr) option.insert(0, "-");  // -m
    const CLI::Option* const known = command.get_option_no_throw(option);
    if (known != nullptr && known->get_expected_max() == 0 && option.size() < argument.size()) {
      return detail::concat(option, ": takes no value, got ", detail::quote(argument.substr(option.size() + 1)));
    }
    if (!option.starts_with("--") || (!is_word && known != nullptr)) continue;
    std::vector<std::string> names;
    for (const CLI::Option* each : command.get_options()) {
      for (const std::string& name : each->get_lnames()) names.push_back("--" + name);
    }
    const std::string there_is_none = "there is no option " + argument.substr(0, argument.find('='));
    if (const std::string own = of_other_programs(command, option); !own.empty()) {
      return detail::concat(there_is_none, "; did you mean ", own, '?');
    }
    constexpr std::string_view of_files = " --model --input --in --file --photo --photos --image --images --source ";
    const auto options = command.get_options();
    const bool by_place = std::ranges::any_of(options, [](const auto* each) { return each->get_positional(); });
    if (by_place && of_files.find(' ' + option + ' ') != of_files.npos) {
      return detail::concat(there_is_none, ": files stand without one, as in ", command.get_name(), " FILE");
    }
    const auto longer = std::ranges::find_if(names, [&](const std::string& name) { return name.starts_with(option); });
    if (longer != names.end()) return detail::concat(there_is_none, "; did you mean ", *longer, '?');
    std::string others;  // of which it is an option
    for (const CLI::App* other : command.get_parent() == nullptr
                                     ? std::vector<const CLI::App*>()
                                     : command.get_parent()->get_subcommands([](const CLI::App*) { return true; })) {
      if (other->get_option_no_throw(option) != nullptr) others += (others.empty() ? "" : ", ") + other->get_name();
    }
    if (!others.empty()) return detail::concat(there_is_none, " of ", command.get_name(), ", but of ", others);
    return detail::concat(there_is_none, "; did you mean ", detail::nearest_names(option, names, 1).front(), '?');
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
  std::string hidden;
  if (!all_) {
    for (const CLI::Option* option : options) {
      if (is_rare(*option)) hidden += (hidden.empty() ? "" : ", ") + option->get_name();
    }
    std::erase_if(options, [](const CLI::Option* option) { return is_rare(*option); });
  }
  std::string text = CLI::Formatter::make_group(std::move(group), positional, options);
  if (!hidden.empty())
    text += '\n' + in_lines("--help-all shows these too, which few need: " + hidden, help_width()) + '\n';
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
  std::string value = value_name(option->get_type_name());
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
  return in_lines(description, help_width() - get_column_width());
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  const std::string footer = app->get_footer();
  std::string text;
  for (const std::string_view line : parts_of(footer, '\n')) {
    const std::string paragraph(line);
    text += (paragraph.starts_with(' ') ? paragraph : in_lines(paragraph, help_width())) + '\n';
  }
  return footer.empty() ? "" : text;
}

std::string misspelling(const CLI::App& app, std::span<char* const> arguments) {
  if (const auto nothing = std::ranges::find(arguments, std::string_view()); nothing != arguments.end()) {
    const std::string before = nothing == arguments.begin() ? "" : *(nothing - 1);
    return detail::concat(before.starts_with("--") ? before : "a command, a file or an option",
                          ": got \"\", which names nothing; a shell writes it for a variable that is not set");
  }
  const auto commands = app.get_subcommands([](const CLI::App* each) { return !each->get_name().empty(); });
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
  std::error_code ignored;
  const bool is_file = std::filesystem::exists(word, ignored);
  const bool is_model = is_file && !std::filesystem::is_directory(word, ignored) && !is_photo(word);
  return detail::concat("there is no command ", detail::quote(word), "; did you mean ",
                        is_file ? (is_model ? "lamina inspect " : "lamina classify ") + word
                                : detail::nearest_names(word, names, 1).front(),
                        '?');
}

std::string problem_of(const CLI::ParseError& error, const CLI::App& app, std::span<char* const> arguments) {
  const std::string text = error.what();
  const CLI::App& command = named(app, arguments);
  if (text.starts_with("The following argument")) {
    std::string first = text.substr(text.find(": ") + 2);
    first.resize(std::min(first.find(' '), first.size()));
    const bool is_model = first.ends_with(".onnx") || first.ends_with(".safetensors");
    const std::string option = is_model ? "--model" : "--input";
    return detail::concat(first, " stands alone: ",
                          command.get_option_no_throw(option) == nullptr
                              ? "this command takes no file or value of that kind"
                              : detail::concat("files are behind options here, ", option, ' ', first));
  }
  if (const std::size_t end = text.find(" is required"); end != text.npos && text.starts_with("--")) {
    const CLI::Option* const option = command.get_option_no_throw(text.substr(0, end));
    if (option != nullptr && option->get_positional()) return "expected another argument, " + option->get_description();
    return "expected " + text.substr(0, end) + (option == nullptr ? "" : ' ' + value_name(option->get_type_name()));
  }
  if (const std::string_view one = "Exactly 1 option from ["; text.starts_with(one)) {
    std::string names = text.substr(one.size(), text.find(']') - one.size());
    if (const std::size_t comma = names.find(','); comma != names.npos) names.replace(comma, 1, " or ");
    return "expected " + names;
  }
  if (error.get_name() == "ValidationError") return as_written(text, command, arguments);
  const bool twice = error.get_name() == "ArgumentMismatch" && text.find("At Most") != text.npos;
  if (twice) return text.substr(0, text.find(": ")) + ": given twice";
  if (error.get_name() == "ArgumentMismatch") return text.substr(0, text.find(": ")) + ": expected a value behind it";
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"A subcommand is required", "expected a command"},
      {" excludes ", ": not with "},
      {" requires ", " needs "},
      {"file is required", "expected a file"},
      {"photos is required", "expected photographs: files, folders, or - for stdin"}};
  return detail::in_words(text, words);
}

std::string command_line(const CLI::App& app, std::span<char* const> arguments) {
  std::string line;
  for (const CLI::App* each = &named(app, arguments); each != nullptr; each = each->get_parent())
    line.insert(0, each->get_name() + (line.empty() ? "" : " "));
  return line;
}

}  // namespace lamina::app
