// Protocol buffers, of which .onnx files are made, without their schema: a message is a list of fields, and a field of
// bytes may be a message itself. One field somewhere in the tree is changed, removed or repeated.

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "fuzz/mutators.h"

namespace lamina::fuzz {
namespace {

using Buffer = std::vector<std::uint8_t>;

struct Field {
  Buffer key;
  bool bytes = false;  // a length and so many bytes
  Buffer value;        // without the length
};

std::optional<std::uint64_t> take_varint(Bytes& rest) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const std::uint8_t byte = rest[0];
    rest = rest.subspan(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

void put_varint(Buffer& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 0x80));
  out.push_back(static_cast<std::uint8_t>(value));
}

/// Nothing if these bytes are no message.
std::optional<std::vector<Field>> fields_of(Bytes rest) {
  std::vector<Field> fields;
  while (!rest.empty()) {
    const Bytes begin = rest;
    const auto key = take_varint(rest);
    if (!key || *key >> 3 == 0) return std::nullopt;
    Field field;
    field.key.assign(begin.begin(), begin.end() - static_cast<std::ptrdiff_t>(rest.size()));
    std::size_t size = 0;
    switch (*key & 7) {
      case 0: {
        Bytes after = rest;
        if (!take_varint(after)) return std::nullopt;
        size = rest.size() - after.size();
        break;
      }
      case 1: size = 8; break;
      case 5: size = 4; break;
      case 2: {
        const auto length = take_varint(rest);
        if (!length || *length > rest.size()) return std::nullopt;
        size = static_cast<std::size_t>(*length);
        field.bytes = true;
        break;
      }
      default: return std::nullopt;
    }
    if (size > rest.size()) return std::nullopt;
    field.value.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(size));
    rest = rest.subspan(size);
    fields.push_back(std::move(field));
  }
  return fields;
}

Buffer joined(const std::vector<Field>& fields) {
  Buffer out;
  for (const Field& field : fields) {
    out.insert(out.end(), field.key.begin(), field.key.end());
    if (field.bytes) put_varint(out, field.value.size());
    out.insert(out.end(), field.value.begin(), field.value.end());
  }
  return out;
}

void mutate_bytes(Buffer& bytes, std::size_t growth) {
  const std::size_t size = bytes.size();
  if (size + growth == 0) return;
  bytes.resize(size + growth);
  bytes.resize(LLVMFuzzerMutate(bytes.data(), size, bytes.size()));
}

void mutate_fields(std::vector<Field>& fields, std::mt19937& random, std::size_t growth) {
  const auto below = [&](std::size_t n) { return random() % n; };
  Field& field = fields[below(fields.size())];
  auto inner = field.bytes ? fields_of(field.value) : std::nullopt;
  if (inner && !inner->empty() && below(8) != 0) {
    mutate_fields(*inner, random, growth);
    field.value = joined(*inner);
    return;
  }
  const auto place = fields.begin() + (&field - fields.data());
  switch (below(8)) {
    case 0: fields.erase(place); return;
    case 1: {
      const Field copy = field;
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(below(fields.size() + 1)), copy);
      return;
    }
    case 2: std::swap(field, fields[below(fields.size())]); return;
    case 3: field.value = fields[below(fields.size())].value; return;
    default: mutate_bytes(field.value, field.bytes ? growth : 0);
  }
}

}  // namespace

std::size_t mutate_message(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  auto fields = fields_of({data, size});
  if (!fields || fields->empty()) return LLVMFuzzerMutate(data, size, most);
  std::mt19937 random(seed);
  mutate_fields(*fields, random, std::min<std::size_t>(64, most - std::min(most, size)));
  const Buffer result = joined(*fields);
  if (result.empty() || result.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(result.begin(), result.end(), data);
  return result.size();
}

}  // namespace lamina::fuzz
