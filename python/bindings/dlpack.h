#pragma once

#include <cstdint>

/// The structs of the DLPack protocol, https://dmlc.github.io/dlpack: how array libraries lend each other memory.
namespace lamina::python::dlpack {

enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum TypeCode : std::uint8_t { signed_int = 0, unsigned_int = 1, floating = 2, bfloat = 4, boolean = 6 };

struct Device {
  std::int32_t type;
  std::int32_t index;
};

struct Type {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct Array {
  void* data;
  Device device;
  std::int32_t rank;
  Type type;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: row-major without gaps
  std::uint64_t byte_offset;
};

/// In a capsule called "dltensor".
struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed*);
};

constexpr std::uint64_t read_only = 1;

/// In a capsule called "dltensor_versioned".
struct VersionedManaged {
  struct {
    std::uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(VersionedManaged*);
  std::uint64_t flags;
  Array array;
};

/// The number by which __dlpack__ and __cuda_array_interface__ know a stream: the default one is 1.
inline std::intptr_t stream_number(void* stream) {
  return stream == nullptr ? 1 : reinterpret_cast<std::intptr_t>(stream);
}

}  // namespace lamina::python::dlpack
