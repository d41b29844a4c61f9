#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <protozero/pbf_reader.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Protocol Buffers' wire format, read with the checks that a hostile file calls for. For .cpp files only.
namespace lamina::detail::onnx {

/// The file, and what all its messages together may still take.
struct Source {
  const std::string& path;
  // Two bytes of file are an empty message or name, which takes a hundred bytes of memory: their number has a limit.
  std::uint64_t messages_left;
  std::uint64_t names_left;
};

/// Where in the file a message stands, innermost first: lives on the stack, costs nothing until something is wrong.
struct Place {
  Source& source;
  const Place* outer;       // null: the file
  std::string_view what;    // "node"
  std::int64_t index = -1;  // -1: there is one only

  /// "model.onnx: graph, node 3, attribute 0"
  std::string text() const;
  int depth() const { return outer == nullptr ? 0 : 1 + outer->depth(); }
};

/// The fields of one message in order: `while (message.next()) switch (message.field())`. Each is taken by the getter
/// of its type, or passed over. Getters throw Error where the file has another wire type.
class Message {
 public:
  /// Throws Error if the file has more messages than any honest one. `place` must outlive this.
  Message(std::span<std::byte> bytes, const Place& place);

  bool next();
  std::uint32_t field() const { return field_; }

  std::int64_t integer();  // int64, uint64, int32, enum
  std::int32_t integer32();
  float number();
  double number64();
  std::span<std::byte> bytes();  // of a message, a text, or packed numbers
  std::string text();

  bool packed() const { return reader_.wire_type() == protozero::pbf_wire_type::length_delimited; }
  const Place& place() const { return place_; }
  [[noreturn]] void refuse(std::string_view why) const;

 private:
  void require(protozero::pbf_wire_type type);
  void take(std::uint64_t& left) const;
  template <class F>
  auto guarded(const F& f) const;

  protozero::pbf_reader reader_;
  const Place& place_;
  std::uint32_t field_ = 0;
  bool taken_ = true;  // what it holds
};

/// What takes the fields of that number.
template <class Take>
struct Field {
  Field(std::uint32_t of, Take by) : number(of), take(std::move(by)) {}

  std::uint32_t number;
  Take take;
};

/// Reads all of a message; fields of other numbers are passed over.
template <class... Fields>
void read(std::span<std::byte> bytes, const Place& place, const Fields&... fields) {
  Message message(bytes, place);
  while (message.next()) {
    (void)((message.field() == fields.number && (fields.take(message), true)) || ...);
  }
}

/// A field that is kept, or one more of a list; of messages, what `decode(bytes, place)` makes of each.
inline auto into(std::uint32_t number, std::string& to) {
  return Field(number, [&to](Message& message) { to = message.text(); });
}
inline auto into(std::uint32_t number, std::int64_t& to) {
  return Field(number, [&to](Message& message) { to = message.integer(); });
}
inline auto into(std::uint32_t number, std::int32_t& to) {
  return Field(number, [&to](Message& message) { to = message.integer32(); });
}
inline auto into(std::uint32_t number, std::vector<std::string>& to) {
  return Field(number, [&to](Message& message) { to.push_back(message.text()); });
}
template <class T>
auto into(std::uint32_t number, std::vector<T>& to, std::string_view what,
          T (*decode)(std::span<std::byte>, const Place&)) {
  return Field(number, [&to, what, decode](Message& message) {
    const Place inner{message.place().source, &message.place(), what, static_cast<std::int64_t>(to.size())};
    to.push_back(decode(message.bytes(), inner));
  });
}

/// Calls `f` with every element of a repeated field of varints, packed or not.
template <class F>
void each_integer(Message& message, const F& f);
/// The same for fields of T = float or double.
template <class T, class F>
void each_number(Message& message, const F& f);

// ------------------------------------------------------------------------------------------------ implementation

/// The varint at `p`, which moves behind it. Throws Error if it does not end before `end`.
std::uint64_t read_varint(const char*& p, const char* end, const Place& place);

template <class F>
void each_integer(Message& message, const F& f) {
  if (!message.packed()) return f(message.integer());
  const std::span<std::byte> bytes = message.bytes();
  const char* p = reinterpret_cast<const char*>(bytes.data());
  const char* const end = p + bytes.size();
  while (p != end) f(static_cast<std::int64_t>(read_varint(p, end, message.place())));
}

template <class T, class F>
void each_number(Message& message, const F& f) {
  if (!message.packed()) {
    if constexpr (sizeof(T) == 4) return f(message.number());
    if constexpr (sizeof(T) == 8) return f(message.number64());
  }
  const std::span<std::byte> bytes = message.bytes();
  if (bytes.size() % sizeof(T) != 0) message.refuse("expected a whole number of elements");
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    f(value);
  }
}

}  // namespace lamina::detail::onnx
