#include "lamina/cuda/runtime/constant.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "lamina/base/in_parallel.h"
#include "lamina/base/math.h"

namespace lamina::cuda {
namespace {

using Hash = std::array<std::uint64_t, 2>;

struct Key {
  std::size_t bytes;
  Hash hash;

  friend auto operator<=>(const Key&, const Key&) = default;
};

std::uint64_t mix(std::uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Four chains of multiplications side by side, so that hashing runs at memory's speed, folded into 128 bits.
Hash hash_of_piece(const void* data, std::size_t bytes) {
  constexpr std::array<std::uint64_t, 4> odd = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                                0xd6e8feb86659fd93u};
  std::array<std::uint64_t, 4> lane = odd;
  const auto* p = static_cast<const std::byte*>(data);
  const auto add = [&](const std::array<std::uint64_t, 4>& words) {
    for (std::size_t i = 0; i < 4; ++i) {
      lane[i] = (lane[i] ^ words[i]) * odd[i];
      lane[i] ^= lane[i] >> 29;  // every step can be undone: no word is lost
    }
  };
  std::array<std::uint64_t, 4> words{};
  for (; bytes >= sizeof(words); bytes -= sizeof(words), p += sizeof(words)) {
    std::memcpy(words.data(), p, sizeof(words));
    add(words);
  }
  words = {};
  if (bytes > 0) std::memcpy(words.data(), p, bytes);
  add(words);
  const std::uint64_t a = mix(lane[0] + mix(lane[1] + mix(lane[2] + mix(lane[3]))));
  const std::uint64_t b = mix(lane[3] ^ mix(lane[2] ^ mix(lane[1] ^ mix(lane[0] ^ odd[0]))));
  return {a, b};
}

/// Weights are large, and hashing them is what first touches the pages of their file: several threads share the pieces.
Hash hash_of(const void* data, std::size_t bytes) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  std::vector<Hash> hashes(lamina::detail::ceil_div(bytes, piece));
  lamina::detail::in_parallel(bytes, piece, [&](std::size_t begin, std::size_t end) {
    hashes[begin / piece] = hash_of_piece(static_cast<const std::byte*>(data) + begin, end - begin);
  });
  return hashes.size() == 1 ? hashes[0] : hash_of_piece(hashes.data(), hashes.size() * sizeof(Hash));
}

/// What one device has: others upload meanwhile.
struct Constants {
  std::mutex mutex;
  std::map<Key, std::weak_ptr<const Buffer>> known;
};

Constants& constants_of(int device) {
  static std::mutex mutex;
  static std::map<int, Constants> devices;
  const std::scoped_lock lock(mutex);
  return devices[device];
}

}  // namespace

Constant::Constant(int device, const void* host, std::size_t bytes) {
  if (bytes == 0) return;
  if (detail::DryRun::active()) {
    memory_ = std::make_shared<Buffer>(device, bytes);
    return;
  }
  const Key key = {bytes, hash_of(host, bytes)};
  auto& [mutex, known] = constants_of(device);
  // Held while uploading: of two threads that compile the same network, one waits and then shares.
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find(key); found != known.end()) memory_ = found->second.lock();
  if (memory_ != nullptr) return;
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  memory_ = std::make_shared<const Buffer>(device, host, bytes);
  known[key] = memory_;
}

}  // namespace lamina::cuda
