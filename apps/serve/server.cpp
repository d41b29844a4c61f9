#include "serve/server.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <thread>

#include "lamina/base/error.h"
#include "serve/connection.h"

namespace lamina::app {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto patience = std::chrono::seconds(4);  // with what was begun when the server stops
constexpr std::size_t max_connections = 16384;

/// How many connections there may be beside the files that the process has open anyway, and so that heads alone do not
/// take more memory than requests may.
std::size_t connections_to_be_had(std::uint64_t memory) {
  constexpr std::size_t others = 200;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 800;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
  const std::size_t most = std::clamp<std::uint64_t>(memory / max_head, 50, max_connections);
  return std::clamp<std::size_t>(files.rlim_cur, others + 50, most + others) - others;
}

}  // namespace

struct HttpServer::Impl {
  Impl(const ServerOptions& options, Handler handle, Done done)
      : connections(options, std::move(handle), std::move(done)) {
    connections.workers = &workers;
  }

  Connections connections;  // which what the context holds refers to
  asio::io_context context;
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  tcp::acceptor acceptor{asio::make_strand(context)};  // as it is closed by another thread
  asio::steady_timer pause{acceptor.get_executor()};
  Workers workers{1024};  // last, so that it ends first
  std::mutex mutex;
  std::condition_variable stopped;

  /// Reads and writes. A connection for which memory does not suffice ends.
  void run() {
    while (!context.stopped()) {
      try {
        context.run();
      } catch (const std::bad_alloc&) {
      }
    }
  }

  void accept() {
    acceptor.async_accept(asio::make_strand(context), [this](boost::system::error_code error, tcp::socket socket) {
      if (connections.stopping) return;
      if (error == asio::error::no_descriptors || error == asio::error::no_memory) {  // until some are closed
        make_room(1);
        pause.expires_after(std::chrono::milliseconds(20));
        return pause.async_wait([this](boost::system::error_code) { accept(); });
      }
      if (!error) {
        make_room(0);
        std::make_shared<Connection>(std::move(socket), connections)->begin();
      }
      accept();
    });
  }

  /// Closes those that have waited for their clients the longest, so that there is room for one more.
  void make_room(std::size_t at_least) {
    std::vector<std::shared_ptr<Connection>> closed;
    {
      const std::lock_guard lock(connections.mutex);
      const std::size_t most = connections.max_open;
      const std::size_t count = std::max(at_least, connections.open >= most ? connections.open - most + 1 : 0);
      for (const auto& each : connections.waiting) {
        if (closed.size() >= count) break;
        if (auto connection = each.lock()) closed.push_back(std::move(connection));
      }
    }
    for (const auto& connection : closed) connection->close();
  }
};

HttpServer::HttpServer(const ServerOptions& options, Handler handle, Done done)
    : impl_(std::make_unique<Impl>(options, std::move(handle), std::move(done))) {}

HttpServer::~HttpServer() = default;

int HttpServer::bind() {
  ServerOptions& o = impl_->connections.options;
  impl_->connections.max_open = connections_to_be_had(o.memory);
  try {
    tcp::resolver resolver(impl_->context);
    const tcp::endpoint endpoint = *resolver.resolve(o.host, std::to_string(o.port), tcp::resolver::passive).begin();
    o.check_host = endpoint.address().is_loopback() || !o.allowed_hosts.empty();
    impl_->acceptor.open(endpoint.protocol());
    impl_->acceptor.set_option(tcp::acceptor::reuse_address(true));
    impl_->acceptor.bind(endpoint);
    impl_->acceptor.listen(1024);
    return impl_->acceptor.local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    throw Error(fmt::format("cannot listen on {} port {}: {}", o.host, o.port, error.code().message()));
  }
}

void HttpServer::serve() {
  impl_->accept();
  const unsigned count = std::clamp(std::thread::hardware_concurrency() / 2, 1u, 16u);  // tensors are copied here
  std::vector<std::thread> threads;
  try {
    while (threads.size() < count) threads.emplace_back([this] { impl_->run(); });
  } catch (const std::system_error&) {  // as many as there are to be had
    if (threads.empty()) throw;
  }
  {
    std::unique_lock lock(impl_->mutex);
    impl_->stopped.wait(lock, [&] { return impl_->connections.stopping.load(); });
  }
  const auto end = std::chrono::steady_clock::now() + patience;
  while (impl_->connections.under_way > 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  impl_->context.stop();
  for (std::thread& thread : threads) thread.join();
}

void HttpServer::stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->connections.stopping = true;
  }
  impl_->stopped.notify_all();
  asio::post(impl_->acceptor.get_executor(), [this] {
    boost::system::error_code ignored;
    impl_->acceptor.close(ignored);
  });
}

}  // namespace lamina::app
