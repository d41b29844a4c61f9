#include "photos/photo_batches.h"

#include <algorithm>
#include <new>
#include <system_error>

namespace lamina::app {

namespace {

/// A thread for each core, or as many as there are to be had: fewer decode as well.
std::unique_ptr<ThreadPool> start_decoders() {
  for (int threads = ThreadPool::default_threads(); threads > 1; threads /= 2) {
    try {
      return std::make_unique<ThreadPool>(threads);
    } catch (const Error&) {
    }
  }
  return std::make_unique<ThreadPool>(1);
}

}  // namespace

PhotoBatches::PhotoBatches(std::span<const std::filesystem::path> photos, const Preprocess& preprocess,
                           const ImageOptions& options, std::size_t batch, Device device, std::size_t held)
    : rest_(photos),
      preprocess_(preprocess),
      reader_(options),
      size_(batch),
      decoders_(start_decoders()),
      batches_(held + 1) {
  const Shape shape{static_cast<std::int64_t>(batch), preprocess.crop, preprocess.width(), 3};
  for (Batch& slot : batches_) {
    slot.input = device.is_cuda() ? Tensor::pinned(shape, DType::u8) : Tensor(shape, DType::u8);
    std::ranges::fill(slot.input.values<std::uint8_t>(), std::uint8_t{0});
  }
  start(0);
}

const PhotoBatches::Batch* PhotoBatches::next() {
  if (!pending_.valid()) return nullptr;
  pending_.get();
  const Batch& ready = batches_[slot_];
  start((slot_ + 1) % batches_.size());
  return &ready;
}

void PhotoBatches::start(std::size_t slot) {
  if (rest_.empty()) return;
  slot_ = slot;
  Batch& batch = batches_[slot];
  batch.photos = rest_.first(std::min(size_, rest_.size()));
  rest_ = rest_.subspan(batch.photos.size());
  try {
    pending_ = std::async(std::launch::async, [this, &batch] { decode(batch); });
  } catch (const std::system_error&) {  // no thread to be had: not ahead, then, but when it is asked for
    pending_ = std::async(std::launch::deferred, [this, &batch] { decode(batch); });
  }
}

void PhotoBatches::decode(Batch& batch) {
  batch.errors.assign(batch.photos.size(), "");
  decoders_->parallel_for(static_cast<std::int64_t>(batch.photos.size()), [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    batch.errors[at] = failure_of(batch.photos[at], [&] {
      const Image crop =
          reader_.read(batch.photos[at], [&](const Image& photo) { return resize_and_crop(photo, preprocess_); });
      Tensor row = batch.input.slice(i, i + 1);
      std::ranges::copy(crop.rgb, row.values<std::uint8_t>().begin());
    });
  });
}

}  // namespace lamina::app
