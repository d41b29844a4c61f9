#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lamina/files/torch/pickle.h"
#include "lamina/tensor/dtype.h"

/// The meaning of torch.save's pickles: which storages and tensors they describe. Sizes and bounds of the tensors are
/// checked against what their storage claims to hold; whether the file holds that is for the container to say.
namespace lamina::detail {

/// A flat array of elements that tensors share pieces of.
struct TorchStorage {
  std::string key;         // names its data in the container
  std::string dtype_name;  // "f32", "c64", ...
  std::optional<DType> dtype;
  std::uint64_t element_bytes = 0;
  std::uint64_t numel = 0;  // of the whole array under that key
  std::uint64_t begin = 0;  // in elements: the part of it that is the storage, for the views of old files
  std::uint64_t size = 0;   // of that part
};

struct TorchTensor {
  std::string name;
  TorchStorage storage;
  std::uint64_t offset = 0;  // in elements from the storage's beginning
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  // in elements
  std::uint64_t bytes = 0;            // of the elements, packed
};

/// Interprets a persistent id: ('storage', class, key, location, numel) or the same with a view at the end.
TorchStorage read_torch_storage(const PicklePersistent& persistent, const std::string& path);

struct TorchWeights {
  std::vector<TorchTensor> tensors;
  std::vector<std::string> notes;  // what was chosen and left out, a sentence each
};

/// The tensors of a checkpoint, in order, as find_weights finds them; prefixes "module." and "_orig_mod." that all
/// names share are left out, and so are values that are no tensors (epoch numbers and the like). A checkpoint that is a
/// single tensor gives that, named `stem`.
TorchWeights read_state_dict(const Pickle& pickle, const std::string& key, const std::string& stem,
                             const std::string& path);

}  // namespace lamina::detail
