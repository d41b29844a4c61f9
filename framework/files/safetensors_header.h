#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::detail {

/// Where the format keeps its string -> string metadata: no tensor may have this name.
inline constexpr std::string_view safetensors_metadata_key = "__metadata__";

/// One tensor as the header states it, nothing checked but the JSON types.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 // "F32"
  std::vector<std::uint64_t> shape;  // outermost first
  std::uint64_t begin = 0;           // [begin, end): bytes of the data section
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the header's order
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON header. `path` is for messages. Throws Error for anything but an object of entries with unique
/// names: bad JSON or UTF-8, a duplicate key, a missing field, a number that is not a whole one of 0 or more.
SafetensorsHeader parse_safetensors_header(std::string_view json, const std::string& path);

/// The header as JSON text, unpadded. Throws Error for names and metadata that are not UTF-8.
std::string format_safetensors_header(const SafetensorsHeader& header);

}  // namespace lamina::detail
