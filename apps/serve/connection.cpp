#include "serve/connection.h"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/write.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "complain.h"
#include "lamina/base/error.h"
#include "serve/body.h"

namespace lamina::app {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto idle_time = seconds(30);  // between requests
constexpr auto head_time = seconds(10);  // for all of a head
constexpr auto body_time = seconds(20);  // for a body or an answer, and a second more for every `slowest` bytes
constexpr std::size_t slowest = 64 << 10;
constexpr std::size_t max_discarded = 64 << 20;

milliseconds time_for(std::size_t bytes) { return body_time + milliseconds(bytes * 1000 / slowest); }

/// {"error": message}
Reply refusal(int status, const std::string& message) {
  Reply reply = {.status = status, .body = {}};
  reply.body = nlohmann::json{{"error", in_servers_words(message)}}.dump(-1, ' ', false,
                                                                         nlohmann::json::error_handler_t::replace);
  if (status == 503) reply.headers["Retry-After"] = "1";
  return reply;
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, Connections& all)
    : all_(all), stream_(std::move(socket)), reader_(all.options, all.memory) {
  const std::lock_guard lock(all_.mutex);
  ++all_.open;
}

Connection::~Connection() {
  set_waiting(false);
  const std::lock_guard lock(all_.mutex);
  --all_.open;
}

void Connection::set_waiting(bool waiting) {
  const std::lock_guard lock(all_.mutex);
  if (waiting == place_.has_value()) return;
  if (waiting) {
    place_ = all_.waiting.insert(all_.waiting.end(), weak_from_this());
  } else {
    all_.waiting.erase(*place_);
    place_.reset();
  }
}

void Connection::begin() {
  Error ignored;  // of a client that is gone already
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
  asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->read(); });
}

void Connection::close() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    Error ignored;
    self->stream_.socket().close(ignored);
  });
}

/// So long as a client keeps up, it has time.
Connection::Clock::time_point Connection::deadline() {
  switch (reader_.state()) {
    case RequestReader::State::idle: return Clock::now() + idle_time;
    case RequestReader::State::head: return started_ + head_time;
    default: return started_ + time_for(reader_.body_bytes());
  }
}

void Connection::read() {
  using State = RequestReader::State;
  if (reader_.state() == State::refused) return refuse();
  if (reader_.state() == State::whole) return dispatch();
  if (all_.stopping && reader_.state() == State::idle) return end();
  set_waiting(true);
  stream_.expires_at(deadline());
  if (reader_.take_expectation()) {
    static constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    return asio::async_write(stream_, asio::buffer(go_on), [self = shared_from_this()](Error error, std::size_t) {
      if (!error) self->read();
    });
  }
  const std::span<char> room = reader_.room();
  stream_.async_read_some(asio::buffer(room.data(), room.size()),
                          [self = shared_from_this()](Error error, std::size_t bytes) { self->took(error, bytes); });
}

void Connection::took(Error error, std::size_t bytes) {
  if (error) return;  // the client is gone, or too slow: its socket is closed then
  if (reader_.state() == RequestReader::State::idle) started_ = Clock::now();
  try {
    reader_.take(bytes);
  } catch (const std::bad_alloc&) {
    reader_.refuse(503, "out of memory");
  }
  read();
}

void Connection::dispatch() {
  set_waiting(false);
  stream_.expires_never();
  ++all_.under_way;
  watch();
  all_.workers->run([self = shared_from_this()] {
    try {
      Reply reply = self->reply_to(self->reader_.call());
      const std::chrono::duration<double> passed = Clock::now() - self->started_;
      self->all_.done(self->reader_.call(), reply, passed.count());
      asio::post(self->stream_.get_executor(), [self, reply = std::move(reply)]() mutable {
        self->write(std::move(reply), self->reader_.keep_alive() && !self->all_.stopping);
      });
    } catch (const std::bad_alloc&) {  // not even for saying so: the connection ends
      --self->all_.under_way;
    }
  });
}

void Connection::watch() {
  std::stop_source gone;
  reader_.call().gone = gone.get_token();
  stream_.socket().async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this(), gone](Error error) mutable {
    // There is something to read, and it is no byte: the end. A client that only stops sending is taken for gone too.
    if (!error && self->stream_.socket().available(error) == 0) gone.request_stop();
  });
}

Reply Connection::reply_to(Call& call) {
  Reply reply = [&] {
    try {
      if (all_.stopping) throw Refusal{503, "the server is stopping"};
      decode_body(call, all_.options.max_body);
      call.body = file_of_form(call.header("content-type"), call.body);
      return all_.handle(call);
    } catch (const Refusal& refused) {
      return refusal(refused.status, refused.message);
    } catch (const std::bad_alloc&) {
      return refusal(503, "out of memory");
    } catch (const std::exception& failure) {
      return refusal(500, failure.what());
    }
  }();
  call.give_up_body();
  if (call.memory->grow(reply.body.size())) return reply;  // until the client has taken it
  return refusal(503, "too much memory is taken by requests under way");
}

void Connection::refuse() {
  set_waiting(false);
  ++all_.under_way;
  Reply reply = refusal(reader_.verdict().status, reader_.verdict().message);
  const std::chrono::duration<double> passed = Clock::now() - started_;
  all_.done(reader_.call(), reply, passed.count());
  write(std::move(reply), false);
}

void Connection::write(Reply reply, bool keep) {
  const auto response = std::make_shared<http::response<http::string_body>>();
  response->version(11);
  response->result(static_cast<unsigned>(reply.status));
  response->set(http::field::content_type, reply.type);
  // No page of another site makes a picture or a script of it.
  response->set("Cross-Origin-Resource-Policy", "same-origin");
  response->set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : reply.headers) response->set(name, value);
  response->keep_alive(keep);
  response->content_length(reply.body.size());
  if (!reader_.is_head()) response->body() = std::move(reply.body);
  set_waiting(true);
  stream_.expires_after(time_for(response->body().size()));
  http::async_write(stream_, *response, [self = shared_from_this(), response, keep](Error error, std::size_t) {
    --self->all_.under_way;
    if (error) return;
    if (!keep) return self->end();
    self->started_ = Clock::now();  // of a request that is here already
    self->reader_.next();
    self->read();
  });
}

/// Closed at once, the connection would be reset while the client still sends, and the answer might be lost.
void Connection::end() {
  Error ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(seconds(2));
  discarded_.resize(16 << 10);
  discard();
}

void Connection::discard() {
  stream_.async_read_some(asio::buffer(discarded_), [self = shared_from_this()](Error error, std::size_t bytes) {
    self->discarded_bytes_ += bytes;
    if (!error && self->discarded_bytes_ < max_discarded) self->discard();
  });
}

}  // namespace lamina::app
