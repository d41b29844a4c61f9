#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "photos/photo_reader.h"

namespace lamina::app {

/// Photographs as the inputs of a Plan that takes photos, decoded on several threads and one batch ahead of whoever
/// takes them: while the network runs on one batch, the next is being decoded.
class PhotoBatches {
 public:
  struct Batch {
    std::span<const std::filesystem::path> photos;
    std::vector<std::string> errors;  ///< of each photograph; empty where it could be read
    Tensor input;  ///< u8 [batch, crop, width(), 3]; rows of unreadable and absent photographs hold anything
  };

  /// Begins to decode, into memory that `device` takes inputs from fastest. `photos` must outlive this object. Whoever
  /// takes batches holds up to `held` of them at a time.
  PhotoBatches(std::span<const std::filesystem::path> photos, const Preprocess& preprocess, const ImageOptions& options,
               std::size_t batch, Device device, std::size_t held = 1);

  /// The next batch, or null after the last. The one that came `held` batches before it is overwritten from now on.
  const Batch* next();

 private:
  void start(std::size_t slot);
  void decode(Batch& batch);

  std::span<const std::filesystem::path> rest_;  // not begun yet
  Preprocess preprocess_;
  PhotoReader reader_;
  std::size_t size_;
  std::unique_ptr<ThreadPool> decoders_;
  std::vector<Batch> batches_;  // used in turn
  std::size_t slot_ = 0;        // of the batch under way
  std::future<void> pending_;   // last: its destructor waits for the work on the others
};

}  // namespace lamina::app
