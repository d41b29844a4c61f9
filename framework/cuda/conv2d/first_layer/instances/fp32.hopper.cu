#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/kernel.cuh"

namespace lamina::cuda::first_layer {
namespace {

const void* function(int filters) {
  switch (filters) {
    case 32: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::fp32, float, 32>);
    default: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::fp32, float, 48>);
  }
}

}  // namespace

Instance fp32_instance(int filters) {
  return {function(filters), Team<Precision::fp32>::threads, Team<Precision::fp32>::computing,
          Team<Precision::fp32>::staging * Team<Precision::fp32>::raw_slots};
}

}  // namespace lamina::cuda::first_layer
