#include "fuzz/mutators.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "lamina/base/crc32.h"

namespace lamina::fuzz {
namespace {

std::uint32_t crc(const std::uint8_t* data, std::size_t size) {
  return detail::crc32(std::as_bytes(Bytes(data, size)));
}

std::uint32_t little(const std::uint8_t* at, int bytes) {
  std::uint32_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | at[i];
  return value;
}

void put_little(std::uint8_t* at, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) at[i] = static_cast<std::uint8_t>(value >> (8 * i));
}

/// The checksums of a PNG's chunks.
void repair_png(std::uint8_t* data, std::size_t size) {
  for (std::size_t at = 8; at + 12 <= size;) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | data[at + i];
    if (length > size - at - 12) return;
    const std::uint32_t sum = crc(data + at + 4, 4 + length);
    for (std::size_t i = 0; i < 4; ++i) data[at + 8 + length + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}

/// The checksums of a zip's entries, wherever something looks like one's line in the directory.
void repair_zip(std::uint8_t* data, std::size_t size) {
  constexpr std::size_t local_header = 30, directory_entry = 46;
  for (std::size_t at = 0; at + directory_entry <= size; ++at) {
    if (std::memcmp(data + at, "PK\1\2", 4) != 0) continue;
    const std::size_t length = little(data + at + 20, 4), local = little(data + at + 42, 4);
    if (local > size || size - local < local_header) continue;
    const std::size_t begin = local + local_header + little(data + local + 26, 2) + little(data + local + 28, 2);
    if (begin > size || length > size - begin) continue;
    put_little(data + at + 16, crc(data + begin, length));
    put_little(data + local + 14, crc(data + begin, length));
  }
}

/// The header of a safetensors file alone, whose length stands in front of it.
std::size_t mutate_header(std::uint8_t* data, std::size_t size, std::size_t most) {
  std::uint64_t length = 0;
  if (size < sizeof length) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(&length, data, sizeof length);
  const std::size_t begin = sizeof length;
  if (length > size - begin) return LLVMFuzzerMutate(data, size, most);
  const std::vector<std::uint8_t> tail(data + begin + length, data + size);
  length = LLVMFuzzerMutate(data + begin, length, most - begin - tail.size());
  std::memcpy(data, &length, sizeof length);
  std::copy(tail.begin(), tail.end(), data + begin + length);
  return begin + length + tail.size();
}

/// The length of the body of a connection's first request, where six digits have room for it.
void repair_http(std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size), name = "Content-Length: ";
  const std::size_t at = text.find(name), body = text.find("\r\n\r\n");
  if (at == text.npos || body == text.npos || at + name.size() + 6 > body) return;
  std::size_t length = size - body - 4;
  for (std::size_t i = 6; i-- > 0; length /= 10)
    data[at + name.size() + i] = static_cast<std::uint8_t>('0' + length % 10);
}

}  // namespace

std::size_t mutate(std::string_view target, std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  const bool plain = seed % 8 == 0;
  if (!plain && size > 0 && (target == "safetensors" || target == "model")) return mutate_header(data, size, most);
  if (!plain && size > 0 && target == "onnx") return mutate_message(data, size, most, seed);
  const std::size_t changed = LLVMFuzzerMutate(data, size, most);
  if (!plain && target == "png") repair_png(data, changed);
  if (!plain && target == "pth") repair_zip(data, changed);
  if (!plain && seed % 4 != 0 && target == "http") repair_http(data, changed);
  return changed;
}

}  // namespace lamina::fuzz
