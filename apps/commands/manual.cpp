#include <fmt/core.h>

#include <functional>

#include "commands.h"
#include "manual.h"
#include "options.h"

namespace lamina::app {

void add_manual(CLI::App& app) {
  struct Options {
    std::vector<std::string> path;
    std::string shell;
  };
  auto given = std::make_shared<Options>();
  CLI::App* manual = app.add_subcommand("manual", "Write the manual page of a command, as man reads it");
  manual->group("");  // for who makes packages: docs/packages.md
  manual->add_option("command", given->path, "which; none: of lamina itself");
  manual->callback([&app, given] {
    CLI::App* command = &app;
    for (const std::string& name : given->path) command = command->get_subcommand(name);
    fmt::print("{}", manual_page(*command));
  });
  CLI::App* completion = app.add_subcommand("completion", "Write what completes the command line in a shell");
  completion->group("");
  completion->add_option("shell", given->shell, "which")->required()->check(one_of({"bash", "zsh"}));
  completion->callback(
      [&app, given] { fmt::print("{}", given->shell == "bash" ? bash_completion(app) : zsh_completion(app)); });
}

}  // namespace lamina::app
