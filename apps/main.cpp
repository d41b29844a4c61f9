#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <lamina/lamina.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "commands/commands.h"
#include "commands/interrupt.h"
#include "complain.h"
#include "help.h"
#include "outputs.h"

using namespace lamina::app;

namespace {

/// A standard stream that was closed would give its number to the next file opened, and what is printed would go there.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest number that is free. Answers cannot be printed to what is open for reading, and so are not lost
    // unsaid.
    if (::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

/// Who reads has had enough, as `| head -1`.
bool nobody_reads() {
  pollfd pipe = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&pipe, 1, 0) > 0 && (pipe.revents & POLLERR) != 0;
}

/// Whether all that was printed has arrived, and is not lost on a full disk; says so if not.
bool output_arrived() {
  const bool failed = std::ferror(stdout) != 0;
  if (!failed) errno = 0;  // of something else
  if ((std::fflush(stdout) == 0 && !failed) || nobody_reads()) return true;
  complain(fmt::format("cannot write to stdout: {}", errno == 0 ? "some of it was lost" : std::strerror(errno)));
  return false;
}

/// "help" and "version" as people type them: lamina help classify -> lamina classify --help.
std::vector<char*> usual_words(int argc, char** argv) {
  static char help[] = "--help", version[] = "--version";
  std::vector<char*> arguments(argv, argv + argc);
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (word == "version") arguments[1] = version;
  if (word == "help" || ((word == "-h" || word == "--help") && argc > 2)) {
    arguments.erase(arguments.begin() + 1);
    const std::string_view about = arguments.size() > 1 ? arguments[1] : "";
    if (about == "help" || about == "version") arguments.pop_back();  // which have no help of their own
    arguments.push_back(help);
  }
  return arguments;
}

/// No command begins that would write over what it reads.
void guard_outputs(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    command->parse_complete_callback([command] { require_outputs_apart(*command); });
    guard_outputs(*command);
  }
}

int run_command(int argc, char** argv) {
  CLI::App app("Lamina runs convolutional networks on photographs.", "lamina");
  app.formatter(std::make_shared<HelpFormatter>());  // before the commands, which inherit it
  app.option_defaults()->always_capture_default();   // which the commands inherit too
  app.set_help_all_flag("--help-all", "all options, and those that few need");
  app.set_version_flag("--version", std::string("lamina ") + std::string(lamina::version()));
  app.require_subcommand(1);
  app.footer(
      "lamina COMMAND --help shows the options of a command and an example. lamina completion bash (or zsh) prints "
      "what completes a command line, and lamina manual FOLDER writes manual pages.\n"
      "Exit codes: 0 success, 1 the run failed, 2 the command line is wrong.");
  const auto& [detect, quantize, serve] = rooms;
  for (const auto add : {add_features, add_classify, add_segment, detect.add, add_run, add_verify, add_inspect,
                         add_convert, quantize.add, add_bench, add_doctor, serve.add, add_manual}) {
    if (add != nullptr) add(app);
  }
  guard_outputs(app);

  if (argc == 1) {
    fmt::print(stderr, "{}", app.help());
    return exit_misuse;
  }
  const std::span<char* const> arguments(argv + 1, argv + argc);
  const auto usage_error = [&](const std::string& problem) {
    const bool left_out = problem.starts_with("this build has no ");
    complain(problem +
             (left_out ? "" : fmt::format(" ({} --help shows how it is used)", command_line(app, arguments))));
    return exit_misuse;
  };
  try {
    if (const std::string problem = misspelling(app, arguments); !problem.empty()) {
      return usage_error(problem);
    }
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return usage_error(problem_of(error, app, arguments));
  } catch (const Failed&) {
    return exit_failed;
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return exit_failed;
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return nobody_reads() ? 0 : exit_failed;  // of which main says what happened
    complain(error.what());
    return is_misuse(error.what()) ? exit_misuse : exit_failed;
  }
}

}  // namespace

int lamina::app::command(int argc, char** argv) {
  keep_standard_streams();
  (void)std::atexit(Interruptible::finish);  // after what is registered later: files of the process are removed
  std::signal(SIGPIPE, SIG_IGN);             // a closed pipe ends what is printed, and no connection of serve
  std::signal(SIGXFSZ, SIG_IGN);             // so is a file that grows beyond `ulimit -f`
  std::vector<char*> arguments = usual_words(argc, argv);
  const int code = run_command(static_cast<int>(arguments.size()), arguments.data());
  return output_arrived() ? code : exit_failed;
}

int main(int argc, char** argv) { return lamina::app::command(argc, argv); }
