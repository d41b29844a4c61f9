#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/export.h"
#include "lamina/files/stored_tensor.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// Which of a file's tensors are opened, and under which names.
struct OpenOptions {
  /// Of a PyTorch checkpoint, where its weights are: "ema", or "ema.state_dict". Empty: found as `Weights::open` says.
  std::string key = {};
  /// Left out of every name that begins with it, such as "backbone."; a name that does not stays as it is.
  std::string strip_prefix = {};
};

/// Named tensors in order, and string metadata: what a weight file holds. Copies share the tensors' memory.
///
///   Weights weights = Weights::open("alexnet.safetensors");
///   Tensor w = weights.at("features.0.weight");            // a view of the memory-mapped file
class LAMINA_API Weights {
 public:
  Weights() = default;

  /// Opens a weight file, recognised by its content and not by its name:
  /// - safetensors;
  /// - NumPy's .npy, whose one tensor is named by the file's stem ("image" for "dir/image.npy"), and .npz;
  /// - PyTorch's .pth and .pt, zip or legacy: a state dict, also one that a checkpoint holds under a usual key, such as
  ///   "model", or the only one that it holds under any; prefixes "module." and "_orig_mod." that all names share are
  ///   left out, and so are values that are no tensors, and objects. Nothing in the file is executed. `notes` says what
  ///   was chosen.
  ///
  /// The file is memory-mapped, and checked as a whole before this returns; no tensor is read yet. Throws Error naming
  /// the file, the tensor, what was expected and what was found; where there are several sets of weights of which none
  /// is the likeliest, naming their keys; if there is nothing under `options.key`, or no name begins with
  /// `options.strip_prefix`.
  static Weights open(const std::string& path, const OpenOptions& options = {});

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }

  /// In the file's order, then in order of insertion.
  std::vector<std::string> names() const;
  bool contains(std::string_view name) const { return index_.contains(name); }

  /// Every tensor's name, dtype, shape and bytes, without reading any; also of tensors that can only be listed.
  std::vector<TensorInfo> entries() const;
  /// One of them; null if there is none of that name. Valid until the Weights change.
  const TensorInfo* info(std::string_view name) const;

  /// The tensor of that name, on the device it was put there; nothing if there is none. From a file it is a view that
  /// keeps the mapping alive; where the file stores it misaligned, strided or in another byte order, each call makes
  /// a packed copy. Writing to a view is seen by the other views but never reaches the file.
  /// Throws Error for a tensor that can only be listed: of a dtype or a rank that Tensor has not.
  std::optional<Tensor> find(std::string_view name) const;

  /// As `find`, but throws Error, naming the nearest names, if there is none of that name.
  Tensor at(std::string_view name) const;

  /// Puts a tensor in at the end, or in the place of the one of that name. Throws Error if it is undefined.
  void set(const std::string& name, Tensor tensor);

  /// The same tensors and metadata under names without `prefix`, where they have it. Throws Error if two names are then
  /// the same.
  Weights without_prefix(std::string_view prefix) const;

  /// What opening chose and left out where the file did not say: a sentence each, with the file's name in front.
  const std::vector<std::string>& notes() const { return notes_; }

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }

  /// Writes all tensors and the metadata as safetensors. The old file stays intact if that fails; it may be the one
  /// these Weights were opened from. Throws Error if the system refuses, for a tensor that can only be listed, and for
  /// names that are not UTF-8 or are "__metadata__".
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
