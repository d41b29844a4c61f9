#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <span>

#include "lamina/cuda/runtime/stream.h"
#include "lamina/tensor/tensor.h"

namespace lamina::python {

namespace nb = nanobind;

/// A tensor as Python has it: `lamina.Tensor`. On a GPU the work that fills it may still be under way.
struct Result {
  Tensor tensor;
  cuda::Stream stream = nullptr;               ///< that the work is enqueued on
  std::shared_ptr<const cuda::Event> ready{};  ///< when it is done; null: it is
  std::shared_ptr<const void> owner{};         ///< Python's stream, which others are sent to: it lives as long
  bool read_only = false;
};

void bind_result(nb::module_& m);
/// Functions of `lamina.onnxruntime`'s that make tensors, and copy and wait.
void bind_tensors(nb::module_& m);

/// The tensor as a NumPy array that shares and keeps its memory; as a lamina.Tensor where NumPy has not its type or it
/// is on a GPU.
nb::object to_python(Result result);

/// A tuple of the extents.
nb::tuple to_python(const Shape& shape);
/// A tuple of such tuples.
nb::tuple to_python(std::span<const Shape> shapes);

}  // namespace lamina::python
