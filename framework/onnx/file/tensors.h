#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "lamina/onnx/file/proto.h"
#include "lamina/tensor/tensor.h"

namespace lamina::detail::onnx {

/// Reads a model's tensors: views of the mapped file where the elements lie as a Tensor wants them, else copies. Maps
/// each file of external data once, and none outside the model's folder.
class Tensors {
 public:
  /// External data lie in the folder of the model's file, as the caller wrote its path; nowhere, if it is in memory.
  explicit Tensors(std::shared_ptr<const MappedFile> model);

  /// Throws Error naming the file and the tensor: for an element type that DType has not, more dimensions than a Shape
  /// has, external data that are missing, too short or outside the folder.
  Tensor read(const TensorProto& tensor);

 private:
  struct External {
    std::shared_ptr<const MappedFile> file;
    std::span<std::byte> bytes;
  };

  struct Part;

  std::shared_ptr<void> owner(const External& source, bool external);
  External external(const TensorProto& tensor, std::uint64_t bytes);
  std::shared_ptr<const MappedFile> map(const TensorProto& tensor);
  [[noreturn]] void refuse(const TensorProto& tensor, const std::string& why) const;

  std::shared_ptr<const MappedFile> model_;
  std::filesystem::path folder_;
  std::map<std::filesystem::path, std::shared_ptr<const MappedFile>> files_;  // by canonical path
  std::map<std::string, std::shared_ptr<const MappedFile>> locations_;        // the same by what the model calls them
  std::map<const std::byte*, std::weak_ptr<Part>> parts_;  // of the model's file, by where they begin
  std::uint64_t mapped_ = 0, copied_ = 0;                  // bytes
};

}  // namespace lamina::detail::onnx
