#include <fmt/core.h>

#include <lamina/lamina.h>

#include "commands/commands.h"
#include "help.h"

namespace {

constexpr int exit_failed = 1;
constexpr int exit_usage = 2;

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Lamina runs convolutional networks on photographs.", "lamina");
  app.formatter(std::make_shared<lamina::app::HelpFormatter>());  // before the commands, which inherit it
  app.set_version_flag("--version", std::string("lamina ") + std::string(lamina::version()));
  app.require_subcommand(1);
  app.footer(
      "lamina COMMAND --help shows the options of a command and an example.\n"
      "Exit codes: 0 success, 1 the run failed, 2 the command line is wrong.");
  lamina::app::add_features(app);
  lamina::app::add_classify(app);
  lamina::app::add_run(app);
  lamina::app::add_verify(app);
  lamina::app::add_inspect(app);
  lamina::app::add_convert(app);
  lamina::app::add_bench(app);
  lamina::app::add_doctor(app);

  if (argc == 1) {
    fmt::print(stderr, "{}", app.help());
    return exit_usage;
  }
  const std::span<char* const> arguments(argv + 1, argv + argc);
  const auto usage_error = [&](const std::string& problem) {
    fmt::print(stderr, "lamina: {} ({} --help shows how it is used)\n", problem,
               lamina::app::command_line(app, arguments));
    return exit_usage;
  };
  try {
    if (const std::string problem = lamina::app::misspelling(app, arguments); !problem.empty()) {
      return usage_error(problem);
    }
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  } catch (const lamina::app::Failed&) {
    return exit_failed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "lamina: {}\n", error.what());
    return exit_failed;
  }
}
