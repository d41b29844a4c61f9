#include "lamina/files/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

namespace lamina::detail {
namespace {

using Json = nlohmann::json;

[[noreturn]] void reject_json(const std::string& path, std::size_t position) {
  fail(path, ": the safetensors header is not valid JSON in UTF-8, at byte ", position, " of it");
}

/// Takes the parser's events one by one. A document tree would silently keep only the last of duplicate keys, and
/// would build whatever nonsense a hostile header nests; this holds nothing but entries.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool key(string_t& text) override {
    if (place_ == Place::ignored) return true;
    if (place_ == Place::metadata) {
      key_ = text;
      return true;  // whether it is a duplicate shows when its value arrives
    }
    std::set<std::string>& seen = place_ == Place::top ? names_ : fields_;
    if (!seen.insert(text).second) fail(path_, ": duplicate key ", quote(text), where());
    if (place_ == Place::top) entry_ = {.name = text, .dtype = {}, .shape = {}};
    key_ = text;
    return true;
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::start: place_ = Place::top; return true;
      case Place::top:
        fields_.clear();
        place_ = key_ == safetensors_metadata_key ? Place::metadata : Place::entry;
        return true;
      default: return open_nested("an object");
    }
  }

  bool end_object() override {
    if (place_ == Place::entry) {
      for (const char* field : {"dtype", "shape", "data_offsets"}) {
        if (!fields_.contains(field)) fail(path_, ": tensor ", quote(entry_.name), " has no ", field);
      }
      header_.entries.push_back(std::move(entry_));
    }
    return close();
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::entry && key_ == "shape") {
      place_ = Place::shape;
      return true;
    }
    if (place_ == Place::entry && key_ == "data_offsets") {
      place_ = Place::offsets;
      offset_count_ = 0;
      return true;
    }
    return open_nested("an array");
  }

  bool end_array() override {
    if (place_ == Place::offsets && offset_count_ != 2) wrong(concat(offset_count_, " numbers"));
    return close();
  }

  bool string(string_t& text) override {
    if (place_ == Place::metadata) {
      if (!header_.metadata.emplace(key_, std::move(text)).second) {
        fail(path_, ": duplicate key ", quote(key_), " in ", safetensors_metadata_key);
      }
      return true;
    }
    if (place_ == Place::entry && key_ == "dtype") {
      entry_.dtype = std::move(text);
      return true;
    }
    return scalar(quote(text));
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      entry_.shape.push_back(value);
      return true;
    }
    if (place_ == Place::offsets) {
      if (offset_count_ == 2) wrong("a third number");
      (offset_count_++ == 0 ? entry_.begin : entry_.end) = value;
      return true;
    }
    return scalar(concat(value));
  }

  bool null() override { return scalar("null"); }
  bool boolean(bool value) override { return scalar(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return scalar(concat(value)); }
  bool number_float(number_float_t, const string_t& text) override { return scalar(text.substr(0, 40)); }
  bool binary(binary_t&) override { return scalar("bytes"); }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    reject_json(path_, position);
  }

 private:
  enum class Place { start, top, metadata, entry, shape, offsets, ignored };

  /// A value that belongs to no field this reader knows is skipped, as the reference implementation skips it.
  bool scalar(const std::string& found) {
    if (!ignorable()) wrong(found);
    return true;
  }

  bool open_nested(const char* found) {
    if (!ignorable()) wrong(found);
    place_ = Place::ignored;
    ++depth_;
    return true;
  }

  bool ignorable() const {
    if (place_ == Place::ignored) return true;
    return place_ == Place::entry && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets";
  }

  bool close() {
    switch (place_) {
      case Place::ignored:
        if (--depth_ == 0) place_ = Place::entry;
        break;
      case Place::shape:
      case Place::offsets: place_ = Place::entry; break;
      default: place_ = Place::top;
    }
    return true;
  }

  [[noreturn]] void wrong(const std::string& found) const {
    if (place_ == Place::start) fail(path_, ": expected the header to be an object, got ", found);
    if (place_ == Place::top) fail(path_, ": expected an object for ", quote(key_), ", got ", found);
    if (place_ == Place::metadata) {
      fail(path_, ": ", safetensors_metadata_key, ": expected a string for ", quote(key_), ", got ", found);
    }
    const char* expected = key_ == "dtype"   ? "a string"
                           : key_ == "shape" ? "whole numbers of 0 or more"
                                             : "two whole numbers of 0 or more";
    fail(path_, ": tensor ", quote(entry_.name), ": expected ", expected, " for ", key_, ", got ", found);
  }

  std::string where() const { return place_ == Place::top ? "" : concat(" in tensor ", quote(entry_.name)); }

  const std::string& path_;
  SafetensorsHeader header_;
  Place place_ = Place::start;
  std::size_t depth_ = 0;   // of what is being ignored
  std::string key_;         // the last one read
  SafetensorsEntry entry_;  // being read
  std::size_t offset_count_ = 0;
  std::set<std::string> names_;   // of the top level
  std::set<std::string> fields_;  // of entry_
};

std::string json_string(const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail("safetensors: ", quote(text), " is not valid UTF-8");
  }
}

template <class Range, class Format>
std::string join(const Range& range, Format&& format) {
  std::string text;
  for (const auto& item : range) {
    if (!text.empty()) text += ',';
    text += format(item);
  }
  return text;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& path) {
  if (json.empty() || json.front() != '{') {
    fail(path, ": expected the safetensors header to begin with '{', got ",
         json.empty() ? "nothing" : quote(json.substr(0, 16)));
  }
  // nlohmann's lexer takes a zero byte for the end of the text, and would let anything hide behind it.
  if (const std::size_t zero = json.find('\0'); zero != std::string_view::npos) reject_json(path, zero);
  HeaderReader reader(path);
  Json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

std::string format_safetensors_header(const SafetensorsHeader& header) {
  std::vector<std::string> members;
  if (!header.metadata.empty()) {
    members.push_back(
        concat('"', safetensors_metadata_key, "\":{",
               join(header.metadata,
                    [](const auto& item) { return json_string(item.first) + ':' + json_string(item.second); }),
               '}'));
  }
  for (const SafetensorsEntry& entry : header.entries) {
    members.push_back(concat(json_string(entry.name), ":{\"dtype\":", json_string(entry.dtype), ",\"shape\":[",
                             join(entry.shape, [](std::uint64_t extent) { return std::to_string(extent); }),
                             "],\"data_offsets\":[", entry.begin, ',', entry.end, "]}"));
  }
  return '{' + join(members, [](const std::string& member) { return member; }) + '}';
}

}  // namespace lamina::detail
