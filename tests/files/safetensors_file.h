#pragma once

#include <cstdint>
#include <string>

#include "lamina/files/weights.h"
#include "support/file_test.h"

/// Writes safetensors files by hand, so that tests can write wrong ones.
namespace lamina::test {

inline std::string safetensors_file(const std::string& header, const std::string& data = {}) {
  return raw(std::uint64_t{header.size()}) + header + data;
}

inline std::string safetensors_entry(const std::string& name, const std::string& dtype, const std::string& shape,
                                     const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + '}';
}

/// Opens `bytes` as a file called x.safetensors.
inline Weights open_safetensors(const std::string& bytes) {
  const TemporaryDirectory dir;
  write_file(dir / "x.safetensors", bytes);
  return Weights::open(dir / "x.safetensors");
}

}  // namespace lamina::test
