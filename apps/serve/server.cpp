#include "serve/server.h"

#include <fmt/core.h>
#include <httplib.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "lamina/base/error.h"

namespace lamina::app {
namespace {

constexpr int max_connections = 4096;
constexpr auto patience = std::chrono::seconds(4);  // with what was begun when the server stops

Reply refusal(int status, const std::string& message) {
  Reply reply = {.status = status, .body = {}};
  reply.body = nlohmann::json{{"error", message}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (status == 503) reply.headers["Retry-After"] = "1";
  return reply;
}

/// A thread for each connection, so that idle ones do not keep others waiting; threads stay for the next.
class Connections final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> connection) override {
    std::unique_lock lock(shared_->mutex);
    shared_->free.wait(lock,
                       [&] { return shared_->threads < max_connections || shared_->idle > shared_->queue.size(); });
    shared_->queue.push_back(std::move(connection));
    if (shared_->idle >= shared_->queue.size()) {
      shared_->came.notify_one();
      return;
    }
    try {
      std::thread([shared = shared_] { work(*shared); }).detach();
      ++shared_->threads;
    } catch (const std::system_error&) {
      shared_->came.notify_one();  // as many as there are to be had
    }
  }

  void shutdown() override {}  // idle connections are not waited for: see HttpServer::serve

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable came, free;
    std::deque<std::function<void()>> queue;
    std::size_t idle = 0;
    int threads = 0;
  };

  static void work(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    for (;;) {
      ++shared.idle;
      shared.free.notify_one();
      const bool found = shared.came.wait_for(lock, std::chrono::seconds(10), [&] { return !shared.queue.empty(); });
      --shared.idle;
      if (!found) break;
      const auto connection = std::move(shared.queue.front());
      shared.queue.pop_front();
      lock.unlock();
      connection();
      lock.lock();
    }
    --shared.threads;
    shared.free.notify_one();
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

/// The body, or of a multipart one its first file, or its first part. Throws Refusal.
std::string body_of(const httplib::Request& request, const httplib::Response& response,
                    const httplib::ContentReader& read, std::size_t limit) {
  std::string body;
  body.reserve(
      std::min<std::size_t>({request.get_header_value<std::uint64_t>("Content-Length"), limit, std::size_t{4} << 20}));
  bool too_large = false;
  std::size_t bytes = 0;
  bool taken = false, is_file = false, keep = true;
  const auto receive = [&](const char* data, std::size_t size) {
    bytes += size;
    too_large = bytes > limit;
    if (too_large) return false;
    if (keep) body.append(data, size);
    return true;
  };
  bool whole = false;
  if (request.is_multipart_form_data()) {
    whole = read(
        [&](const httplib::MultipartFormData& part) {
          keep = !taken || (!is_file && !part.filename.empty());
          if (keep) {
            body.clear();
            taken = true;
            is_file = !part.filename.empty();
          }
          return (bytes += 64) <= limit;
        },
        receive);
    if (whole && !taken) throw Refusal{400, "expected a part with a file in the multipart body"};
  } else {
    whole = read(receive);
  }
  if (too_large || response.status == 413)
    throw Refusal{413, fmt::format("expected a body of at most {} bytes", limit)};
  if (!whole) throw Refusal{400, "the body is incomplete or malformed"};
  return body;
}

/// A provider that writes all and then fails is how the library is made to close a connection.
void answer_and_close(httplib::Response& response, Reply reply) {
  response.set_header("Connection", "close");
  const std::size_t size = reply.body.size();
  response.set_content_provider(size, reply.type,
                                [body = std::move(reply.body)](std::size_t, std::size_t, httplib::DataSink& sink) {
                                  (void)sink.write(body.data(), body.size());
                                  return false;
                                });
}

Call call_of(const httplib::Request& request) {
  Call call{.method = request.method == "HEAD" ? "GET" : request.method,
            .path = request.path,
            .query = {},
            .headers = {},
            .body = {}};
  for (const auto& [name, value] : request.params) call.query.emplace(name, value);
  for (const auto& [name, value] : request.headers) {
    std::string lower = name;
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    call.headers.emplace(std::move(lower), value);
  }
  return call;
}

}  // namespace

struct HttpServer::Impl {
  ServerOptions options;
  Handler handle;
  Done done;
  httplib::Server server;
  int socket = -1;
  std::atomic<int> under_way = 0;
  std::atomic<bool> stopping = false;

  void answer(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader* read) {
    const auto start = std::chrono::steady_clock::now();
    Call call = call_of(request);
    Reply reply;
    bool unread = read != nullptr;  // whether what follows on the connection may be the rest of this body
    try {
      if (stopping) throw Refusal{503, "the server is stopping"};
      if (read != nullptr) call.body = body_of(request, response, *read, options.max_body);
      unread = false;
      reply = handle(call);
    } catch (const Refusal& refused) {
      reply = refusal(refused.status, refused.message);
    } catch (const std::bad_alloc&) {
      reply = refusal(503, "out of memory");
    } catch (const std::exception& error) {
      reply = refusal(500, error.what());
    }
    response.status = reply.status;
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    done(call, reply, passed.count());
    if (unread) return answer_and_close(response, std::move(reply));
    response.body = std::move(reply.body);
    response.set_header("Content-Type", reply.type);
  }
};

HttpServer::HttpServer(const ServerOptions& options, Handler handle, Done done) : impl_(new Impl) {
  impl_->options = options;
  impl_->handle = std::move(handle);
  impl_->done = std::move(done);
  httplib::Server& server = impl_->server;
  server.new_task_queue = [] { return new Connections; };
  server.set_payload_max_length(options.max_body);
  server.set_keep_alive_max_count(std::size_t{1} << 30);
  server.set_keep_alive_timeout(30);
  server.set_read_timeout(5);
  server.set_write_timeout(5);
  server.set_tcp_nodelay(true);
  server.set_socket_options([impl = impl_](int socket) {
    // Not the library's own choice, SO_REUSEPORT: two servers would share a port unasked.
    const int yes = 1;
    (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    impl->socket = socket;
  });
  thread_local bool inside = false;
  server.set_pre_routing_handler([impl = impl_](const httplib::Request&, httplib::Response&) {
    if (!std::exchange(inside, true)) ++impl->under_way;
    return httplib::Server::HandlerResponse::Unhandled;
  });
  server.set_logger([impl = impl_](const httplib::Request&, const httplib::Response&) {
    if (std::exchange(inside, false)) --impl->under_way;
  });
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty() || response.has_header("Connection")) return;  // answered, see answer_and_close
    const Reply reply = refusal(response.status, fmt::format("HTTP status {}", response.status));
    response.set_content(reply.body, reply.type);
  });
  server.Get(".*", [impl = impl_](const httplib::Request& request, httplib::Response& response) {
    impl->answer(request, response, nullptr);
  });
  server.Post(".*", [impl = impl_](const httplib::Request& request, httplib::Response& response,
                                   const httplib::ContentReader& read) { impl->answer(request, response, &read); });
}

int HttpServer::bind() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  const ServerOptions& o = impl_->options;
  int port = o.port;
  if (port == 0) {
    port = impl_->server.bind_to_any_port(o.host);
  } else if (!impl_->server.bind_to_port(o.host, port)) {
    port = -1;
  }
  if (port < 0) throw Error(fmt::format("cannot listen on {} port {}: {}", o.host, o.port, std::strerror(errno)));
  (void)::listen(impl_->socket, 1024);  // the library's queue is of 5: bursts would wait a second
  return port;
}

void HttpServer::serve() {
  (void)impl_->server.listen_after_bind();
  const auto end = std::chrono::steady_clock::now() + patience;
  while (impl_->under_way > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// The library's own stop is lost where `serve` has not begun yet; a socket that is shut stays so.
void HttpServer::stop() {
  impl_->stopping = true;
  (void)::shutdown(impl_->socket, SHUT_RDWR);
}

}  // namespace lamina::app
