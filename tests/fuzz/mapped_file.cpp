// In place of framework/base/mapped_file.cpp: the input is a file without being written to a disk, and every file lies
// in a block of memory of exactly its size, so that the address sanitizer sees what reads past its end.

#include "lamina/base/mapped_file.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/target.h"
#include "lamina/base/error.h"

namespace lamina {
namespace {

fuzz::Bytes input;

std::vector<char> contents(const std::filesystem::path& path) {
  if (path == fuzz::input_path) return {input.begin(), input.end()};
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) detail::fail("cannot read ", path.string(), ": no such file");
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

void fuzz::set_input(Bytes bytes) { input = bytes; }

std::shared_ptr<const detail::MappedFile> detail::MappedFile::open(const std::string& path) {
  const std::vector<char> bytes = contents(path);
  if (bytes.empty()) fail("cannot read ", path, ": the file is empty");
  return copy(std::as_bytes(std::span(bytes)), path);
}

std::shared_ptr<const detail::MappedFile> detail::MappedFile::copy(std::span<const std::byte> bytes,
                                                                   const std::string& path) {
  constexpr std::size_t page = 4096;  // mappings are aligned
  void* memory = nullptr;
  if (::posix_memalign(&memory, page, bytes.size()) != 0) throw std::bad_alloc();
  std::memcpy(memory, bytes.data(), bytes.size());
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, {static_cast<std::byte*>(memory), bytes.size()}, false));
}

void detail::MappedFile::forget(std::span<const std::byte>) const {}  // there is no file to read it from again

detail::MappedFile::~MappedFile() { std::free(bytes_.data()); }

}  // namespace lamina
