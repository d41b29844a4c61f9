#pragma once

#include <cstddef>

namespace lamina::app {

/// While one is there for several photographs, Ctrl-C only asks to stop: whoever goes through them ends after those
/// under way, and reports what was done. A second one ends the process at once. Where Ctrl-C is ignored it stays so.
class Interruptible {
 public:
  explicit Interruptible(std::size_t photographs);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// Whether that was asked, since the process began.
  static bool asked();
  /// Says how many of all are done, if so. Returns whether.
  static bool report(std::size_t done, std::size_t all);
  /// To be called at the end of the process: it then ends by the signal, as scripts that run it expect.
  static void finish();
};

}  // namespace lamina::app
