#include "serve/request.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "lamina/base/names.h"
#include "serve/body.h"

namespace lamina::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::size_t piece = 64 << 10;  // bytes of a body that are claimed before any came
constexpr std::size_t alignment = 64;

/// Throws Refusal for what a query says twice.
Call call_of(const http::request_header<>& head) {
  Call call;
  call.method = head.method() == http::verb::post ? "POST" : "GET";
  const std::string_view target = view(head.target());
  const std::size_t mark = std::min(target.find('?'), target.size());
  call.path = url_decoded(target.substr(0, mark), false);
  std::string_view query = target.substr(std::min(mark + 1, target.size()));
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(part.size() + 1, query.size()));
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = url_decoded(part.substr(0, equals), true);
    const auto said = call.query.emplace(name, url_decoded(part.substr(std::min(equals + 1, part.size())), true));
    if (!said.second) throw Refusal{400, fmt::format("{} is given twice in the query", detail::quote(name))};
  }
  for (const auto& field : head) call.headers.emplace(lower(view(field.name_string())), view(field.value()));
  return call;
}

}  // namespace

void RequestReader::refuse(int status, std::string message) {
  verdict_ = {status, std::move(message)};
  state_ = State::refused;
  give_up();
}

void RequestReader::give_up() {
  call_.body = {};
  call_.storage.reset();
  parser_.reset();
  body_ = nullptr;
  claim_.release();
}

bool RequestReader::claim(std::size_t bytes) {
  if (claim_.grow(bytes)) return true;
  refuse(503, "too much memory is taken by requests under way");
  return false;
}

std::span<char> RequestReader::room() {
  if (body_ != nullptr) return {body_ + filled_, claimed_ - filled_};
  const auto free = buffer_.prepare(chunked_ ? piece : 4096);
  return {static_cast<char*>(free.data()), free.size()};
}

void RequestReader::take(std::size_t bytes) {
  if (body_ != nullptr) {
    filled_ += bytes;
    return read_body();
  }
  buffer_.commit(bytes);
  chunked_ ? read_chunks() : read_head();
}

void RequestReader::next() {
  give_up();
  call_ = {};
  length_ = claimed_ = filled_ = line_ = 0;
  chunked_ = is_head_ = keep_alive_ = expectation_ = false;
  state_ = State::idle;
  if (buffer_.size() > 0) return read_head();
  if (buffer_.capacity() > 4096) buffer_ = {};
}

/// Lines end in CR LF, and none goes on in the next: others read LF alone, or a line that begins with a space, in ways
/// of their own.
void RequestReader::read_head() {
  const std::string_view text(static_cast<const char*>(buffer_.data().data()), buffer_.size());
  if (text.empty()) return;
  state_ = State::head;
  for (;;) {
    const std::size_t end = text.find('\n', line_);
    if (end == text.npos) break;
    if (end == line_ || text[end - 1] != '\r') return refuse(400, "a line of the head does not end in CR LF");
    if (end == line_ + 1) return take_head(end + 1);
    if (line_ > 0 && (text[line_] == ' ' || text[line_] == '\t')) return refuse(400, "a line of the head is folded");
    line_ = end + 1;
  }
  if (text.size() >= max_head) refuse(431, fmt::format("expected a head of at most {} bytes", max_head));
}

void RequestReader::take_head(std::size_t bytes) {
  if (bytes > max_head) return refuse(431, fmt::format("expected a head of at most {} bytes", max_head));
  parser_.emplace();
  parser_->header_limit(2 * max_head);
  parser_->body_limit(options_.max_body);
  boost::system::error_code error;
  parser_->put(asio::const_buffer(buffer_.data().data(), bytes), error);
  buffer_.consume(bytes);
  if (error == http::error::body_limit) {
    return refuse(413, fmt::format("expected a body of at most {} bytes", options_.max_body));
  }
  if (error || !parser_->is_header_done()) return refuse(400, "this is not HTTP: " + error.message());
  const auto& head = parser_->get();
  is_head_ = head.method() == http::verb::head;
  keep_alive_ = parser_->keep_alive();
  try {
    call_ = call_of(head);  // and nothing of what a chunked body's trailer may say
  } catch (const Refusal& refused) {
    return refuse(refused.status, refused.message);
  }
  call_.memory = &claim_;
  if (const Verdict verdict = judge(head, options_); verdict.status != 0) {
    return refuse(verdict.status, verdict.message);
  }
  state_ = State::body;
  chunked_ = parser_->chunked();
  expectation_ = head.version() == 11 && lower(call_.header("expect")) == "100-continue" && buffer_.size() == 0 &&
                 !parser_->is_done();
  if (!chunked_) return begin_body(static_cast<std::size_t>(parser_->content_length().value_or(0)));
  parser_->eager(true);
  read_chunks();
}

/// A body of known length comes from the socket straight to where it is needed. It takes no more memory than the client
/// pays for with bytes: what is reserved, but not written to, is none.
void RequestReader::begin_body(std::size_t length) {
  length_ = length;
  if (length == 0) {
    state_ = State::whole;
    return;
  }
  // Tensors stand behind the JSON of an inference: so that they are aligned, and can be used where they are.
  const std::string text = call_.header("inference-header-content-length");
  std::size_t json = 0;
  std::from_chars(text.data(), text.data() + text.size(), json);
  std::shared_ptr<char[]> storage = std::make_unique_for_overwrite<char[]>(length + alignment);
  body_ = storage.get();
  body_ += (0 - (reinterpret_cast<std::uintptr_t>(body_) + json)) % alignment;
  call_.body = {body_, length};
  call_.storage = std::move(storage);
  filled_ = std::min(buffer_.size(), length);
  std::memcpy(body_, buffer_.data().data(), filled_);
  buffer_.consume(filled_);
  claimed_ = std::min(length, std::max(piece, filled_));
  if (claim(claimed_)) read_body();
}

void RequestReader::read_body() {
  if (filled_ == length_) {
    state_ = State::whole;
  } else if (filled_ == claimed_) {
    const std::size_t more = std::min(length_ - claimed_, claimed_);
    if (claim(more)) claimed_ += more;
  }
}

void RequestReader::read_chunks() {
  if (buffer_.size() == 0) return;
  boost::system::error_code error;
  const std::size_t used = parser_->put(buffer_.data(), error);
  buffer_.consume(used);
  filled_ += used;
  if (!claim(2 * used)) return;  // a string that grows has room for twice
  if (error == http::error::body_limit) {
    return refuse(413, fmt::format("expected a body of at most {} bytes", options_.max_body));
  }
  if (error && error != http::error::need_more)
    return refuse(400, "the body's chunks are malformed: " + error.message());
  if (parser_->is_done()) {
    call_.hold(std::move(parser_->get().body()));
    state_ = State::whole;
  } else if (buffer_.size() >= max_head) {
    refuse(400, "the body's chunks are malformed: an extension or a trailer is too long");
  }
}

bool RequestReader::take_expectation() { return std::exchange(expectation_, false); }

}  // namespace lamina::app
