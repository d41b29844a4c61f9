#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "serve/http.h"
#include "words.h"

/// What becomes of a request's bytes before the service sees them.
namespace lamina::app {

/// Takes the Content-Encoding (gzip, deflate, identity) off the call's body: at most `limit` bytes then, reserved with
/// the call as they come. Throws Refusal: 415 of other encodings, 400 of what is no such stream, 413 beyond the limit.
void decode_body(Call& call, std::size_t limit);

/// Of a multipart/form-data body the first part that is a file, or else its first part; any other body as it is. Throws
/// Refusal (400) if it is malformed or has no part.
std::string_view file_of_form(std::string_view content_type, std::string_view body);

/// "%41+b" as "A b"; with `plus` off, "A+b". What is no %XX stays.
std::string url_decoded(std::string_view text, bool plus);

}  // namespace lamina::app
