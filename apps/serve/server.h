#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "serve/http.h"

namespace lamina::app {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  ///< 0: one that is free
  std::size_t max_body = std::size_t{64} << 20;
};

/// An HTTP server: the one source that knows the library it is made with.
class HttpServer {
 public:
  using Handler = std::function<Reply(const Call&)>;
  using Done = std::function<void(const Call&, const Reply&, double seconds)>;

  /// `handle` is called from many threads, and may throw Refusal and Error. `done` hears of every reply.
  HttpServer(const ServerOptions& options, Handler handle, Done done);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Begins to listen. Returns the port. Throws Error if it cannot.
  int bind();
  /// Serves until `stop`, then answers what was begun, for up to 4 seconds.
  void serve();
  /// From any thread, once it is bound.
  void stop();

 private:
  struct Impl;
  Impl* const impl_;  // never freed: connections that idle outlive `serve`, and end with the process
};

}  // namespace lamina::app
