#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/graph/model.h"

namespace lamina::python {

/// A model file: its path, or an object of Python's that holds its bytes and outlives this.
class ModelSource {
 public:
  explicit ModelSource(nanobind::handle given);

  /// Needs no GIL.
  Model load() const;
  /// What messages call it.
  std::string name() const { return path_.empty() ? "model in memory" : path_.string(); }
  const std::filesystem::path& path() const { return path_; }  ///< empty: of bytes

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

/// The bytes of a `bytes`.
std::span<const std::byte> bytes_of(nanobind::handle bytes);

/// The parameters out of a path, which `options` are for, or a dict of arrays.
Weights weights_from(nanobind::handle source, const OpenOptions& options);

/// What exporters note, by its keys.
using Metadata = decltype(Model::metadata);

/// A model of the same network, whose modules are shared.
Model model_of(const Graph& graph, std::optional<Preprocess> preprocess, std::vector<std::string> labels,
               Metadata metadata = {});

/// Model files, the ready-made networks, and classes out of scores.
void bind_model(nanobind::module_& m);

}  // namespace lamina::python
