#include "manual_pages.h"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "commands.h"
#include "options.h"

namespace lamina::app {
namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) throw Error(path.string() + ": cannot be written");
}

void write_manual(const std::filesystem::path& folder, const CLI::App& app) {
  for (const auto& [name, page] : manual_pages(app)) write(folder / "man/man1" / (name + ".1"), page);
  write(folder / "bash-completion/completions/lamina", bash_completion(app));
  write(folder / "zsh/vendor-completions/_lamina", zsh_completion(app));
  fmt::print("wrote manual pages and completions for bash and zsh below {}\n", folder.string());
}

}  // namespace

void add_manual(CLI::App& app) {
  auto given = std::make_shared<std::string>();
  CLI::App* manual =
      app.add_subcommand("manual", "Write manual pages and completions where share/ of a system has them");
  manual->group("");  // for who makes packages: docs/packages.md
  manual->add_option("folder", *given, "such as /usr/local/share")->required();
  manual->callback([&app, given] { write_manual(*given, app); });
  CLI::App* completion = app.add_subcommand("completion", "Write what completes the command line in a shell");
  completion->group("");
  completion->add_option("shell", *given, "which")->required()->check(one_of({"bash", "zsh"}));
  completion->callback(
      [&app, given] { fmt::print("{}", *given == "bash" ? bash_completion(app) : zsh_completion(app)); });
}

}  // namespace lamina::app
