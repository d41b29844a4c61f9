#include "manual_pages.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "help.h"
#include "lamina/base/version.h"

namespace lamina::app {
namespace {

/// An option as --help shows it.
struct Shown {
  std::string name;                  // "--model", or of a positional "photos"
  std::string value;                 // "FILE"; empty for a flag
  std::vector<std::string> choices;  // where the value is one of some words
  std::string says;
  bool positional = false, again = false;  // it may be given more than once
};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  // A group of options is a command without a name.
  return app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty() && !c->get_name().empty(); });
}

/// "lamina bench model", with something else between the words.
std::string path_of(const CLI::App& command, std::string_view between) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : path_of(*parent, between) + std::string(between)) + command.get_name();
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) {
    text.replace(at, what.size(), by);
  }
  return text;
}

/// The words of "auto|cpu|cuda[:INDEX]" that can be typed as they are.
std::vector<std::string> choices_of(const std::string& value) {
  std::vector<std::string> words;
  if (value.find('|') == std::string::npos) return words;
  std::string rest = value.substr(0, value.find("[,")) + '|';
  for (std::size_t bar = 0; (bar = rest.find('|')) != std::string::npos; rest.erase(0, bar + 1)) {
    const std::string word = rest.substr(0, std::min(bar, rest.find('[')));
    if (!word.empty() && word.find(':') == std::string::npos) words.push_back(word);  // a shell parts words there
  }
  return words;
}

std::vector<Shown> options_of(const CLI::App& command) {
  const HelpFormatter help;
  std::vector<Shown> all;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    Shown shown;
    shown.positional = option->get_positional();
    shown.name = help.make_option_name(option, shown.positional);
    if (const auto comma = shown.name.find(','); comma != std::string::npos)
      shown.name.erase(0, comma + 1);  // -h,--help
    shown.value = help.make_option_opts(option);
    shown.value.erase(0, shown.value.find_first_not_of(' '));
    shown.choices = choices_of(shown.value);
    shown.says = replaced(help.make_option_desc(option), "\n", " ");
    shown.again = option->get_expected_max() > 1;
    all.push_back(shown);
    if (shown.positional && !option->get_lnames().empty()) {  // convert's --out
      shown.name = "--" + option->get_lnames().front();
      shown.value = "FILE";
      shown.positional = false;
      all.push_back(std::move(shown));
    }
  }
  for (const CLI::App* group : command.get_subcommands([](const CLI::App* c) { return c->get_name().empty(); })) {
    const std::vector<Shown> inside = options_of(*group);
    all.insert(all.end(), inside.begin(), inside.end());
  }
  return all;
}

std::string roff(std::string text) {
  text = replaced(replaced(std::move(text), "\\", "\\e"), "-", "\\-");
  text = replaced(replaced("\n" + text, "\n.", "\n\\&."), "\n'", "\n\\&'");
  return text.substr(1);
}

/// Calls `tell` with the command and all below it.
void walk(const CLI::App& command, const std::function<void(const CLI::App&)>& tell) {
  tell(command);
  for (const CLI::App* below : commands_of(command)) walk(*below, tell);
}

/// 'text' as a shell reads it.
std::string in_quotes(const std::string& text) { return '\'' + replaced(text, "'", "'\\''") + '\''; }

/// What _arguments of zsh takes of an option: '--precision[arithmetic]:value:(fp32 tf32)'.
std::string argument(const Shown& option) {
  const auto escaped = [](std::string text) {
    for (const char* c : {"\\", "[", "]", ":"}) text = replaced(std::move(text), c, std::string("\\") + c);
    return text;
  };
  if (option.positional) return in_quotes(fmt::format("{}:{}:_files", option.again ? "*" : "", escaped(option.name)));
  std::string text = fmt::format("{}{}[{}]", option.again ? "*" : "", option.name, escaped(option.says));
  if (option.value.empty()) return in_quotes(text);
  const std::string values = option.choices.empty() ? "_files" : fmt::format("({})", fmt::join(option.choices, " "));
  return in_quotes(text + ":value:" + values);
}

std::string manual_page(const CLI::App& command) {
  const std::string name = path_of(command, "-");
  std::string title = name, usage, options, below, see;
  for (char& c : title) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  for (const Shown& option : options_of(command)) {
    if (option.positional) usage += fmt::format(" \\fI{}\\fR{}", roff(option.name), option.value);
    const std::string value = replaced(roff(option.value), "|", "|\\:");  // where a long list of words may be broken
    options += fmt::format(".TP\n\\fB{}\\fR {}\n{}\n", roff(option.name), value, roff(option.says));
  }
  for (const CLI::App* sub : commands_of(command)) {
    below += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(sub->get_name()), roff(sub->get_description()));
    see += fmt::format("{}.BR {} (1)", see.empty() ? "" : " ,\n", roff(path_of(*sub, "-")));
  }
  if (!below.empty()) below = ".SH COMMANDS\n" + below;
  if (const CLI::App* parent = command.get_parent()) see = fmt::format(".BR {} (1)", roff(path_of(*parent, "-")));
  return fmt::format(
      ".TH {} 1 \"\" \"lamina {}\" \"User Commands\"\n.ad l\n"
      ".SH NAME\n{} \\- {}\n"
      ".SH SYNOPSIS\n\\fB{}\\fR [\\fIOPTIONS\\fR]{}{}\n"
      "{}.SH OPTIONS\n{}"
      ".SH NOTES\n.nf\n{}\n.fi\n"
      ".SH SEE ALSO\n{}\n",
      title, version(), roff(name), roff(command.get_description()), path_of(command, " "),
      below.empty() ? "" : " \\fICOMMAND\\fR", usage, below, options, roff(command.get_footer()), see);
}

}  // namespace

std::map<std::string, std::string> manual_pages(const CLI::App& command) {
  std::map<std::string, std::string> pages;
  walk(command, [&](const CLI::App& each) { pages[path_of(each, "-")] = manual_page(each); });
  return pages;
}

std::string bash_completion(const CLI::App& app) {
  std::string inner, values, words;  // the commands with others below; what options take; what a command takes
  walk(app, [&](const CLI::App& command) {
    const std::string path = path_of(command, " ");
    std::vector<std::string> names;
    for (const CLI::App* below : commands_of(command)) {
      names.push_back(below->get_name());
      inner += fmt::format("      '{} {}') path+=\" $word\" ;;\n", path, names.back());
    }
    for (const Shown& option : options_of(command)) {
      if (!option.positional) names.push_back(option.name);
      if (!option.choices.empty()) {
        values += fmt::format("    '{} {}') words='{}' ;;\n", path, option.name, fmt::join(option.choices, " "));
      } else if (!option.value.empty() && !option.positional) {
        values += fmt::format("    '{} {}') return ;;\n", path, option.name);
      }
    }
    words += fmt::format("      '{}') words='{}' ;;\n", path, fmt::join(names, " "));
  });
  return fmt::format(R"(# Completion of lamina's command line for bash, written by `lamina completion bash`.
_lamina() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} path=lamina words='' word
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $word" in
{}    esac
  done
  case "$path $before" in  # what is not listed here completes names of files
{}  esac
  if [ -z "$words" ]; then
    case "$path" in
{}    esac
    [[ $current == -* || ${{words%% *}} != -* ]] || return
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}}
complete -o default -F _lamina lamina
)",
                     inner, values, words);
}

std::string zsh_completion(const CLI::App& app) {
  std::string text = "#compdef lamina\n# Written by `lamina completion zsh`.\n";
  walk(app, [&](const CLI::App& command) {
    const std::string name = path_of(command, "_");
    std::string arguments, commands, cases;
    for (const Shown& option : options_of(command)) arguments += " \\\n    " + argument(option);
    for (const CLI::App* below : commands_of(command)) {
      commands += " " + in_quotes(below->get_name() + ':' + replaced(below->get_description(), ":", "\\:"));
      cases += fmt::format("      {}) _{} ;;\n", below->get_name(), path_of(*below, "_"));
    }
    if (commands.empty()) {
      text += fmt::format("_{}() {{\n  _arguments{}\n}}\n", name, arguments);
    } else {
      text += fmt::format(
          "_{}() {{\n  local curcontext=$curcontext state line\n  local -a commands=({})\n"
          "  _arguments -C{} \\\n    '1:command:->command' '*::argument:->argument'\n"
          "  case $state in\n    command) _describe command commands ;;\n"
          "    argument) case $line[1] in\n{}    esac ;;\n  esac\n}}\n",
          name, commands, arguments, cases);
    }
  });
  return text + "_lamina \"$@\"\n";
}

}  // namespace lamina::app
