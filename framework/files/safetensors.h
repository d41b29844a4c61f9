#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/export.h"
#include "lamina/files/stored_tensor.h"
#include "lamina/tensor/dtype.h"
#include "lamina/tensor/shape.h"

namespace lamina::detail {

/// Whether the file could be meant as safetensors: a believable header length, then a brace.
bool looks_like_safetensors(const MappedFile& file);

/// Reads and checks the header of a safetensors file, by the rules of the format's specification
/// (github.com/huggingface/safetensors): offsets that cover the data exactly, without holes or overlap.
/// Throws Error naming the file, the tensor, what was expected and what was found.
StoredTensors read_safetensors(std::shared_ptr<const MappedFile> file);

/// A tensor to be written; `read` gives the elements, on any device, when their turn comes.
struct OutputTensor {
  std::string name;
  DType dtype;
  Shape shape;
  std::function<Tensor()> read;
};

/// Throws Error unless the file's name ends in one of these, or has no ending: no format is written under the name of
/// another.
LAMINA_API void require_ending(const std::filesystem::path& path, std::initializer_list<std::string_view> endings);

/// Writes `path`, which ends in .safetensors, atomically: widest elements first, then by name, the data aligned to 8
/// bytes. Throws Error for names the format cannot hold (not UTF-8, "__metadata__") and when the system refuses.
void write_safetensors(const std::filesystem::path& path, std::vector<OutputTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace lamina::detail
