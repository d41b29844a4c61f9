#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/kernel.cuh"

namespace lamina::cuda::first_layer {
namespace {

template <class Out>
const void* function(int filters) {
  switch (filters) {
    case 32: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::bf16, Out, 32>);
    case 48: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::bf16, Out, 48>);
    case 64: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::bf16, Out, 64>);
    default: return reinterpret_cast<const void*>(&conv2d_sm90_kernel<Precision::bf16, Out, 96>);
  }
}

}  // namespace

Instance bf16_instance(DType output, int filters) {
  return {output == DType::f32 ? function<float>(filters) : function<__nv_bfloat16>(filters),
          Team<Precision::bf16>::threads, Team<Precision::bf16>::computing,
          Team<Precision::bf16>::staging * Team<Precision::bf16>::raw_slots};
}

}  // namespace lamina::cuda::first_layer
