#include "lamina/pool/queue.h"

#include <utility>

namespace lamina::detail {

void refuse(Request& request, const std::string& error) { request.done({.outputs = {}, .error = error, .device = {}}); }

void Queue::put(Request request) {
  Lock lock(mutex_);
  const auto usable = [&] { return !closed_ && workers_ > 0; };
  const auto fits = [&] { return images_ + request.images <= limits_.waiting; };
  if (limits_.wait && usable() && !fits()) {
    ++putting_;
    (void)room_.wait(lock, request.stop, [&] { return !usable() || fits(); });
    if (--putting_ == 0 && closed_) change_.notify_all();
  }
  if (workers_ == 0 && !lost_.empty()) fail("pool: no device is left: ", lost_);
  if (closed_) fail("pool: it is closed");
  if (request.stop.stop_requested()) fail("pool: the request was stopped");
  if (!fits()) {
    throw PoolFull(concat("pool: ", images_, " images wait, ", request.images, " more would be over the limit of ",
                          limits_.waiting));
  }
  images_ += request.images;
  requests_.push_back(std::move(request));
  // Who waits for a full batch need not hear of each image.
  if (images_ >= limits_.images || limits_.delay.count() == 0 || requests_.size() == 1) change_.notify_one();
}

std::vector<Request> Queue::pop() {
  std::vector<Request> batch;
  if (!again_.empty()) {
    batch.push_back(std::move(again_.front()));
    again_.pop_front();
    return batch;
  }
  std::int64_t images = 0;
  while (!requests_.empty() && images + requests_.front().images <= limits_.images) {
    if (!batch.empty() && !limits_.together) break;
    images += requests_.front().images;
    batch.push_back(std::move(requests_.front()));
    requests_.pop_front();
  }
  images_ -= images;
  return batch;
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
    std::vector<Request> batch = pop(), stopped;
    std::erase_if(batch, [&](Request& request) {
      if (!request.stop.stop_requested()) return false;
      stopped.push_back(std::move(request));
      return true;
    });
    ++busy_;
    if (something()) change_.notify_one();
    room_.notify_all();
    if (stopped.empty()) return batch;
    lock.unlock();
    for (Request& request : stopped) refuse(request, "pool: the request was stopped");
    if (!batch.empty()) return batch;
    lock.lock();
    if (--busy_ == 0 && closed_) change_.notify_all();
  }
}

void Queue::done(std::vector<Request> again) {
  const Lock lock(mutex_);
  --busy_;
  for (Request& request : again) again_.push_back(std::move(request));
  if (!again.empty() || closed_) change_.notify_all();
}

void Queue::leave(const std::string& why) {
  std::deque<Request> orphans;
  {
    const Lock lock(mutex_);
    if (!why.empty()) lost_ += (lost_.empty() ? "" : "; ") + why;
    if (--workers_ > 0) return;
    orphans = std::exchange(again_, {});
    for (Request& request : requests_) orphans.push_back(std::move(request));
    requests_.clear();
    images_ = 0;
    room_.notify_all();
  }
  for (Request& request : orphans) refuse(request, "pool: no device is left: " + lost_);
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
