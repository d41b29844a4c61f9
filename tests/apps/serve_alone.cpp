// `lamina serve` and nothing else, for the presets that build no command: the sanitizers see the server by its own
// tests.

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "commands/commands.h"
#include "complain.h"

int main(int argc, char** argv) {
  CLI::App app("lamina serve", "serve_alone");
  app.require_subcommand(1);
  lamina::app::add_serve(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    lamina::app::complain(error.what());
    return 1;
  }
}
