#include "serve/body.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <memory>

namespace lamina::app {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

std::string inflated(const Call& call, std::string_view packed, std::size_t limit) {
  constexpr int gzip_or_zlib = 32 + MAX_WBITS;
  z_stream stream = {};
  if (::inflateInit2(&stream, gzip_or_zlib) != Z_OK) throw std::bad_alloc();
  const auto end = [](z_stream* s) { ::inflateEnd(s); };
  const std::unique_ptr<z_stream, decltype(end)> ended(&stream, end);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());  // --max-body is at most 4 GiB less one
  std::string result;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    const std::size_t size = result.size(),
                      more = std::min<std::size_t>(std::max<std::size_t>(size, 1 << 16), 16 << 20);
    if (size > limit) throw Refusal{413, fmt::format("expected a body of at most {} bytes once it is unpacked", limit)};
    call.reserve(more);
    result.resize(size + more);
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + size);
    stream.avail_out = static_cast<uInt>(more);
    status = ::inflate(&stream, Z_NO_FLUSH);
    result.resize(size + more - stream.avail_out);
    if (status != Z_OK && status != Z_STREAM_END) throw Refusal{400, "the body is no whole gzip or deflate stream"};
  }
  if (result.size() > limit || stream.avail_in != 0) {
    if (stream.avail_in != 0) throw Refusal{400, "there is something behind the body's gzip or deflate stream"};
    throw Refusal{413, fmt::format("expected a body of at most {} bytes once it is unpacked", limit)};
  }
  return result;
}

/// The value of a header's parameter, `boundary="xyz"`; empty if it has none.
std::string parameter(std::string_view header, std::string_view name) {
  for (std::size_t at = header.find(';'); at != header.npos; at = header.find(';', at + 1)) {
    const std::string_view rest = trimmed(header.substr(at + 1));
    const std::size_t equals = rest.find('=');
    if (equals == rest.npos || lower(trimmed(rest.substr(0, equals))) != name) continue;
    std::string_view value = trimmed(rest.substr(equals + 1));
    if (value.starts_with('"')) return std::string(value.substr(1, std::min(value.find('"', 1), value.size()) - 1));
    return std::string(trimmed(value.substr(0, value.find(';'))));
  }
  return {};
}

}  // namespace

void decode_body(Call& call, std::size_t limit) {
  const std::string encoding = lower(trimmed(call.header("content-encoding")));
  if (encoding.empty() || encoding == "identity") return;
  if (encoding != "gzip" && encoding != "x-gzip" && encoding != "deflate") {
    throw Refusal{415, fmt::format("Content-Encoding: expected gzip, deflate or identity, got {}", encoding)};
  }
  call.hold(inflated(call, call.body, limit));
}

std::string_view file_of_form(std::string_view content_type, std::string_view body) {
  if (!lower(content_type).starts_with("multipart/form-data")) return body;
  const auto malformed = [] { return Refusal{400, "the multipart body is malformed, or has no part with a file"}; };
  const std::string boundary = parameter(content_type, "boundary");
  if (boundary.empty() || boundary.size() > 70) throw malformed();
  const std::string line = "\r\n--" + boundary;
  std::string_view rest = body;
  if (!rest.starts_with(std::string_view(line).substr(2))) throw malformed();
  rest.remove_prefix(line.size() - 2);
  std::string_view first, file;
  bool any = false, any_file = false;
  while (!rest.starts_with("--")) {
    if (!rest.starts_with("\r\n")) throw malformed();
    const std::size_t blank = rest.find("\r\n\r\n");
    if (blank == rest.npos) throw malformed();
    const std::string_view head = rest.substr(2, std::max<std::size_t>(blank, 2) - 2);
    rest.remove_prefix(blank + 4);
    const std::size_t end = rest.find(line);
    if (end == rest.npos) throw malformed();
    const bool is_file = lower(head).find("filename") != std::string::npos;
    if (!std::exchange(any, true)) first = rest.substr(0, end);
    if (is_file && !std::exchange(any_file, true)) file = rest.substr(0, end);
    rest.remove_prefix(end + line.size());
  }
  if (!any) throw malformed();
  return any_file ? file : first;
}

std::string url_decoded(std::string_view text, bool plus) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char l = static_cast<char>(c | 0x20);
    return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
  };
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
      result += static_cast<char>(16 * digit(text[i + 1]) + digit(text[i + 2]));
      i += 2;
    } else {
      result += plus && text[i] == '+' ? ' ' : text[i];
    }
  }
  return result;
}

}  // namespace lamina::app
