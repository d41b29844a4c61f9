#pragma once

#include <condition_variable>
#include <mutex>

#include "support/networks.h"

namespace lamina::test {

/// Holds the plans that run until it is opened.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    change_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++inside_;
    change_.notify_all();
    change_.wait(lock, [&] { return open_; });
  }
  /// Waits until so many have come.
  void await(int inside) {
    std::unique_lock lock(mutex_);
    change_.wait(lock, [&] { return inside_ >= inside; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  int inside_ = 0;
  bool open_ = false;
};

inline Graph gated_network(Gate& gate) {
  return meddled_network([&gate](const Tensor&) { gate.pass(); });
}

}  // namespace lamina::test
