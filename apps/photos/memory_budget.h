#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace lamina::app {

/// Memory that several threads share out among them. Who asks for a Share of more than is left waits, who asks for more
/// of a Claim is told no.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t bytes) : whole_(bytes), left_(bytes) {}

  std::uint64_t whole() const { return whole_; }

  /// A part of the budget, given back at the end of a scope. No more than the whole of it may be asked for.
  class Share {
   public:
    Share(MemoryBudget& budget, std::uint64_t bytes) : budget_(budget), bytes_(bytes) {
      std::unique_lock lock(budget_.mutex_);
      budget_.returned_.wait(lock, [&] { return budget_.left_ >= bytes_; });
      budget_.left_ -= bytes_;
    }
    ~Share() {
      {
        const std::lock_guard lock(budget_.mutex_);
        budget_.left_ += bytes_;
      }
      budget_.returned_.notify_all();
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    MemoryBudget& budget_;
    std::uint64_t bytes_;
  };

  /// A part of the budget that grows, and is given back at the end of a scope. For one thread at a time.
  class Claim {
   public:
    explicit Claim(MemoryBudget& budget) : budget_(&budget) {}
    ~Claim() { release(); }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

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
