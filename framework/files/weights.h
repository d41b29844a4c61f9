#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/export.h"
#include "lamina/files/stored_tensor.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// Which of a file's tensors are opened, and under which names.
struct OpenOptions {
  /// Where a PyTorch checkpoint has its weights: "ema", or "ema.state_dict". Empty: found as `Weights::open` says.
  std::string key = {};
  /// A prefix that is removed from names, such as "backbone.". Names without it stay as they are.
  std::string strip_prefix = {};
};

/// The content of a weight file: named tensors in order, and string metadata. Copies share the tensors' memory.
///
///   Weights weights = Weights::open("alexnet.safetensors");
///   Tensor w = weights.at("features.0.weight");            // a view of the memory-mapped file
class LAMINA_API Weights {
 public:
  Weights() = default;

  /// Opens a weight file. Its content tells the format, not its name:
  /// - safetensors;
  /// - NumPy's .npy and .npz; the one tensor of an .npy has the file's stem as its name ("image" for "dir/image.npy");
  /// - PyTorch's .pth and .pt, zip or legacy, with a state dict. A checkpoint has it under a usual key, such as
  ///   "model", or it is the only one under any key. Prefixes "module." and "_orig_mod." that all names share are
  ///   removed. Values that are not tensors are ignored. Nothing in the file is executed. `notes` says what was chosen.
  ///
  /// The file is memory-mapped, and checked as a whole before this returns; no tensor is read yet. Throws Error with
  /// the file, the tensor, what was expected and what was found. Throws Error too if there are several sets of weights
  /// and none is the likeliest (it names their keys), if there is nothing under `options.key`, or if no name begins
  /// with `options.strip_prefix`.
  static Weights open(const std::string& path, const OpenOptions& options = {});
  /// The same from the bytes of such a file, which are copied. Errors call them `name`.
  static Weights open(std::span<const std::byte> file, const OpenOptions& options = {},
                      const std::string& name = "weights in memory");
  static Weights open(std::shared_ptr<const detail::MappedFile> file, const OpenOptions& options = {});

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }

  /// In the file's order, then in order of insertion.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return index_.contains(name); }

  /// Name, dtype, shape and bytes of every tensor, without reading one; also of tensors that can only be listed.
  std::vector<TensorInfo> entries() const;
  /// The same for one tensor; null if there is none with that name. Valid until the Weights change.
  const TensorInfo* info(std::string_view name) const;

  /// The tensor with that name, on the device on which it was set; empty if there is none. A tensor from a file is a
  /// view that keeps the mapping alive. If the file stores it misaligned, strided or in another byte order, each call
  /// makes a packed copy. If you write to a view, the other views see it, but the file never changes. Throws Error for
  /// a tensor that can only be listed, because Tensor does not have its dtype or rank.
  std::optional<Tensor> find(std::string_view name) const;

  /// As `find`, but throws Error if there is none with that name. The message has the nearest names.
  Tensor at(std::string_view name) const;

  /// Adds a tensor at the end, or replaces the one with that name. Throws Error if the tensor is undefined.
  void set(const std::string& name, Tensor tensor);

  /// The same tensors and metadata, with `prefix` removed from the names that have it. Throws Error if two names are
  /// then the same.
  Weights without_prefix(std::string_view prefix) const;

  /// What opening chose and left out: one sentence for each, with the file's name in front.
  const std::vector<std::string>& notes() const { return notes_; }

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }

  /// Writes all tensors and the metadata as safetensors. If it fails, the old file stays as it was. The path may be the
  /// file from which these Weights were opened. Throws Error if the system refuses, for a tensor that can only be
  /// listed, and for names that are not UTF-8 or are "__metadata__".
  void save(const std::string& path) const;

 private:
  struct Entry {
    detail::StoredTensor stored;  // only the info and dtype of a tensor that was put in
    Tensor tensor;                // undefined for one that lies in the file
  };

  Tensor read(const Entry& entry) const;

  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;  // name -> place in entries_
  std::map<std::string, std::string> metadata_;
  std::vector<std::string> notes_;
  std::shared_ptr<const detail::MappedFile> file_;  // of the StoredTensors
};

}  // namespace lamina
