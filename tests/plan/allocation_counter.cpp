// Replaces the global operator new by one that counts. In a file of its own, so that the compiler does not look through
// it and take the pairs of new and free for mistakes.

#include "plan/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> count{0};

void* counted(void* memory) {
  ++count;
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

long lamina::test::allocations() { return count; }

void* operator new(std::size_t size) { return counted(std::malloc(size == 0 ? 1 : size)); }

void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(step, (size + step - 1) / step * step));
}

// Sanitizers have nothrow forms of their own, which would not go with the delete below.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept try {
  return ::operator new(size);
} catch (const std::bad_alloc&) {
  return nullptr;
}

void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept try {
  return ::operator new(size, alignment);
} catch (const std::bad_alloc&) {
  return nullptr;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
