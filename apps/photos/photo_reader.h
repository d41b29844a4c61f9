#pragma once

#include <lamina/lamina.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "complain.h"
#include "photos/frames.h"
#include "photos/memory_budget.h"

namespace lamina::app {

/// What went wrong with a photograph; empty where nothing did.
template <class Work>
std::string failure_of(const std::filesystem::path& photo, const Work& work) {
  try {
    work();
    return {};
  } catch (const Error& error) {
    return error.what();
  } catch (const std::bad_alloc&) {
    return name_of_photo(photo) + ": out of memory";
  }
}

/// Reads photographs on any number of threads, which share out the memory that decoding may take.
class PhotoReader {
 public:
  explicit PhotoReader(const ImageOptions& options) : options_(options), memory_(options.memory) {}

  /// What `use` makes of the photograph, whose memory counts until it returns. Throws Error as `read_image` does.
  template <class Use>
  auto read(const std::filesystem::path& photo, const Use& use) {
    const std::vector<std::byte> bytes = detail::read_image_file(photo);
    const std::uint64_t needed = decoding_memory(bytes, name_of_photo(photo), options_);
    MemoryBudget::Claim claim(memory_);
    claim.wait_for(std::min(needed, memory_.whole()));  // too much is refused below
    Image image = decode_image(bytes, name_of_photo(photo), options_);
    if (!image.warning.empty()) complain("warning: " + image.warning);
    return use(std::move(image));
  }

 private:
  ImageOptions options_;
  MemoryBudget memory_;
};

}  // namespace lamina::app
