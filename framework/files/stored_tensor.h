#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/base/mapped_file.h"
#include "lamina/tensor/dtype.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// What a weight file says about a tensor. Also describes those that Lamina can list but not use: of a dtype that
/// DType has not, or of more dimensions than a Shape holds.
struct TensorInfo {
  std::string name;
  std::string dtype;                // "f32", "bf16", "f8_e4m3", ...
  std::vector<std::int64_t> shape;  // outermost first
  std::uint64_t bytes = 0;          // of the elements, packed
};

namespace detail {

/// What a container says the bytes of one of its entries sum up to; compared when a tensor in them is first read.
class Checksum {
 public:
  Checksum(std::span<const std::byte> bytes, std::uint32_t crc, std::string entry)
      : bytes_(bytes), crc_(crc), entry_(std::move(entry)) {}

  /// Throws Error, naming the file at `path` and the entry, if they are not what was written. Once is enough.
  void require(const std::string& path);

 private:
  std::span<const std::byte> bytes_;
  std::uint32_t crc_;
  std::string entry_;
  std::atomic<bool> checked_{false};
};

/// A tensor where it lies in a mapped file: described and checked against the file's bounds, not yet read.
struct StoredTensor {
  TensorInfo info;
  std::optional<DType> dtype;                    // none: listed only
  std::vector<std::int64_t> strides;             // in elements, one per dimension; none: row-major
  bool swap_bytes = false;                       // the file's byte order is not this machine's
  std::byte* data = nullptr;                     // the first element; of any alignment
  std::uint64_t total = 0;                       // bytes of this tensor and of those before it in the file, packed
  std::shared_ptr<Checksum> checksum = nullptr;  // of the entry it lies in; null: the format has none
};

/// What every reader of a file format gives.
struct StoredTensors {
  std::shared_ptr<const MappedFile> file;
  std::vector<StoredTensor> tensors;            // in the file's order
  std::map<std::string, std::string> metadata;  // empty where the format has none
  std::vector<std::string> notes;               // what was chosen and left out: see Weights::notes
};

/// Throws Error, naming the file, for a tensor that can only be listed.
void require_usable(const StoredTensor& stored, const MappedFile& file);

/// A view of the file where the elements lie as a Tensor wants them (row-major, aligned, in this machine's byte
/// order), else a copy. Throws Error for tensors that can only be listed.
Tensor read_tensor(const StoredTensor& stored, const std::shared_ptr<const MappedFile>& file);

/// Product of extents that are 0 or more; nothing if those that are not 0 overflow 64 bits together.
std::optional<std::uint64_t> checked_numel(std::span<const std::int64_t> shape);

/// "[3, 4]", of any rank.
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace detail
}  // namespace lamina
