#include "open_file.h"

#include <fmt/core.h>
#include <lamina/lamina.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

namespace lamina::app {
namespace {

#ifdef __APPLE__
constexpr const char* opener = "open";
constexpr bool needs_display = false;
#else
constexpr const char* opener = "xdg-open";
constexpr bool needs_display = true;  // without one it would look for a browser in the terminal
#endif

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != 0;
}

}  // namespace

void open_file(const std::filesystem::path& path) {
  const auto fail = [&](const std::string& why) {
    throw Error(fmt::format("cannot show it as --open asks: {}; open {} yourself", why, path.string()));
  };
  if (needs_display && !is_set("DISPLAY") && !is_set("WAYLAND_DISPLAY")) {
    fail("there is no desktop here (neither DISPLAY nor WAYLAND_DISPLAY is set)");
  }
  const std::string file = std::filesystem::absolute(path).string();  // never like an option
  std::string program = opener;
  char* arguments[] = {program.data(), const_cast<char*>(file.c_str()), nullptr};
  pid_t child = 0;
  if (::posix_spawnp(&child, opener, nullptr, nullptr, arguments, environ) != 0) {
    fail(fmt::format("there is no {} on this machine", opener));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail(fmt::format("{} failed", opener));
}

}  // namespace lamina::app
