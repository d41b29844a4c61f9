#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "lamina/base/content.h"
#include "lamina/images/codecs/codec.h"
#include "photos/stopwatch.h"
#include "serve/service.h"
#include "words.h"

/// What the service's answers to photographs have in common.
namespace lamina::app {

using Json = nlohmann::ordered_json;

inline double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

inline constexpr int most_side = 1400;  ///< pixels of the longer side of pictures that the page draws

/// As 7-bit text, which may also be the value of a header.
inline std::string dumped(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

/// Numbers as they lie in memory, and what they are in the header.
inline Reply binary_reply(const void* data, std::size_t bytes, const Json& description) {
  Reply reply = {.body = std::string(static_cast<const char*>(data), bytes), .type = "application/octet-stream"};
  reply.headers["Lamina-Description"] = dumped(description);
  return reply;
}
inline bool wants_binary(const Call& call) {
  return call.header("accept").find("application/octet-stream") != std::string::npos;
}

/// The number that a parameter of the query gives. Throws Refusal.
template <class T>
T number_of(const Call& call, const std::string& name, T otherwise, T least, T most) {
  if (!call.query.contains(name)) return otherwise;
  const std::string text = call.parameter(name);
  const auto number = number_in<T>(text);
  if (number && *number >= least && *number <= most) return *number;
  refuse(fmt::format("{}: expected a number from {} to {}, got {}", name, least, most, text));
}

/// A photograph as a model's input.
struct Service::Photo {
  Tensor pixels;  // f32 [1, 3, H, W]
  Tensor input;   // the same in the form that the model takes
  Json description, milliseconds;
};

/// What `use` makes of the decoded photograph, whose memory counts until it returns.
template <class Use>
auto Service::with_photo(const Call& call, const Use& use) {
  const auto bytes = std::as_bytes(std::span(call.body));
  if (bytes.empty()) throw Refusal{400, "expected a photograph as the body, or as a file of a multipart form"};
  if (!is_image(bytes)) {
    throw Refusal{415, fmt::format("expected a photograph: {}{}", image_formats(), detail::found_content(bytes))};
  }
  try {
    const ImageOptions options = {
        .orientation = Orientation::upright, .transparency = Transparency::on_white, .memory = memory_.whole()};
    const std::uint64_t needed = decoding_memory(bytes, "photograph", options);
    MemoryBudget::Claim claim(memory_);
    claim.wait_for(std::min(needed, memory_.whole()));  // too much is refused below
    return use(decode_image(bytes, "photograph", options));
  } catch (const Error& error) {
    throw Refusal{422, error.what()};
  }
}

}  // namespace lamina::app
