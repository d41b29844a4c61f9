#include "lamina/tensor/constants.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "lamina/base/in_parallel.h"
#include "lamina/base/math.h"
#include "lamina/base/process/forks.h"
#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/format.h"

namespace lamina::detail {
namespace {

using Hash = std::array<std::uint64_t, 2>;

/// Both halves of a product, as wyhash folds them: a change of any bit of a factor changes about half of the result's.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Differs from process to process, so that no file can be made whose weights are taken for another's.
const std::uint64_t secret =
    mix(static_cast<std::uint64_t>(std::chrono::high_resolution_clock::now().time_since_epoch().count()) ^
            0x9e3779b97f4a7c15u,
        reinterpret_cast<std::uintptr_t>(&mix) ^ 0xc2b2ae3d27d4eb4fu);

/// Four chains of products side by side, so that hashing runs at memory's speed, folded into 128 bits.
Hash hash_of_piece(const void* data, std::size_t bytes) {
  constexpr std::array<std::uint64_t, 4> odd = {0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                                0xd6e8feb86659fd93u};
  std::array<std::uint64_t, 4> lane = odd, key = odd;
  for (std::uint64_t& each : key) each ^= secret;
  const auto* p = static_cast<const std::byte*>(data);
  std::array<std::uint64_t, 8> words{};
  const auto add = [&] {
    for (std::size_t i = 0; i < 4; ++i) lane[i] = mix(lane[i] ^ words[2 * i], key[i] ^ words[2 * i + 1]);
  };
  for (; bytes >= sizeof(words); bytes -= sizeof(words), p += sizeof(words)) {
    std::memcpy(words.data(), p, sizeof(words));
    add();
  }
  words = {};
  if (bytes > 0) std::memcpy(words.data(), p, bytes);
  add();
  const std::uint64_t a = mix(lane[0] ^ key[1], lane[1] ^ key[2]), b = mix(lane[2] ^ key[3], lane[3] ^ key[0]);
  return {mix(a ^ odd[0], b ^ key[0]), mix(a ^ key[1], b ^ odd[1])};
}

/// Weights are large, and hashing them is what first touches the pages of their file: several threads share the pieces.
Hash hash_of(const void* data, std::size_t bytes) {
  constexpr std::size_t piece = std::size_t{1} << 20;
  if (bytes <= piece) return hash_of_piece(data, bytes);
  std::vector<Hash> hashes(ceil_div(bytes, piece));
  in_parallel(bytes, piece, [&](std::size_t begin, std::size_t end) {
    hashes[begin / piece] = hash_of_piece(static_cast<const std::byte*>(data) + begin, end - begin);
  });
  return hash_of_piece(hashes.data(), hashes.size() * sizeof(Hash));
}

struct Key {
  int device;         // -1: the CPU; less than that: of plans that are only looked at
  std::size_t bytes;  // of the block
  Hash hash;          // of its elements, or of its sources' and the packing

  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Block {
  Tensor memory;
  bool counts = true;
  std::optional<Key> key = {};
  std::shared_ptr<const std::size_t> claim = std::make_shared<const std::size_t>(memory.bytes());

  Block(Tensor tensor, bool does_count) : memory(std::move(tensor)), counts(does_count) {}
  ~Block();
};

struct Store {
  const unsigned generation = fork_generation();
  std::mutex mutex;
  std::condition_variable made;
  std::map<Key, std::weak_ptr<Block>> known;
  std::set<Key> under_way;

  /// The process's. What the parent's other threads had locked stays so in a child, which has another.
  static Store& here() {
    static std::atomic<Store*> current = nullptr;
    for (Store* store = current;; store = current) {
      if (store != nullptr && store->generation == fork_generation()) return *store;
      auto fresh = std::make_unique<Store>();
      if (current.compare_exchange_strong(store, fresh.get())) return *fresh.release();  // and never deleted
    }
  }

  std::shared_ptr<Block> find(const Key& key) {
    const auto found = known.find(key);
    return found == known.end() ? nullptr : found->second.lock();
  }

  /// The block of that key, or what `make` gives.
  std::shared_ptr<Block> obtain(Key key, const std::function<Tensor()>& make) {
    std::unique_lock lock(mutex);
    if (DryRun::active()) {
      if (auto block = find(key)) return block;
      key.device = -3 - key.device;
    }
    made.wait(lock, [&] { return !under_way.contains(key); });
    if (auto block = find(key)) return block;
    under_way.insert(key);
    lock.unlock();
    const auto end = [&](const std::shared_ptr<Block>& block) {
      const std::scoped_lock again(mutex);
      under_way.erase(key);
      if (block != nullptr) known[key] = block;
      made.notify_all();
    };
    std::shared_ptr<Block> block;
    try {
      block = std::make_shared<Block>(make(), true);
    } catch (...) {
      end(nullptr);
      throw;
    }
    end(block);
    block->key = key;
    return block;
  }
};

/// Of a store that was left behind by a fork, nothing is of interest.
Block::~Block() {
  if (!key) return;
  Store& store = Store::here();
  const std::scoped_lock lock(store.mutex);
  const auto found = store.known.find(*key);
  if (found != store.known.end() && found->second.expired()) store.known.erase(found);
}

}  // namespace

/// What one Plan asked for.
struct ConstantsAsked {
  struct Kept {
    std::size_t bytes;
    bool counts;
    std::optional<Hash> hash = {};
  };

  ConstantsAsked* const outer;
  std::map<const std::byte*, Kept> kept = {};
  std::map<const void*, std::weak_ptr<Block>> blocks = {};  // by address
  std::vector<std::weak_ptr<Block>> all = {};
  std::size_t step = 0;  // of all, where it begins

  /// The kept tensor that has these bytes; null if there is none.
  Kept* find_kept(const Tensor& tensor) {
    const auto* const begin = static_cast<const std::byte*>(tensor.raw());
    const auto behind = kept.upper_bound(begin);
    if (behind == kept.begin()) return nullptr;
    const auto found = std::prev(behind);
    return begin < found->first + found->second.bytes ? &found->second : nullptr;
  }

  std::set<std::shared_ptr<Block>> in_use(std::size_t from) const {
    std::set<std::shared_ptr<Block>> result;
    for (std::size_t i = from; i < all.size(); ++i) result.insert(all[i].lock());
    result.erase(nullptr);
    return result;
  }
};

namespace {

thread_local ConstantsAsked* asking = nullptr;

/// Of what stays as it is while the Plan is compiled, found out once.
Hash content_of(const Tensor& tensor) {
  auto* const kept = asking == nullptr ? nullptr : asking->find_kept(tensor);
  if (kept == nullptr || kept->counts || kept->bytes != tensor.bytes()) return hash_of(tensor.raw(), tensor.bytes());
  if (!kept->hash) kept->hash = hash_of(tensor.raw(), tensor.bytes());
  return *kept->hash;
}

/// The block's, as that tensor.
Tensor hand_out(const std::shared_ptr<Block>& block, Shape shape, DType dtype) {
  if (asking != nullptr) {
    asking->blocks[block->memory.raw()] = block;
    asking->all.push_back(block);
  }
  return Tensor::borrow(block->memory.raw(), shape, dtype, block->memory.device(), block);
}

}  // namespace

Tensor packed(const Packing& packing, std::initializer_list<Tensor> sources, Shape shape, DType dtype,
              const std::function<void(Tensor& to)>& pack) {
  std::vector<Hash> from = {hash_of(packing.how.data(), packing.how.size())};
  for (const Tensor& source : sources) {
    from.push_back(source.defined() ? content_of(source) : Hash());
    from.push_back({source.bytes(), static_cast<std::uint64_t>(dtype)});
  }
  const auto make = [&] {
    Tensor result(shape, dtype);
    pack(result);
    return result;
  };
  const Key key = {-1, bytes_of(shape, {.dtype = dtype}), hash_of(from.data(), from.size() * sizeof(Hash))};
  return hand_out(Store::here().obtain(key, make), shape, dtype);
}

Tensor constant(const Tensor& host, Device device) {
  const bool stays = device.is_cpu();
  if (!host.defined() || (stays && asking == nullptr)) return host;
  if (host.bytes() == 0) return host.to(device);
  const auto* const kept = stays ? asking->find_kept(host) : nullptr;
  std::shared_ptr<Block> block = stays ? asking->blocks[host.raw()].lock() : nullptr;
  if (block == nullptr || block->memory.bytes() != host.bytes()) {
    block = kept != nullptr ? std::make_shared<Block>(host, kept->counts)
                            : Store::here().obtain({stays ? -1 : device.index, host.bytes(), content_of(host)},
                                                   [&] { return host.to(device); });
  }
  return hand_out(block, host.shape(), host.dtype());
}

PlanConstants::PlanConstants() : asked_(new ConstantsAsked{asking}) { asking = asked_.get(); }
PlanConstants::~PlanConstants() { asking = asked_->outer; }

void PlanConstants::keep(const Tensor& tensor, bool counts) {
  if (tensor.defined()) asked_->kept.insert({static_cast<const std::byte*>(tensor.raw()), {tensor.bytes(), counts}});
}

std::size_t PlanConstants::bytes_of_step() {
  std::size_t bytes = 0;
  for (const auto& block : asked_->in_use(asked_->step)) bytes += block->memory.bytes();
  asked_->step = asked_->all.size();
  return bytes;
}

std::vector<std::shared_ptr<const std::size_t>> PlanConstants::in_use() const {
  std::vector<std::shared_ptr<const std::size_t>> result;
  for (const auto& block : asked_->in_use(0)) {
    if (block->counts) result.push_back(block->claim);
  }
  return result;
}

}  // namespace lamina::detail
