#pragma once

#include <memory>
#include <string>

#include "lamina/base/mapped_file.h"
#include "lamina/files/stored_tensor.h"

namespace lamina::detail {

/// Whether the file could be one that torch.save wrote, of any age.
bool looks_like_pth(const MappedFile& file);

/// Reads a PyTorch state dict (.pth, .pt), that under `key` in it if that is not empty: the zip container that
/// torch.save writes since 1.6, and the legacy container before it. Nothing in the file is executed. The tar container
/// of 2016 is recognised and refused with advice, and so are TorchScript archives. Throws Error naming the file, the
/// tensor or entry, and what is wrong.
StoredTensors read_pth(std::shared_ptr<const MappedFile> file, const std::string& key = {});

}  // namespace lamina::detail
