#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/pool_geometry.h"
#include "lamina/tensor/format.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

class ThreadPool;

/// What a module is prepared for.
struct Preparation {
  std::span<const Shape> inputs;  ///< with the batch known
  Device device;
  Precision precision = Precision::fp32;
  ConvAlgorithm algorithm = ConvAlgorithm::automatic;
  DType linear_weights = DType::f32;                     ///< of a fully connected layer on the CPU: f32, bf16 or f16
  Format input = {};                                     ///< how every input is stored
  Format output = {};                                    ///< how the output is to be stored
  int threads = 1;                                       ///< of the pool that will run it
  bool relu = false;                                     ///< apply a ReLU to the output
  std::optional<PoolGeometry> pool = {};                 ///< then max pooling; the output is the pooled map
  std::size_t workspace_limit = std::size_t{256} << 20;  ///< bytes
};

/// What an operator runs with.
struct Execution {
  ThreadPool* pool = nullptr;  ///< on the CPU
  void* stream = nullptr;      ///< on a GPU: a cudaStream_t
  void* workspace = nullptr;   ///< workspace_bytes() on the operator's device
};

/// A module made ready for one device and one input shape: kernel chosen, weights where they are needed.
/// Running it allocates nothing.
class LAMINA_API Operator {
 public:
  virtual ~Operator() = default;

  /// The kernel and why, for people.
  virtual std::string description() const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Bytes of packed copies of the parameters that this operator owns.
  virtual std::size_t parameter_bytes() const { return 0; }

  /// Computes `output` from `inputs`, all on the operator's device, of the shapes and in the formats it was prepared
  /// for. A tensor has its logical shape; its address is where the elements begin, in the order of its layout.
  virtual void run(std::span<const Tensor> inputs, Tensor& output, const Execution& execution) const = 0;
};

}  // namespace lamina
