#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

namespace lamina::app {

/// Threads for what waits, as many as have something to do, up to a number; they stay a while for the next.
class Workers {
 public:
  explicit Workers(std::size_t max_threads) : max_threads_(max_threads) {}
  /// Waits until all that was begun has ended.
  ~Workers() {
    std::unique_lock lock(mutex_);
    ending_ = true;
    came_.notify_all();
    ended_.wait(lock, [&] { return threads_ == 0; });
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs it on one of the threads, when one is free. It must not throw.
  void run(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    if (idle_ >= queue_.size() || threads_ == max_threads_) return came_.notify_one();
    try {
      std::thread([this] { serve(); }).detach();
      ++threads_;
    } catch (const std::system_error&) {
      if (threads_ == 0) throw;  // else as many as there are to be had
      came_.notify_one();
    }
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      const bool found =
          came_.wait_for(lock, std::chrono::seconds(10), [&] { return ending_ || !queue_.empty(); }) && !queue_.empty();
      --idle_;
      if (!found) break;
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
    --threads_;
    ended_.notify_all();
  }

  const std::size_t max_threads_;
  std::mutex mutex_;
  std::condition_variable came_, ended_;
  std::deque<std::function<void()>> queue_;
  std::size_t idle_ = 0, threads_ = 0;
  bool ending_ = false;
};

}  // namespace lamina::app
