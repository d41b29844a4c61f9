#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/request.h"
#include "serve/workers.h"

/// The connections of a server, one object each. For the sources of the HTTP server alone.
namespace lamina::app {

class Connection;

/// What connections share.
struct Connections {
  Connections(const ServerOptions& settings, HttpServer::Handler handler, HttpServer::Done listener)
      : options(settings), handle(std::move(handler)), done(std::move(listener)), memory(settings.memory) {}

  ServerOptions options;
  const HttpServer::Handler handle;
  const HttpServer::Done done;
  MemoryBudget memory;
  std::atomic<bool> stopping = false;
  std::atomic<int> under_way = 0;  ///< requests that were read and are not answered yet
  std::size_t max_open = 1000;

  std::mutex mutex;  // of these two
  /// Those that wait for their client, the longest first: the ones to close when there are too many.
  std::list<std::weak_ptr<Connection>> waiting;
  std::size_t open = 0;

  Workers* workers = nullptr;  ///< which answer requests
};

/// One client. Reads a request, has it answered by a worker, writes the answer, and begins again; requests that come
/// together are answered one after the other, in order.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, Connections& all);
  ~Connection();

  void begin();
  /// From any thread.
  void close();

 private:
  using Error = boost::system::error_code;
  using Clock = std::chrono::steady_clock;

  void read();
  void took(Error error, std::size_t bytes);
  /// Answering waits for a network: not on the threads that read and write.
  void dispatch();
  /// While that is so: tells the call when its client hangs up.
  void watch();
  Reply reply_to(Call& call);
  /// Says what is wrong with the request, and reads no more of this client.
  void refuse();
  void write(Reply reply, bool keep);
  void end();
  void discard();
  void set_waiting(bool waiting);
  Clock::time_point deadline();

  Connections& all_;
  boost::beast::tcp_stream stream_;
  RequestReader reader_;
  Clock::time_point started_;
  std::vector<char> discarded_;
  std::size_t discarded_bytes_ = 0;
  std::optional<std::list<std::weak_ptr<Connection>>::iterator> place_;  // among those that wait
};

}  // namespace lamina::app
