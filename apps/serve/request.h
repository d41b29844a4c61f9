#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "serve/server.h"

/// HTTP/1.1's requests, without the sockets that they come from. For the sources of the HTTP server alone.
namespace lamina::app {

/// Why a request is not served, whatever it asks for; status 0: it is.
struct Verdict {
  int status = 0;
  std::string message = {};
};

inline std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

constexpr std::size_t max_head = 16 << 10;  // bytes

/// By its head: what could be understood in two ways, and what comes from another site's page.
Verdict judge(const boost::beast::http::request_header<>& head, const ServerOptions& options);

/// Takes requests out of the bytes of a connection, one after the other.
class RequestReader {
 public:
  enum class State {
    idle,    ///< nothing of a request came yet
    head,    ///< some of its head
    body,    ///< its head, and some of its body
    whole,   ///< `call` has it; `next` goes on
    refused  ///< `verdict` says why; where the next request would begin is not known
  };

  RequestReader(const ServerOptions& options, MemoryBudget& memory) : options_(options), claim_(memory) {}

  State state() const { return state_; }
  /// Where the next bytes of the connection go, and that so many came. Not for a request that is whole or refused.
  std::span<char> room();
  void take(std::size_t bytes);
  /// Gives up what the request holds, and begins with what came behind it.
  void next();
  /// Why nothing more is read: as of `refused`.
  void refuse(int status, std::string message);

  /// Once: whether the client waits to be told to send its body.
  bool take_expectation();
  /// Once there is a head. Its memory is claimed here.
  Call& call() { return call_; }
  bool is_head() const { return is_head_; }
  bool keep_alive() const { return keep_alive_; }
  std::size_t body_bytes() const { return filled_; }  ///< that came
  const Verdict& verdict() const { return verdict_; }

 private:
  void read_head();
  void take_head(std::size_t bytes);
  void begin_body(std::size_t length);
  void read_body();
  void read_chunks();
  bool claim(std::size_t bytes);
  void give_up();

  const ServerOptions& options_;
  MemoryBudget::Claim claim_;
  State state_ = State::idle;
  Verdict verdict_;
  Call call_;
  boost::beast::flat_buffer buffer_;  // of a head, of chunks, and what came behind a request
  std::size_t line_ = 0;              // of the head, where it begins
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  char* body_ = nullptr;                               // of known length; the call keeps it
  std::size_t length_ = 0, claimed_ = 0, filled_ = 0;  // bytes of it
  bool chunked_ = false, is_head_ = false, keep_alive_ = false, expectation_ = false;
};

}  // namespace lamina::app
