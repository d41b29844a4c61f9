#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/http.h"

namespace lamina::app {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  ///< 0: one that is free
  std::size_t max_body = std::size_t{64} << 20;
  std::uint64_t memory = std::uint64_t{1} << 30;  ///< bytes that all requests under way may hold, photographs aside
  /// Names by which the server may be asked for, beside `host`, localhost, 127.0.0.1 and [::1].
  std::vector<std::string> allowed_hosts = {};
  /// A page of another site must not reach the server by a name of its own. `HttpServer` sees to it that other names
  /// are refused where it listens on a loopback address, and wherever some are allowed.
  bool check_host = true;
};

/// An HTTP/1.1 server: the one room that knows the library it is made with.
class HttpServer {
 public:
  using Handler = std::function<Reply(const Call&)>;
  using Done = std::function<void(const Call&, const Reply&, double seconds)>;

  /// `handle` is called from many threads, and may throw Refusal and Error. `done` hears of every reply.
  HttpServer(const ServerOptions& options, Handler handle, Done done);
  ~HttpServer();

  /// Begins to listen. Returns the port. Throws Error if it cannot.
  int bind();
  /// Serves until `stop`, then answers what was begun, for up to 4 seconds.
  void serve();
  /// From any thread, once it is bound.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina::app
