#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace lamina::app {

/// Memory that several threads share out among them. Who asks for more than is left waits, or is told no.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t bytes) : whole_(bytes), left_(bytes) {}

  std::uint64_t whole() const { return whole_; }

  /// A part of the budget that grows, and is given back at the end of a scope. For one thread at a time.
  class Claim {
   public:
    explicit Claim(MemoryBudget& budget) : budget_(&budget) {}
    ~Claim() { release(); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

    /// Waits until there are so many bytes more, of which there must be no more than the whole.
    void wait_for(std::uint64_t bytes) {
      std::unique_lock lock(budget_->mutex_);
      budget_->returned_.wait(lock, [&] { return budget_->left_ >= bytes; });
      budget_->left_ -= bytes;
      bytes_ += bytes;
    }
    /// Whether there were so many bytes more.
    bool grow(std::uint64_t bytes) {
      const std::lock_guard lock(budget_->mutex_);
      if (budget_->left_ < bytes) return false;
      budget_->left_ -= bytes;
      bytes_ += bytes;
      return true;
    }
    void release() {
      {
        const std::lock_guard lock(budget_->mutex_);
        budget_->left_ += std::exchange(bytes_, 0);
      }
      budget_->returned_.notify_all();
    }

   private:
    MemoryBudget* budget_;
    std::uint64_t bytes_ = 0;
  };

 private:
  std::uint64_t whole_, left_;
  std::mutex mutex_;
  std::condition_variable returned_;
};

}  // namespace lamina::app
