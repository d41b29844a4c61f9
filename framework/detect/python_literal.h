#pragma once

#include <string>
#include <string_view>

namespace lamina::detail {

/// A Python literal such as {0: 'person', 1: "it's"}, as exporters write it into a model's metadata, as JSON text:
/// numbers that are keys become texts. What is no such literal becomes text that is no JSON either.
std::string json_of_python(std::string_view literal);

}  // namespace lamina::detail
