#pragma once

#include <string>

#include "lamina/files/torch/pickle.h"

/// Where the weights are in what training scripts save.
namespace lamina::detail {

/// The dict of tensors to read, and how it was found.
struct FoundWeights {
  const PickleDict* dict = nullptr;
  std::string
      note;  // which of the checkpoint's it is and which there are beside it; empty: it is the checkpoint itself
};

/// The weights of a checkpoint: the dict itself, or one that it holds, maybe several deep: {"model": {"state_dict":
/// …}}. `key` says which, by its keys joined by dots ("ema", "model.state_dict"). Without one it is what lies under a
/// key that weights usually have, the likeliest of them, or the only dict of tensors there is. Throws Error naming
/// those there are if that does not tell, or if there is nothing under `key`.
FoundWeights find_weights(const PickleDict& checkpoint, const std::string& key, const std::string& path);

}  // namespace lamina::detail
