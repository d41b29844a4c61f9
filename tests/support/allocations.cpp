// Replaces malloc and what belongs to it, through which operator new and the C libraries inside allocate too; under
// sanitizers, which have a malloc of their own, operator new alone.

#include "support/allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr long never = std::numeric_limits<long>::max();
std::atomic<long> countdown{never};  // the allocations before the one that fails
std::atomic<bool> all_after{false}, failed{false};
std::atomic<long> live{0}, begun{0}, asked{0};  // asked: bytes

/// Asked before each allocation.
bool fails(std::size_t size) {
  begun.fetch_add(1, std::memory_order_relaxed);
  asked.fetch_add(static_cast<long>(size), std::memory_order_relaxed);
  if (countdown.load(std::memory_order_relaxed) == never) return false;
  const long before = countdown.fetch_sub(1);
  const bool now = before == 0 || (before < 0 && all_after);
  if (now) failed = true;
  return now;
}

}  // namespace

namespace lamina::test {

FailingAllocation::FailingAllocation(long first, bool others_too) {
  failed = false;
  all_after = others_too;
  countdown = first;
}

FailingAllocation::~FailingAllocation() { countdown = never; }

bool FailingAllocation::happened() const { return failed; }

long live_allocations() { return live; }
long allocations() { return begun; }
long allocated_bytes() { return asked; }

}  // namespace lamina::test

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)

namespace {

void* allocate(std::size_t size, std::size_t alignment) {
  void* memory = nullptr;
  if (!fails(size)) memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size == 0 ? 1 : size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<std::size_t>(alignment));
}
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

#else

extern "C" {

void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
void __libc_free(void* memory);

static void* counted(void* memory) {
  if (memory != nullptr) ++live;
  return memory;
}

static void* refused() {
  errno = ENOMEM;
  return nullptr;
}

void* malloc(std::size_t size) { return fails(size) ? refused() : counted(__libc_malloc(size)); }

void* calloc(std::size_t count, std::size_t size) {
  return fails(count * size) ? refused() : counted(__libc_calloc(count, size));
}

void* realloc(void* memory, std::size_t size) {
  if (fails(size)) return refused();
  void* result = __libc_realloc(memory, size);
  if (memory == nullptr) return counted(result);
  if (result == nullptr && size == 0) --live;
  return result;
}

void* memalign(std::size_t alignment, std::size_t size) {
  return fails(size) ? refused() : counted(__libc_memalign(alignment, size));
}

void* aligned_alloc(std::size_t alignment, std::size_t size) { return memalign(alignment, size); }

int posix_memalign(void** memory, std::size_t alignment, std::size_t size) {
  void* result = memalign(alignment, size);
  if (result == nullptr) return ENOMEM;
  *memory = result;
  return 0;
}

void free(void* memory) {
  if (memory == nullptr) return;
  --live;
  __libc_free(memory);
}

}  // extern "C"

#endif
