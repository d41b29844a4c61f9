#include "lamina/onnx/file/decode_tensor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/names.h"
#include "lamina/files/stored_tensor.h"
#include "lamina/onnx/file/wire.h"
#include "lamina/ops/element_type.h"
#include "lamina/tensor/visit.h"

namespace lamina::detail::onnx {
namespace {

void decode_external(std::span<std::byte> bytes, const Place& place, TensorProto& tensor) {
  std::string key, value;
  read(bytes, place, into(1, key), into(2, value));
  if (key == "location") tensor.location = value;
  if (key == "offset") tensor.offset = value;
  if (key == "length") tensor.length = value;
}

/// Elements of the typed field that `message` stands at, counted without being kept.
std::uint64_t count_elements(Message& message) {
  const int field = static_cast<int>(message.field());
  if (!message.packed() || field == 6) return 1;
  const std::span<std::byte> bytes = message.bytes();
  if (field == 4 || field == 10) {
    const std::size_t size = field == 4 ? 4 : 8;
    if (bytes.size() % size != 0) message.refuse("expected a whole number of elements");
    return bytes.size() / size;
  }
  // A varint's last byte is the one whose high bit is clear.
  return static_cast<std::uint64_t>(std::ranges::count_if(bytes, [](std::byte b) { return b < std::byte{0x80}; }));
}

[[noreturn]] void refuse(const TensorProto& tensor, const Place& place, const std::string& why) {
  fail(place.text(), ": tensor ", quote(tensor.name), ": ", why);
}

/// What can be told of a tensor of a dtype that Lamina has without reading it.
void check(const TensorProto& tensor, const Place& place) {
  if (std::ranges::any_of(tensor.dims, [](std::int64_t extent) { return extent < 0; })) {
    refuse(tensor, place, concat("expected extents of 0 or more, got ", shape_text(tensor.dims)));
  }
  const auto numel = checked_numel(tensor.dims);
  if (!numel) refuse(tensor, place, concat("the extents ", shape_text(tensor.dims), " overflow 64 bits"));
  const ElementType* type = find_element_type(tensor.data_type);
  if (type == nullptr) refuse(tensor, place, concat("unknown data_type ", tensor.data_type));
  if (!type->dtype || tensor.external || tensor.segment) return;  // refused or checked when it is used
  const auto bytes = checked_mul(*numel, std::uint64_t{size_of(*type->dtype)});
  if (!bytes) refuse(tensor, place, concat("the extents ", shape_text(tensor.dims), " overflow 64 bits"));
  if (tensor.data_field == raw_data) {
    if (tensor.raw.size() != *bytes) {
      refuse(tensor, place,
             concat("expected ", *bytes, " bytes of raw_data for ", type->name, ' ', shape_text(tensor.dims), ", got ",
                    tensor.raw.size()));
    }
    return;
  }
  if (tensor.data_field != 0 && tensor.data_field != type->field) {
    refuse(tensor, place,
           concat("expected the elements of ", type->name, " in field ", type->field, " or in raw_data, got field ",
                  tensor.data_field));
  }
  if (tensor.data_elements != *numel) {
    refuse(tensor, place,
           concat("expected ", *numel, " elements for ", shape_text(tensor.dims), ", got ", tensor.data_elements));
  }
}

/// Puts values that the wire holds as whole numbers where T's stand.
template <class T>
class Sink {
 public:
  Sink(const TensorProto& tensor, std::span<std::byte> out, const std::string& path)
      : tensor_(tensor), out_(out), path_(path) {}

  void put(std::int64_t value) {
    if constexpr (std::is_same_v<T, bool>) {
      store(value != 0);
    } else if constexpr (std::is_same_v<T, std::uint64_t> || std::is_same_v<T, std::int64_t>) {
      store(static_cast<T>(value));
    } else {
      constexpr auto least = static_cast<std::int64_t>(std::numeric_limits<T>::min());
      constexpr auto most = static_cast<std::int64_t>(std::numeric_limits<T>::max());
      if (value < least || value > most) {
        fail(path_, ": tensor ", quote(tensor_.name), ": expected values from ", least, " to ", most, ", got ", value);
      }
      store(static_cast<T>(value));
    }
  }
  void store(T value) {
    // Counted when the file was opened; another process may have written to it since.
    if (out_.size() < sizeof value)
      fail(path_, ": tensor ", quote(tensor_.name), ": the file changed while it was read");
    std::memcpy(out_.data(), &value, sizeof value);
    out_ = out_.subspan(sizeof value);
  }

 private:
  const TensorProto& tensor_;
  std::span<std::byte> out_;
  const std::string& path_;
};

template <class T>
void decode_as(const TensorProto& tensor, std::span<std::byte> out, const std::string& path) {
  Source source{path, 1, 1};
  const Place file{source, nullptr, ""}, place{source, &file, "tensor"};
  Sink<T> sink(tensor, out, path);
  Message message(tensor.encoded, place);
  while (message.next()) {
    if (static_cast<int>(message.field()) != tensor.data_field) continue;
    if constexpr (std::is_floating_point_v<T>) {
      each_number<T>(message, [&](T value) { sink.store(value); });
    } else {
      each_integer(message, [&](std::int64_t value) { sink.put(value); });
    }
  }
}

}  // namespace

TensorProto decode_tensor(std::span<std::byte> bytes, const Place& place) {
  TensorProto tensor;
  tensor.encoded = bytes;
  Message message(bytes, place);
  while (message.next()) {
    const int field = static_cast<int>(message.field());
    switch (field) {
      case 1: each_integer(message, [&](std::int64_t extent) { tensor.dims.push_back(extent); }); break;
      case 2: tensor.data_type = message.integer32(); break;
      case 3: tensor.segment = true; break;
      case 4:
      case 5:
      case 6:
      case 7:
      case raw_data:
      case 10:
      case 11: {
        std::uint64_t elements = 0;
        if (field == raw_data) {
          tensor.raw = message.bytes();
        } else {
          elements = count_elements(message);
        }
        // Empty fields are as good as none: some writers write them all.
        if (field == raw_data ? tensor.raw.empty() : elements == 0) break;
        if (tensor.data_field != 0 && tensor.data_field != field) {
          refuse(tensor, place, concat("its elements are in two fields, ", tensor.data_field, " and ", field));
        }
        tensor.data_field = field;
        tensor.data_elements += elements;
        break;
      }
      case 8: tensor.name = message.text(); break;
      case 13: decode_external(message.bytes(), {place.source, &place, "external_data"}, tensor); break;
      case 14: tensor.external = message.integer() == 1; break;
    }
  }
  check(tensor, place);
  return tensor;
}

void decode_elements(const TensorProto& tensor, std::span<std::byte> out, const std::string& path) {
  visit(*find_element_type(tensor.data_type)->dtype, [&]<class T>(std::type_identity<T>) {
    constexpr bool as_bits = std::is_same_v<T, half> || std::is_same_v<T, bfloat16>;
    decode_as<std::conditional_t<as_bits, std::uint16_t, T>>(tensor, out, path);
  });
}

}  // namespace lamina::detail::onnx
