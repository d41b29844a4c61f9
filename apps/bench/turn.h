#pragma once

#include <string>

namespace lamina::app {

/// Holds the lock of a file as long as it lives: processes that time on one device take turns, and load and compile
/// beside each other. An empty path holds nothing. Throws Error if the file cannot be opened or locked.
class Turn {
 public:
  explicit Turn(const std::string& path);
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_ = -1;
};

}  // namespace lamina::app
