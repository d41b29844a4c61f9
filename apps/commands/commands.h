#pragma once

#include <CLI/CLI.hpp>

namespace lamina::app {

/// What `main` does; the Python package, which has the command inside, declares it itself (python/bindings/module.cpp).
int command(int argc, char** argv);

// One function for each subcommand: it adds its options to the command line and what to do when it is chosen.
void add_classify(CLI::App& app);
void add_convert(CLI::App& app);
void add_detect(CLI::App& app);
void add_features(CLI::App& app);
void add_quantize(CLI::App& app);
void add_run(CLI::App& app);
void add_segment(CLI::App& app);
void add_verify(CLI::App& app);
void add_inspect(CLI::App& app);
void add_bench(CLI::App& app);
/// `bench model`, in the group that is bench.
void add_bench_model(CLI::App& group);
void add_doctor(CLI::App& app);
void add_serve(CLI::App& app);
/// `manual` and `completion`, for who makes packages.
void add_manual(CLI::App& app);

/// A command that a build can leave out: `add` is null in such a build, and `needs` says what another one is made with.
struct Room {
  const char *command, *needs;
  void (*add)(CLI::App&);
};
inline constexpr Room rooms[] = {
#ifdef LAMINA_DETECT
    {"detect", "", add_detect},
#else
    {"detect", "-DLAMINA_DETECT=ON", nullptr},
#endif
#ifdef LAMINA_QUANTIZE
    {"quantize", "", add_quantize},
#else
    {"quantize", "-DLAMINA_QUANTIZE=ON", nullptr},
#endif
#ifdef LAMINA_SERVE
    {"serve", "", add_serve},
#else
    {"serve", "-DLAMINA_SERVE=ON where libboost-dev and zlib1g-dev are", nullptr},
#endif
};

/// A subcommand that runs `run` with options of its own, which it returns too.
template <class Argument>
auto add_command(CLI::App& app, const char* name, const char* says, void (*run)(Argument)) {
  auto options = std::make_shared<std::remove_cvref_t<Argument>>();
  CLI::App* const command = app.add_subcommand(name, says);
  command->callback([options, run] { run(*options); });
  return std::pair(command, options);
}

/// Thrown after everything was reported, when the command did run but what it found was bad: exit code 1, no message.
struct Failed {};

}  // namespace lamina::app
