#include "lamina/cuda/sm90_instance.h"
#include "lamina/cuda/sm90_kernel.cuh"

namespace lamina::cuda::sm90 {
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

}  // namespace lamina::cuda::sm90
