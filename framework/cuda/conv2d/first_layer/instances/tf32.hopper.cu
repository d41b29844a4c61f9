#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/kernel.cuh"

namespace lamina::cuda::first_layer {
namespace {

const void* function(int filters) {
  switch (filters) {
    case 32: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::tf32, float, 32>);
    case 48: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::tf32, float, 48>);
    case 64: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::tf32, float, 64>);
    default: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::tf32, float, 96>);
  }
}

}  // namespace

Instance tf32_instance(int filters) {
  return {function(filters), Team<Precision::tf32>::threads, Team<Precision::tf32>::computing,
          Team<Precision::tf32>::staging * Team<Precision::tf32>::raw_slots};
}

}  // namespace lamina::cuda::first_layer
