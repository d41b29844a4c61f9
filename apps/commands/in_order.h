#pragma once

#include <cstddef>
#include <deque>
#include <future>
#include <system_error>
#include <utility>

namespace lamina::app {

/// Work on many things, several at a time, whose results come in the order in which it was begun.
template <class Result>
class InOrder {
 public:
  explicit InOrder(std::size_t at_once) : at_once_(at_once) {}

  /// What `work` refers to must outlive this object.
  template <class Work>
  void begin(Work work) {
    if (at_once_ > 1) {
      try {
        return under_way_.push_back(std::async(std::launch::async, work));
      } catch (const std::system_error&) {  // no thread to be had: then when its result is asked for
      }
    }
    under_way_.push_back(std::async(std::launch::deferred, std::move(work)));
  }

  bool full() const { return under_way_.size() >= at_once_; }
  bool empty() const { return under_way_.empty(); }

  /// The result of what was begun first, once there is one.
  Result next() {
    Result result = under_way_.front().get();
    under_way_.pop_front();
    return result;
  }

 private:
  std::size_t at_once_;
  std::deque<std::future<Result>> under_way_;
};

}  // namespace lamina::app
