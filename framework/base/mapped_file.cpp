#include "lamina/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "lamina/base/error.h"

namespace lamina::detail {
namespace {

/// Closes a file descriptor at the end of a scope.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

[[noreturn]] void fail_with(const std::string& path, int error) {
  fail(kind_of(error), "cannot read ", path, ": ", words_of(error, path));
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer before it can be refused.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) fail_with(path, errno);
  struct stat info {};
  if (::fstat(file.value, &info) != 0) fail_with(path, errno);
  if (S_ISDIR(info.st_mode)) fail_with(path, EISDIR);
  if (!S_ISREG(info.st_mode)) fail(ErrorKind::file_access, "cannot read ", path, ": expected a regular file");
  if (info.st_size == 0) fail("cannot read ", path, ": the file is empty");

  const auto size = static_cast<std::size_t>(info.st_size);
  // Writable but private: tensors hand out non-const pointers, and a stray write must not reach the file.
  // MAP_NORESERVE: the kernel need not set memory aside for copies of pages that nobody means to write.
  void* address = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.value, 0);
  if (address == MAP_FAILED) fail_with(path, errno);
  return std::shared_ptr<const MappedFile>(new MappedFile(path, {static_cast<std::byte*>(address), size}, false));
}

std::shared_ptr<const MappedFile> MappedFile::copy(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.empty()) fail("cannot read ", name, ": expected the bytes of a file, got none");
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  void* address = ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, flags, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  std::memcpy(address, bytes.data(), bytes.size());
  return std::shared_ptr<const MappedFile>(
      new MappedFile(name, {static_cast<std::byte*>(address), bytes.size()}, true));
}

void MappedFile::forget(std::span<const std::byte> part) const {
  if (in_memory_) return;  // there is no file to read it from again
  // Whole pages of it: those at its ends hold what others may use.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto first = static_cast<std::size_t>(part.data() - bytes_.data());
  const std::size_t begin = (first + page - 1) / page * page, end = (first + part.size()) / page * page;
  if (begin < end) (void)::madvise(bytes_.data() + begin, end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() { ::munmap(bytes_.data(), bytes_.size()); }

}  // namespace lamina::detail
