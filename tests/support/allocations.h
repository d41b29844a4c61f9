#pragma once

namespace lamina::test {

/// While one lives, the allocation of number `first` from its beginning, counted from 0 and in whatever thread, fails;
/// and if `others_too`, all that follow. Linking allocations.cpp makes it so, and counts.
class FailingAllocation {
 public:
  explicit FailingAllocation(long first, bool others_too = false);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  /// Whether there were as many.
  bool happened() const;
};

/// Blocks that were allocated and not freed. 0 where a sanitizer watches for leaks itself.
long live_allocations();

/// How often this test program has allocated, in any thread.
long allocations();
/// How many bytes it has asked for.
long allocated_bytes();

}  // namespace lamina::test
