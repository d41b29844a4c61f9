#include "lamina/files/torch/pth.h"

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/files/torch/state_dict.h"
#include "lamina/files/torch/unpickler.h"
#include "lamina/files/zip_archive.h"

namespace lamina::detail {
namespace {

// The first pickle of a legacy file is this number, 0x1950a86a20f9469cfc6c.
constexpr std::string_view legacy_magic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t legacy_version = 1001;

constexpr std::size_t tar_magic_offset = 257;
constexpr std::string_view tar_magic = "ustar";

bool looks_like_tar(const MappedFile& file) {
  const std::string_view text = text_of(file.bytes());
  return text.size() > tar_magic_offset && text.substr(tar_magic_offset).starts_with(tar_magic);
}

std::string stem_of(const MappedFile& file) { return std::filesystem::path(file.path()).stem().string(); }

/// Joins a tensor with the bytes of its storage's key.
StoredTensor place(TorchTensor tensor, std::span<std::byte> data, const std::string& path) {
  const TorchStorage& storage = tensor.storage;
  const std::uint64_t needed = storage.numel * storage.element_bytes;  // does not overflow: read_torch_storage
  if (data.size() < needed) {
    fail(path, ": tensor ", quote(tensor.name), ": expected ", needed, " bytes for its storage of ", storage.numel, ' ',
         storage.dtype_name, ", got ", data.size());
  }
  StoredTensor stored;
  stored.info = {std::move(tensor.name), storage.dtype_name, std::move(tensor.shape), tensor.bytes};
  stored.dtype = storage.dtype;
  stored.strides = std::move(tensor.strides);
  // An empty tensor may claim any offset: it has no elements to find there.
  if (tensor.bytes != 0) stored.data = data.data() + (storage.begin + tensor.offset) * storage.element_bytes;
  return stored;
}

/// Whether the file's numbers are big-endian, as a file without the entry `name` never is.
bool read_byteorder(const ZipArchive& zip, const std::string& name, const std::string& path) {
  if (!zip.contains(name)) return false;
  const std::string_view order = text_of(zip.entry(name));
  if (order != "little" && order != "big") fail(path, ": expected byteorder little or big, got ", quote(order));
  return order == "big";
}

StoredTensors read_zip(std::shared_ptr<const MappedFile> file, const std::string& key) {
  const std::string& path = file->path();
  const ZipArchive zip(file);
  const std::string pickle_name = zip.find_suffix("data.pkl");
  const std::string folder = pickle_name.substr(0, pickle_name.size() - std::string_view("data.pkl").size());
  if (zip.contains(folder + "constants.pkl")) {
    fail(path,
         ": this is a TorchScript archive, which holds a program; save the weights alone, with "
         "torch.save(module.state_dict(), ...)");
  }
  const bool big_endian = read_byteorder(zip, folder + "byteorder", path);
  const std::span<std::byte> text = zip.entry(pickle_name);
  if (const auto checksum = zip.checksum(pickle_name)) checksum->require(path);
  const Pickle pickle = unpickle(text, path);
  StoredTensors result;
  std::map<std::string, std::shared_ptr<Checksum>> checksums;  // tensors may share an entry
  TorchWeights weights = read_state_dict(pickle, key, stem_of(*file), path);
  result.notes = std::move(weights.notes);
  for (TorchTensor& tensor : weights.tensors) {
    const std::string entry = folder + "data/" + tensor.storage.key;
    const std::span<std::byte> data = zip.entry(entry);
    const auto [known, first] = checksums.try_emplace(entry);
    if (first) known->second = zip.checksum(entry);
    result.tensors.push_back(place(std::move(tensor), data, path));
    result.tensors.back().swap_bytes = big_endian;
    result.tensors.back().checksum = known->second;
  }
  result.file = std::move(file);
  return result;
}

/// Reads a legacy file front to back: five pickles, then the storages' data in the order of the fifth.
class LegacyReader {
 public:
  explicit LegacyReader(const MappedFile& file) : path_(file.path()), stem_(stem_of(file)), rest_(file.bytes()) {}

  StoredTensors read(const std::string& key) {
    check_magic();
    check_version();
    check_system(next());
    const Pickle object = next();
    const Pickle keys = next();
    TorchWeights weights = read_state_dict(object, key, stem_, path_);
    const auto data = read_storages(object, keys);
    if (!rest_.empty())
      fail(path_, ": expected the file to end after its last storage, got ", rest_.size(), " bytes more");
    StoredTensors result;
    result.notes = std::move(weights.notes);
    for (TorchTensor& tensor : weights.tensors) {
      const std::string storage = tensor.storage.key;
      const auto found = data.find(storage);
      if (found == data.end()) fail(path_, ": the file holds no storage ", quote(storage));
      result.tensors.push_back(place(std::move(tensor), found->second, path_));
    }
    return result;
  }

 private:
  Pickle next() {
    Pickle pickle = unpickle(rest_, path_);
    rest_ = rest_.subspan(pickle.size);
    return pickle;
  }

  void check_magic() {
    const Pickle pickle = next();
    const auto* number = as<PickleBigInteger>(pickle.value);
    if (number == nullptr || number->bytes != legacy_magic) {
      fail(path_, ": this is a pickle, but not one that torch.save wrote");
    }
  }

  void check_version() {
    const Pickle pickle = next();
    const auto* version = as<std::int64_t>(pickle.value);
    if (version == nullptr || *version != legacy_version) {
      fail(path_, ": expected version ", legacy_version, " of the legacy PyTorch format, got ",
           version == nullptr ? std::string(kind_of(pickle.value)) : concat(*version));
    }
  }

  void check_system(const Pickle& pickle) const {
    const auto* system = as_object<PickleDict>(pickle.value);
    if (system == nullptr) fail(path_, ": expected a dict of system properties, got ", kind_of(pickle.value));
    for (const auto& [key, value] : system->items) {
      const auto* name = as<std::string_view>(key);
      const auto* flag = as<bool>(value);
      if (name != nullptr && *name == "little_endian" && flag != nullptr && !*flag) {
        fail(path_, ": written on a big-endian machine; load it there and save it again");
      }
    }
  }

  /// Where the data of every storage lies, by key. Its length depends on the element type, which only the object
  /// pickle tells, also of storages that belong to no tensor of the state dict.
  std::map<std::string, std::span<std::byte>> read_storages(const Pickle& object, const Pickle& keys) {
    std::map<std::string, TorchStorage, std::less<>> storages;
    for (const PicklePersistent& persistent : object.persistents) {
      TorchStorage storage = read_torch_storage(persistent, path_);
      const auto [known, inserted] = storages.try_emplace(storage.key, storage);
      if (known->second.dtype_name != storage.dtype_name || known->second.numel != storage.numel) {
        fail(path_, ": two different storages have the key ", quote(storage.key));
      }
    }
    const auto* list = as_object<PickleList>(keys.value);
    if (list == nullptr) fail(path_, ": expected a list of storage keys, got ", kind_of(keys.value));
    std::map<std::string, std::span<std::byte>> data;
    for (const PickleValue& key : list->items) {
      const auto* text = as<std::string_view>(key);
      const auto found = text == nullptr ? storages.end() : storages.find(*text);
      if (found == storages.end()) {
        fail(path_, ": the list of storage keys names ", text == nullptr ? kind_of(key) : quote(*text),
             ", which no tensor uses");
      }
      if (!data.emplace(found->first, read_storage(found->second)).second) {
        fail(path_, ": the list of storage keys names ", quote(*text), " twice");
      }
    }
    return data;
  }

  /// An int64 count of elements, then these.
  std::span<std::byte> read_storage(const TorchStorage& storage) {
    const std::span<const std::byte> count_bytes = take(sizeof(std::uint64_t), storage.key);
    std::uint64_t count = 0;  // little-endian, as the host is
    std::memcpy(&count, count_bytes.data(), sizeof count);
    if (count != storage.numel) {
      fail(path_, ": storage ", quote(storage.key), ": expected ", storage.numel, " elements, got ", count);
    }
    return take(storage.numel * storage.element_bytes, storage.key);
  }

  std::span<std::byte> take(std::uint64_t size, const std::string& key) {
    if (size > rest_.size()) {
      fail(path_, ": storage ", quote(key), ": expected ", size, " bytes, got ", rest_.size(),
           "; the file is truncated");
    }
    const auto taken = rest_.first(static_cast<std::size_t>(size));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

  const std::string& path_;
  std::string stem_;
  std::span<std::byte> rest_;  // not read yet
};

}  // namespace

bool looks_like_pth(const MappedFile& file) {
  // The first byte of a pickle; it may also be of the length that safetensors begin with, before the brace of the
  // header.
  const std::string_view text = text_of(file.bytes());
  return looks_like_zip(file) || looks_like_tar(file) || (text[0] == '\x80' && text.substr(0, 9).back() != '{');
}

StoredTensors read_pth(std::shared_ptr<const MappedFile> file, const std::string& key) {
  if (looks_like_zip(*file)) return read_zip(std::move(file), key);
  if (looks_like_tar(*file)) {
    fail(file->path(),
         ": a tar archive; if PyTorch wrote it, before version 0.1.10 of 2017, load it in Python with "
         "torch.load and save it again with torch.save");
  }
  StoredTensors result = LegacyReader(*file).read(key);
  result.file = std::move(file);
  return result;
}

}  // namespace lamina::detail
