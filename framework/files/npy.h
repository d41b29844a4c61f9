#pragma once

#include <filesystem>
#include <memory>

#include "lamina/base/export.h"
#include "lamina/files/stored_tensor.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// Reads NumPy's .npy, versions 1 to 3: a view of the memory-mapped file where it holds C order, this machine's byte
/// order and aligned data, a copy otherwise. Throws Error for a malformed file and for dtypes Lamina has not
/// (objects, strings, complex numbers, records).
LAMINA_API Tensor load_npy(const std::filesystem::path& path);

/// Writes `tensor`, from any device, as .npy version 1: C order, little-endian. An old file stays intact if writing
/// fails. Throws Error for bf16, which NumPy has not.
LAMINA_API void save_npy(const std::filesystem::path& path, const Tensor& tensor);

namespace detail {

bool looks_like_npy(const MappedFile& file);

/// One tensor, named by the file's stem ("image" for "dir/image.npy"), since the format holds no name.
StoredTensors read_npy(std::shared_ptr<const MappedFile> file);

bool looks_like_npz(const MappedFile& file);

/// The arrays of a .npz, as numpy.savez writes it: a zip of .npy files, which the tensors are named after. Throws
/// Error, naming the entry, for compressed ones and as read_npy does.
StoredTensors read_npz(std::shared_ptr<const MappedFile> file);

}  // namespace detail
}  // namespace lamina
