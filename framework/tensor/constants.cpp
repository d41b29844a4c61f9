#include "lamina/tensor/constants.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
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
  int device;         // -1: the CPU; -2: what is packed there; less than that: of plans that are only looked at
  std::size_t bytes;  // of the block
  Hash hash;          // of its elements, on the CPU of the first of them; of how it is packed, and from what

  friend auto operator<=>(const Key&, const Key&) = default;
};

struct Block {
  Tensor memory;
  bool counts = true;
  std::vector<Key> keys = {};
  std::optional<Hash> hash = {};  // of all elements, once somebody asked
  std::shared_ptr<const std::size_t> claim = std::make_shared<const std::size_t>(memory.bytes());

  Block(Tensor tensor, bool does_count) : memory(std::move(tensor)), counts(does_count) {}
  ~Block();
};

struct Store {
  const unsigned generation = fork_generation();
  std::mutex mutex;
  std::array<std::recursive_mutex, 16> making;  // by device: whoever makes a block is alone, and makes none twice
  std::multimap<Key, std::weak_ptr<Block>> known;

  /// The process's. What the parent's other threads had locked stays so in a child, which has another.
  static Store& here() {
    static std::atomic<Store*> current = nullptr;
    for (Store* store = current;; store = current) {
      if (store != nullptr && store->generation == fork_generation()) return *store;
      auto fresh = std::make_unique<Store>();
      if (current.compare_exchange_strong(store, fresh.get())) return *fresh.release();  // and never deleted
    }
  }

  /// A block of that key, and of these elements if they are given.
  std::shared_ptr<Block> find(const Key& key, const Tensor& elements = {}) {
    std::vector<std::shared_ptr<Block>> seen;  // whose other users may be gone meanwhile: freed after the lock is
    const std::scoped_lock lock(mutex);
    for (auto [at, end] = known.equal_range(key); at != end; ++at) {
      const auto& block = seen.emplace_back(at->second.lock());
      if (block == nullptr) continue;
      if (!elements.defined() || std::memcmp(block->memory.raw(), elements.raw(), elements.bytes()) == 0) return block;
    }
    return nullptr;
  }

  void add(const Key& key, const std::shared_ptr<Block>& block) {
    const std::scoped_lock lock(mutex);
    block->keys.push_back(key);
    known.emplace(key, block);
  }

  /// The block of these elements: one that is there, or another.
  std::shared_ptr<Block> obtain(const Tensor& host, Device device) {
    const bool compares = device.is_cpu();
    const std::scoped_lock alone(making[compares ? 0 : static_cast<std::size_t>(1 + device.index) % making.size()]);
    Key key = {compares ? -1 : device.index, host.bytes(),
               hash_of(host.raw(), compares ? std::min<std::size_t>(4096, host.bytes()) : host.bytes())};
    auto block = find(key, compares ? host : Tensor());
    if (block == nullptr && !compares && DryRun::active()) key.device = -3 - key.device, block = find(key);
    if (block == nullptr) add(key, block = std::make_shared<Block>(host.to(device), true));
    return block;
  }
};

/// Of a store that was left behind by a fork, nothing is of interest.
Block::~Block() {
  if (keys.empty()) return;
  Store& store = Store::here();
  const std::scoped_lock lock(store.mutex);
  for (const Key& key : keys) {
    for (auto [at, end] = store.known.equal_range(key); at != end;) {
      at = at->second.expired() ? store.known.erase(at) : std::next(at);
    }
  }
}

}  // namespace

/// What one Plan asked for.
struct ConstantsAsked {
  struct Kept {
    std::size_t bytes;
    bool counts;
  };

  ConstantsAsked* const outer;
  std::map<const std::byte*, Kept> kept = {};
  std::map<const void*, std::weak_ptr<Block>> blocks = {};  // by address
  std::map<std::string, std::weak_ptr<Block>> packed = {};  // by the packing and the addresses of kept sources
  std::vector<std::weak_ptr<Block>> all = {};
  std::size_t step = 0;  // of all, where it begins
  std::set<std::shared_ptr<Block>> derived = {};
  std::size_t room = 0;  // for more of that, bytes

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

/// The block's, as that tensor.
Tensor hand_out(const std::shared_ptr<Block>& block, Shape shape, DType dtype) {
  if (asking != nullptr) {
    asking->blocks[block->memory.raw()] = block;
    asking->all.push_back(block);
  }
  return Tensor::borrow(block->memory.raw(), shape, dtype, block->memory.device(), block);
}

/// Of a block of the store it is kept, with the lock of whoever packs.
Hash hash_of_source(const Tensor& source) {
  const auto found = asking == nullptr ? nullptr : asking->blocks[source.raw()].lock();
  if (found == nullptr || found->memory.bytes() != source.bytes()) return hash_of(source.raw(), source.bytes());
  if (!found->hash) found->hash = hash_of(source.raw(), source.bytes());
  return *found->hash;
}

}  // namespace

Tensor packed(const Packing& packing, std::initializer_list<Tensor> sources, Shape shape, DType dtype,
              const std::function<void(Tensor& to)>& pack) {
  std::string key = packing.how;
  bool stays = asking != nullptr;
  for (const Tensor& source : sources) {
    stays = stays && (!source.defined() || asking->find_kept(source) != nullptr);
    key += Packing("", source.raw(), source.bytes()).how;
  }
  std::shared_ptr<Block> block = stays ? asking->packed[key].lock() : nullptr;
  if (block == nullptr) {
    Store& store = Store::here();
    const std::scoped_lock alone(store.making[0]);
    Key from = {-2, bytes_of(shape, {.dtype = dtype}), hash_of(packing.how.data(), packing.how.size())};
    if (store.find(from) != nullptr) {  // or nothing was packed so yet, and there is nothing to hash for
      for (const Tensor& source : sources) {
        const std::array<Hash, 3> all = {from.hash, hash_of_source(source), {source.bytes()}};
        from.hash = hash_of(&all, sizeof all);
      }
      block = store.find(from);
    }
    if (block == nullptr) {
      Tensor result(shape, dtype);
      pack(result);
      block = store.obtain(result, Device::cpu());
      store.add(from, block);
    }
    if (stays) asking->packed[key] = block;
  }
  return hand_out(block, shape, dtype);
}

Tensor derived(const Packing& packing, std::initializer_list<Tensor> sources, Shape shape, DType dtype,
               const std::function<void(Tensor& to)>& pack) {
  Tensor result = packed(packing, sources, shape, dtype, pack);
  if (asking == nullptr || result.bytes() > asking->room) return result;
  const auto found = asking->blocks.find(result.raw());
  const auto block = found == asking->blocks.end() ? nullptr : found->second.lock();
  if (block != nullptr && asking->derived.insert(block).second) asking->room -= result.bytes();
  return result;
}

Tensor constant(const Tensor& host, Device device) {
  const bool stays = device.is_cpu();
  if (!host.defined() || (stays && asking == nullptr)) return host;
  if (host.bytes() == 0) return host.to(device);
  const auto* const kept = stays ? asking->find_kept(host) : nullptr;
  std::shared_ptr<Block> block = stays ? asking->blocks[host.raw()].lock() : nullptr;
  if (block == nullptr || block->memory.bytes() != host.bytes()) {
    block = kept != nullptr ? std::make_shared<Block>(host, kept->counts) : Store::here().obtain(host, device);
  }
  return hand_out(block, host.shape(), host.dtype());
}

PlanConstants::PlanConstants() : asked_(new ConstantsAsked{asking}) { asking = asked_.get(); }
PlanConstants::~PlanConstants() { asking = asked_->outer; }

void PlanConstants::keep(const Tensor& tensor, bool counts) {
  if (tensor.defined()) asked_->kept.insert({static_cast<const std::byte*>(tensor.raw()), {tensor.bytes(), counts}});
}

void PlanConstants::keep_derived(std::size_t bytes) { asked_->room = bytes; }

std::vector<std::shared_ptr<const void>> PlanConstants::kept_derived() const {
  return {asked_->derived.begin(), asked_->derived.end()};
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
