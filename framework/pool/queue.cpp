#include "lamina/pool/queue.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lamina::detail {

void refuse(Request& request, ErrorKind kind, const std::string& error) {
  request.done({.outputs = {}, .error = words_or_less([&] { return error; }), .kind = kind, .device = {}});
}

void Queue::put(Request request) {
  Lock lock(mutex_);
  const auto usable = [&] { return !closed_ && workers_ > 0; };
  const auto fits = [&] { return images_ + request.images <= limits_.waiting; };
  if (limits_.wait && usable() && !fits()) {
    ++putting_;
    (void)room_.wait(lock, request.stop, [&] { return !usable() || fits(); });
    if (--putting_ == 0 && closed_) change_.notify_all();
  }
  if (workers_ == 0 && !lost_.empty()) fail(ErrorKind::failed, "pool: no device is left: ", lost_);
  if (closed_) fail("pool: it is closed");
  if (request.stop.stop_requested()) throw Stopped("pool: the request was stopped");
  if (!fits()) {
    throw PoolFull(concat("pool: ", images_, " images wait, ", request.images, " more would be over the limit of ",
                          limits_.waiting));
  }
  const std::int64_t images = request.images;
  requests_.push_back(std::move(request));
  images_ += images;
  // Who waits for a full batch need not hear of each image.
  if (images_ >= limits_.images || limits_.delay.count() == 0 || requests_.size() == 1) change_.notify_one();
}

std::vector<Request> Queue::pop() {
  std::size_t count = 0;
  for (std::int64_t images = 0; again_.empty() && count < requests_.size(); ++count) {
    images += requests_[count].images;
    if (count > 0 && (images > limits_.images || !limits_.together)) break;
  }
  std::vector<Request> batch;
  batch.reserve(std::max<std::size_t>(1, count));
  do {
    batch.push_back(pop_one());
  } while (batch.size() < count);
  return batch;
}

Request Queue::pop_one() {
  std::deque<Request>& from = again_.empty() ? requests_ : again_;
  Request request = std::move(from.front());
  from.pop_front();
  if (&from == &requests_) images_ -= request.images;
  return request;
}

std::vector<Request> Queue::take() {
  Lock lock(mutex_);
  for (;;) {
    const auto something = [&] { return !again_.empty() || !requests_.empty(); };
    // What another worker has now may have to be redone.
    change_.wait(lock, [&] { return something() || (closed_ && busy_ == 0); });
    if (!something()) return {};
    const auto now = [&] { return !again_.empty() || requests_.empty() || closed_ || images_ >= limits_.images; };
    if (limits_.delay.count() > 0 && !now()) {
      const auto due = requests_.front().arrived + limits_.delay;
      // Another worker may take the first ones: those that are left have more time.
      if (change_.wait_until(lock, due, now) && !something()) continue;
      if (!now() && std::chrono::steady_clock::now() < requests_.front().arrived + limits_.delay) continue;
    }
    std::vector<Request> batch;
    std::optional<Request> without_memory;
    try {
      batch = pop();
    } catch (const std::bad_alloc&) {
      without_memory = pop_one();
    }
    ++busy_;
    if (something()) change_.notify_one();
    room_.notify_all();
    lock.unlock();
    if (without_memory) refuse(*without_memory, ErrorKind::out_of_memory, "out of memory");
    std::erase_if(batch, [](Request& request) {
      if (!request.stop.stop_requested()) return false;
      refuse(request, ErrorKind::stopped, "pool: the request was stopped");
      return true;
    });
    if (!batch.empty()) return batch;
    lock.lock();
    if (--busy_ == 0 && closed_) change_.notify_all();
  }
}

void Queue::done(std::vector<Request> again) {
  std::size_t kept = 0;
  {
    const Lock lock(mutex_);
    --busy_;
    try {
      for (; kept < again.size(); ++kept) again_.push_back(std::move(again[kept]));
    } catch (const std::bad_alloc&) {
    }
    if (kept > 0 || closed_) change_.notify_all();
  }
  for (; kept < again.size(); ++kept) refuse(again[kept], ErrorKind::out_of_memory, "out of memory");
}

void Queue::leave(const std::string& why) {
  Lock lock(mutex_);
  if (!why.empty()) lost_ = words_or_less([&] { return lost_ + (lost_.empty() ? "" : "; ") + why; });
  if (--workers_ > 0) return;
  room_.notify_all();
  const std::string error = words_or_less([&] { return "pool: no device is left: " + lost_; });
  while (!again_.empty() || !requests_.empty()) {
    Request request = pop_one();
    lock.unlock();
    refuse(request, ErrorKind::failed, error);
    lock.lock();
  }
}

void Queue::close() {
  Lock lock(mutex_);
  closed_ = true;
  change_.notify_all();
  room_.notify_all();
  change_.wait(lock, [&] { return putting_ == 0; });  // those that waited for room have gone
}

std::int64_t Queue::waiting() const {
  const Lock lock(mutex_);
  return images_;
}

}  // namespace lamina::detail
