#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lamina/kernel/device_description.h"
#include "lamina/kernel/precision.h"
#include "lamina/tensor/format.h"
#include "lamina/tensor/quantization.h"
#include "lamina/tensor/shape.h"

namespace lamina {

struct Finding;

/// How an operand or a result of an operator lies in memory.
struct View {
  Shape shape;  ///< with the batch known; logical, whichever the layout
  Format format = {};
  /// Of an image of which these are some neighbouring channels, where they lie in it; 0: the memory is the activation's
  /// own. Only kernels that say so (Kernel::reads) are given such a slice.
  std::int64_t channels = 0;
  /// Of elements that lie apart in another activation: how many elements apart, along each dimension; rank 0: one after
  /// the other, as the layout says. Only kernels that say so (Kernel::reads) are given such a view.
  Shape strides = {};
  std::size_t alignment = 16;  ///< the address is a multiple of that many bytes
  Quantization quantization = {};

  friend bool operator==(const View&, const View&) = default;

  bool is_slice() const { return channels != 0; }
  bool is_strided() const { return strides.rank() != 0; }
  /// Elements from one pixel to the next of an nhwc image.
  std::int64_t pixel_pitch() const { return is_slice() ? channels : shape[1]; }
};

/// What the rule would otherwise decide, for tests and benchmarks. Zero or negative leaves it to the rule.
struct Tuning {
  int tile = -1;      ///< index into the kernel's list of tiles
  int splits = 0;     ///< pieces of K that are summed apart
  int multicast = 0;  ///< blocks of a cluster that share the copies of the weights
  int outputs = 0;    ///< of a tile
};

/// What a module is prepared for.
struct Preparation {
  std::span<const View> inputs;
  std::span<const View> outputs;
  DeviceDescription device;
  Precision precision = Precision::fp32;
  std::string_view algorithm = {};    ///< the name of the kernel that convolutions run on; empty: by rule
  DType linear_weights = DType::f32;  ///< of a fully connected layer on the CPU: f32, bf16 or f16
  int threads = 1;                    ///< of the pool that will run it
  std::int64_t images = 1;            ///< the Plan's batch: what decides about the order of sums is to count in images
  bool batch_invariant = false;       ///< and must not depend on how many they are: rules/order_of_sums.h
  std::size_t workspace_limit = std::size_t{256} << 20;  ///< bytes
  Tuning tuning = {};
  Finding* finding = nullptr;  ///< where what is found out about this is kept; null: nowhere

  const View& input() const { return inputs[0]; }
  const View& output() const { return outputs[0]; }

  /// Inputs and outputs are stored alike.
  bool keeps_format() const {
    return !any([this](const View& view) {
      return !(view.format == input().format && view.quantization == input().quantization);
    });
  }
  /// All of them are f32 nchw without gaps.
  bool is_plain() const { return keeps_format() && input().format == Format{} && !has_slices() && !has_strides(); }
  /// One of them is a slice.
  bool has_slices() const {
    return any([](const View& view) { return view.is_slice(); });
  }
  /// One of them is strided.
  bool has_strides() const {
    return any([](const View& view) { return view.is_strided(); });
  }

  /// One of them stands for other numbers than those that it holds.
  bool has_codes() const {
    return any([](const View& view) { return view.quantization.defined(); });
  }

 private:
  template <class Predicate>
  bool any(Predicate is) const {
    for (const std::span<const View> views : {inputs, outputs}) {
      for (const View& view : views) {
        if (is(view)) return true;
      }
    }
    return false;
  }
};

}  // namespace lamina
