#include "lamina/files/stored_tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "lamina/base/crc32.h"
#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/names.h"
#include "lamina/tensor/words.h"

namespace lamina::detail {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian; big-endian hosts need a swap here");

// Strides of 0, and tensors that share a storage, let a few bytes of file stand for any number of elements. All tensors
// of a file together may be this many times its size or this many bytes, whichever is more: enough for every honest
// use, too little to exhaust a machine.
constexpr std::uint64_t largest_growth = 4;
constexpr std::uint64_t always_allowed = std::uint64_t{64} << 20;

bool is_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  std::int64_t expected = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

template <class Word>
void gather_words(const StoredTensor& stored, std::byte* out) {
  // Extents of 1 are left out: they are never stepped along, and their strides may be anything.
  struct Axis {
    std::int64_t extent, step, index;
  };
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < stored.info.shape.size(); ++i) {
    if (stored.info.shape[i] != 1) {
      axes.push_back({stored.info.shape[i], stored.strides[i] * static_cast<std::int64_t>(sizeof(Word)), 0});
    }
  }
  std::int64_t offset = 0;  // in bytes from the first element
  for (;;) {
    std::memcpy(out, stored.data + offset, sizeof(Word));  // the source may be misaligned
    out += sizeof(Word);
    std::size_t i = axes.size();
    for (;;) {  // counts up by one, like an odometer
      if (i == 0) return;
      Axis& axis = axes[--i];
      offset += axis.step;
      if (++axis.index < axis.extent) break;
      offset -= axis.step * axis.extent;
      axis.index = 0;
    }
  }
}

[[noreturn]] void refuse(const StoredTensor& stored, const MappedFile& file, const std::string& why) {
  fail(file.path(), ": tensor ", quote(stored.info.name), " cannot be used: ", why);
}

bool is_aligned(const std::byte* data, std::size_t element) {
  return reinterpret_cast<std::uintptr_t>(data) % element == 0;
}

bool all_zero_or_one(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b <= std::byte{1}; });
}

}  // namespace

void Checksum::require(const std::string& path) {
  if (checked_) return;
  const std::uint32_t found = crc32(bytes_);
  if (found != crc_) {
    fail(path, ": the file is damaged: entry ", quote(entry_), " does not match its checksum; get it again");
  }
  checked_ = true;
}

void require_usable(const StoredTensor& stored, const MappedFile& file) {
  if (!stored.dtype) refuse(stored, file, concat("Lamina has no dtype ", stored.info.dtype));
  if (stored.info.shape.size() > Shape::max_rank) {
    refuse(stored, file,
           concat("expected at most ", Shape::max_rank, " dimensions, got ", stored.info.shape.size(), ' ',
                  shape_text(stored.info.shape)));
  }
  const std::uint64_t total = std::max(stored.total, stored.info.bytes), size = file.bytes().size();
  if (total / largest_growth > size && total > always_allowed) {
    refuse(stored, file,
           concat("the tensors up to it repeat elements to ", total, " bytes, more than ", largest_growth,
                  " times the file's ", size));
  }
}

Tensor read_tensor(const StoredTensor& stored, const std::shared_ptr<const MappedFile>& file) {
  require_usable(stored, *file);
  if (stored.checksum != nullptr) stored.checksum->require(file->path());
  const Shape shape{std::span<const std::int64_t>(stored.info.shape)};
  const DType dtype = *stored.dtype;
  const std::size_t element = size_of(dtype);
  const auto size = static_cast<std::size_t>(stored.info.bytes);
  if (size == 0) return Tensor(shape, dtype);

  const bool packed = is_row_major(stored.info.shape, stored.strides);
  // A C++ bool may only be 0 or 1; a file's may be any byte.
  const bool valid = dtype != DType::boolean || (packed && all_zero_or_one({stored.data, size}));
  if (packed && valid && !stored.swap_bytes && is_aligned(stored.data, element)) {
    return Tensor::borrow(stored.data, shape, dtype, Device::cpu(), std::const_pointer_cast<MappedFile>(file));
  }

  Tensor copy(shape, dtype);
  const auto bytes = std::span(static_cast<std::byte*>(copy.raw()), size);
  if (packed) {
    std::memcpy(bytes.data(), stored.data, size);
  } else {
    with_word(element, [&]<class Word>(Word) { gather_words<Word>(stored, bytes.data()); });
  }
  if (stored.swap_bytes) {
    for (std::size_t i = 0; i < size; i += element) {
      std::reverse(bytes.data() + i, bytes.data() + i + element);
    }
  }
  if (dtype == DType::boolean) {
    for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  return copy;
}

std::optional<std::uint64_t> checked_numel(std::span<const std::int64_t> shape) {
  std::optional<std::uint64_t> product = 1;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent == 0) {
      empty = true;
    } else {
      product = checked_mul(*product, static_cast<std::uint64_t>(extent));
      if (!product) return std::nullopt;
    }
  }
  return empty ? 0 : product;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  constexpr std::size_t max_shown = 32;
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(shape.size(), max_shown); ++i) {
    text += concat(i == 0 ? "" : ", ", shape[i]);
  }
  return text += shape.size() > max_shown ? ", ...]" : "]";
}

}  // namespace lamina::detail
