#include "lamina/files/weights.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "lamina/base/content.h"
#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/names.h"
#include "lamina/files/npy.h"
#include "lamina/files/safetensors.h"
#include "lamina/files/torch/pth.h"

namespace lamina {
namespace {

detail::StoredTensors read_any(std::shared_ptr<const detail::MappedFile> file, const std::string& key) {
  using namespace detail;
  const bool others = looks_like_safetensors(*file) || looks_like_npy(*file) || looks_like_npz(*file);
  if (!others && looks_like_pth(*file)) return read_pth(std::move(file), key);
  if (!key.empty()) {
    fail(file->path(), ": expected a PyTorch checkpoint, for its key ", quote(key),
         "; the tensors of other files are under none");
  }
  if (looks_like_safetensors(*file)) return read_safetensors(std::move(file));
  if (looks_like_npy(*file)) return read_npy(std::move(file));
  if (looks_like_npz(*file)) return read_npz(std::move(file));
  const std::span<const std::byte> bytes = file->bytes();
  if (std::filesystem::path(file->path()).extension() == ".onnx" && !looks_like_onnx(bytes)) {
    fail(file->path(), ": not an ONNX model, which begins with its ir_version (a byte 08, then the number)",
         found_content(bytes));
  }
  if (looks_like_onnx(bytes)) {
    fail(file->path(), ": this is an ONNX model, and no file of tensors (.safetensors, .npy, .npz or .pth)");
  }
  // Of what begins as a pickle and is none, the first byte is of a length.
  if (bytes[0] != std::byte{0x80} && !content_of(bytes).name.empty())
    fail(file->path(), ": not a safetensors, .onnx, .npy or .pth file", found_content(bytes));
  return read_safetensors(std::move(file));  // says what is wrong with it
}

/// Throws Error if no name begins with the prefix, or if it ends in the middle of a part of one.
void require_prefix(const Weights& weights, const std::string& prefix, const std::string& path) {
  const std::vector<std::string> names = weights.names();
  const auto begins_so = [&](const std::string& name) { return name.starts_with(prefix); };
  const auto found = std::ranges::find_if(names, begins_so);
  if (found == names.end()) {
    detail::fail(path, ": no name begins with ", detail::quote(prefix),
                 names.empty() ? "; there are no tensors" : "; the first is " + detail::quote(names[0]));
  }
  if (found->size() == prefix.size() || (*found)[prefix.size()] == '.') {
    detail::fail(path, ": without ", detail::quote(prefix), " nothing is left of ", detail::quote(*found),
                 " in front of a dot; a prefix ends with one, ", detail::quote(prefix + '.'));
  }
}

}  // namespace

Weights Weights::open(const std::string& path, const OpenOptions& options) {
  return open(detail::MappedFile::open(path), options);
}

Weights Weights::open(std::span<const std::byte> file, const OpenOptions& options, const std::string& name) {
  return open(detail::MappedFile::copy(file, name), options);
}

Weights Weights::open(std::shared_ptr<const detail::MappedFile> file, const OpenOptions& options) {
  const std::string path = file->path();
  detail::StoredTensors stored = read_any(std::move(file), options.key);
  Weights result;
  result.notes_ = std::move(stored.notes);
  result.file_ = std::move(stored.file);
  result.metadata_ = std::move(stored.metadata);
  std::uint64_t total = 0;
  for (detail::StoredTensor& tensor : stored.tensors) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    tensor.total = total = detail::checked_add(total, tensor.info.bytes).value_or(most);
    if (!result.index_.emplace(tensor.info.name, result.entries_.size()).second) {
      detail::fail(path, ": two tensors are named ", detail::quote(tensor.info.name));
    }
    result.entries_.push_back({std::move(tensor), {}});
  }
  if (options.strip_prefix.empty()) return result;
  require_prefix(result, options.strip_prefix, path);
  return result.without_prefix(options.strip_prefix);
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> result;
  for (const Entry& entry : entries_) result.push_back(entry.stored.info.name);
  return result;
}

std::vector<TensorInfo> Weights::entries() const {
  std::vector<TensorInfo> result;
  for (const Entry& entry : entries_) result.push_back(entry.stored.info);
  return result;
}

const TensorInfo* Weights::info(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second].stored.info;
}

Tensor Weights::read(const Entry& entry) const {
  return entry.tensor.defined() ? entry.tensor : detail::read_tensor(entry.stored, file_);
}

std::optional<Tensor> Weights::find(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) return std::nullopt;
  return read(entries_[found->second]);
}

Tensor Weights::at(std::string_view name) const {
  if (std::optional<Tensor> tensor = find(name)) return *std::move(tensor);
  detail::fail(file_ ? file_->path() + ": " : "", "no tensor ", detail::quote(name),
               detail::nearest_text(name, names()));
}

void Weights::set(const std::string& name, Tensor tensor) {
  if (!tensor.defined()) detail::fail("cannot set tensor ", detail::quote(name), ": it is undefined");
  Entry entry;
  entry.stored.dtype = tensor.dtype();
  entry.stored.info = {
      name, std::string(lamina::name(tensor.dtype())), {tensor.shape().begin(), tensor.shape().end()}, tensor.bytes()};
  entry.tensor = std::move(tensor);
  const auto [place, inserted] = index_.emplace(name, entries_.size());
  if (inserted) {
    entries_.push_back(std::move(entry));
  } else {
    entries_[place->second] = std::move(entry);
  }
}

Weights Weights::without_prefix(std::string_view prefix) const {
  Weights result = *this;
  result.index_.clear();
  for (Entry& entry : result.entries_) {
    std::string& name = entry.stored.info.name;
    if (name.starts_with(prefix)) name.erase(0, prefix.size());
    const std::size_t place = static_cast<std::size_t>(&entry - result.entries_.data());
    if (!result.index_.emplace(name, place).second) {
      detail::fail("without the prefix ", detail::quote(prefix), " two tensors are named ", detail::quote(name));
    }
  }
  return result;
}

void Weights::save(const std::string& path) const {
  std::vector<detail::OutputTensor> outputs;
  for (const Entry& entry : entries_) {
    const detail::StoredTensor& stored = entry.stored;
    if (!entry.tensor.defined()) detail::require_usable(stored, *file_);
    outputs.push_back({stored.info.name, *stored.dtype, Shape(std::span<const std::int64_t>(stored.info.shape)),
                       [this, &entry] { return read(entry); }});
  }
  detail::write_safetensors(path, std::move(outputs), metadata_);
}

}  // namespace lamina
