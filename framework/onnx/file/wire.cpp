#include "lamina/onnx/file/wire.h"

#include <bit>
#include <limits>
#include <utility>

#include "lamina/base/error.h"

namespace lamina::detail::onnx {
namespace {

using protozero::pbf_wire_type;

static_assert(std::endian::native == std::endian::little, "files are little-endian; big-endian hosts need a swap here");

std::string_view name_of(pbf_wire_type type) {
  switch (type) {
    case pbf_wire_type::varint: return "a whole number";
    case pbf_wire_type::fixed64: return "a number of 8 bytes";
    case pbf_wire_type::length_delimited: return "a text or a message";
    case pbf_wire_type::fixed32: return "a number of 4 bytes";
    default: return "an unknown wire type";
  }
}

[[noreturn]] void refuse_varint(const Place& place) {
  fail(place.text(), ": a number ends in the middle: the file is truncated or damaged");
}

}  // namespace

std::string Place::text() const {
  if (outer == nullptr) return source.path;
  const std::string number = index < 0 ? "" : concat(' ', index);
  return concat(outer->text(), outer->outer == nullptr ? ": " : ", ", what, number);
}

std::uint64_t read_varint(const char*& p, const char* end, const Place& place) {
  try {
    return protozero::decode_varint(&p, end);
  } catch (const protozero::exception&) {
    refuse_varint(place);
  }
}

/// Runs `f`; what protozero throws becomes an Error with the place in front.
template <class F>
auto Message::guarded(const F& f) const {
  try {
    return f();
  } catch (const protozero::end_of_buffer_exception&) {
    fail(place_.text(), ": the message ends in the middle of a field: the file is truncated or damaged");
  } catch (const protozero::varint_too_long_exception&) {
    fail(place_.text(), ": expected a number of at most 10 bytes: the file is damaged");
  } catch (const protozero::unknown_pbf_wire_type_exception&) {
    fail(place_.text(), ": unknown wire type: the file is damaged, or not an ONNX model");
  } catch (const protozero::invalid_tag_exception&) {
    fail(place_.text(), ": field number that no message has: the file is damaged, or not an ONNX model");
  }
}

Message::Message(std::span<std::byte> bytes, const Place& place)
    : reader_(reinterpret_cast<const char*>(bytes.data()), bytes.size()), place_(place) {
  take(place.source.messages_left);
}

void Message::take(std::uint64_t& left) const {
  if (left == 0) fail(place_.text(), ": the file has more nodes, attributes and names than Lamina reads");
  --left;
}

void Message::refuse(std::string_view why) const { fail(place_.text(), ": field ", field_, ": ", why); }

bool Message::next() {
  if (!taken_ && packed()) bytes();  // which looks at the length
  return guarded([&] {
    if (!taken_) reader_.skip();
    if (!reader_.next()) return false;
    field_ = reader_.tag();
    taken_ = false;
    return true;
  });
}

void Message::require(pbf_wire_type type) {
  taken_ = true;
  if (reader_.wire_type() == type) return;
  fail(place_.text(), ": field ", field_, ": expected ", name_of(type), ", got ", name_of(reader_.wire_type()));
}

std::int64_t Message::integer() {
  require(pbf_wire_type::varint);
  return guarded([&] { return reader_.get_int64(); });
}

std::int32_t Message::integer32() {
  const std::int64_t value = integer();
  if (!std::in_range<std::int32_t>(value)) refuse(concat("expected a number of 32 bits, got ", value));
  return static_cast<std::int32_t>(value);
}

float Message::number() {
  require(pbf_wire_type::fixed32);
  return guarded([&] { return reader_.get_float(); });
}

double Message::number64() {
  require(pbf_wire_type::fixed64);
  return guarded([&] { return reader_.get_double(); });
}

std::span<std::byte> Message::bytes() {
  require(pbf_wire_type::length_delimited);
  // protozero keeps 32 bits of a length: looked at first.
  const protozero::data_view rest = reader_.data();
  const char* p = rest.data();
  const char* const end = p + rest.size();
  const std::uint64_t length = read_varint(p, end, place_);
  const auto left = static_cast<std::uint64_t>(end - p);
  if (length > left) {
    refuse(concat("expected ", length, " bytes, got ", left, ": the file is truncated or damaged"));
  }
  if (length > std::numeric_limits<protozero::pbf_length_type>::max()) {
    refuse(concat("expected less than 4 GiB, got ", length, " bytes"));
  }
  const protozero::data_view view = guarded([&] { return reader_.get_view(); });
  // The mapping is writable, and private: see MappedFile.
  return {reinterpret_cast<std::byte*>(const_cast<char*>(view.data())), view.size()};
}

std::string Message::text() {
  take(place_.source.names_left);
  const std::span<std::byte> view = bytes();
  return {reinterpret_cast<const char*>(view.data()), view.size()};
}

}  // namespace lamina::detail::onnx
