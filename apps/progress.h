#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <string>

namespace lamina::app {

/// A bar on stderr for work of several items; silent for one item and where stderr is no terminal.
class Progress {
 public:
  Progress(std::size_t total, std::string what)
      : total_(total), what_(std::move(what)), visible_(total > 1 && isatty(STDERR_FILENO) != 0) {
    draw();
  }

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() { clear(); }

  void advance(std::size_t items = 1) {
    done_ += items;
    draw();
  }

  /// Takes the bar away, so that ordinary output can be printed in its place.
  void clear() const {
    if (visible_) fmt::print(stderr, "\r\033[K");
  }

 private:
  void draw() const {
    if (!visible_) return;
    constexpr std::size_t width = 30;
    const std::size_t filled = done_ * width / total_;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    const double rate = done_ == 0 ? 0 : static_cast<double>(done_) / passed.count();
    fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}/{} {}, {:.1f}/s", "", filled, "", width - filled, done_, total_, what_,
               rate);
  }

  std::size_t total_;
  std::size_t done_ = 0;
  std::string what_;
  bool visible_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace lamina::app
