#include "lamina/files/torch/pickle.h"

#include <algorithm>
#include <iterator>

namespace lamina::detail {

bool is_storage_class(const PickleGlobal& global) {
  const auto is_letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  constexpr std::size_t longest = 64;
  return global.module == "torch" && global.name.size() <= longest && global.name.ends_with("Storage") &&
         std::all_of(global.name.begin(), global.name.end(), is_letter_or_digit);
}

std::string_view kind_of(const PickleValue& value) {
  // In the order of the variant.
  constexpr std::string_view kinds[] = {"None",    "a boolean", "an integer", "a float", "a string", "a long integer",
                                        "a class", "a tuple",   "a list",     "a dict",  "a tensor", "a storage"};
  static_assert(std::size(kinds) == std::variant_size_v<PickleValue>);
  return kinds[value.index()];
}

}  // namespace lamina::detail
