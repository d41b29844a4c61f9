#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/kernel.cuh"

namespace lamina::cuda::first_layer {
namespace {

template <class Out>
const void* function(int filters) {
  switch (filters) {
    case 32: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::fp16, Out, 32>);
    case 48: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::fp16, Out, 48>);
    case 64: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::fp16, Out, 64>);
    default: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::fp16, Out, 96>);
  }
}

}  // namespace

Instance fp16_instance(DType output, int filters) {
  return {output == DType::f32 ? function<float>(filters) : function<__half>(filters), Team<Precision::fp16>::threads,
          Team<Precision::fp16>::computing, Team<Precision::fp16>::staging * Team<Precision::fp16>::raw_slots};
}

}  // namespace lamina::cuda::first_layer
