#include "commands/interrupt.h"

#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <string_view>

#include "complain.h"

namespace lamina::app {
namespace {

volatile std::sig_atomic_t was_asked = 0;

void note(int) {
  was_asked = 1;
  constexpr std::string_view text = "\nstops after the photographs under way; Ctrl-C again ends at once\n";
  if (isatty(STDERR_FILENO) != 0) (void)!::write(STDERR_FILENO, text.data(), text.size());
}

void handle(void (*handler)(int), int flags) {
  struct sigaction old = {}, now = {};
  now.sa_handler = handler;
  now.sa_flags = flags;
  if (sigaction(SIGINT, nullptr, &old) == 0 && old.sa_handler != SIG_IGN) sigaction(SIGINT, &now, nullptr);
}

}  // namespace

Interruptible::Interruptible(std::size_t photographs) {
  if (photographs > 1) handle(note, static_cast<int>(SA_RESETHAND | SA_RESTART));
}
Interruptible::~Interruptible() { handle(SIG_DFL, 0); }

bool Interruptible::asked() { return was_asked != 0; }

bool Interruptible::report(std::size_t done, std::size_t all) {
  if (asked()) complain(fmt::format("stopped by Ctrl-C: {} of {} photographs are done", done, all));
  return asked();
}

void Interruptible::finish() {
  if (!asked()) return;
  (void)std::signal(SIGINT, SIG_DFL);
  (void)std::raise(SIGINT);
}

}  // namespace lamina::app
