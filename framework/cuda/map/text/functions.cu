// The functions of elements, each by itself: compiled to text when the library is built (nvcc -ptx), of which
// functions.h takes the bodies. None of it is linked.
//
// Named TYPE_FUNCTION; "f16" are f32's for what is rounded to 16 bits next, where the special functions are enough.

#include "lamina/cuda/finish.cuh"
#include "lamina/kernel/rules/whole_function.h"

using namespace lamina;

#define LAMINA_FLOATS(name, ...)                                                       \
  extern "C" __device__ __noinline__ float f32_##name(float v, float x, float y) {     \
    return cuda::one_function(Pointwise::name, v, x, y);                               \
  }                                                                                    \
  extern "C" __device__ __noinline__ double f64_##name(double v, double x, double y) { \
    return cuda::one_function(Pointwise::name, v, x, y);                               \
  }
#define LAMINA_WHOLE(name, ...)                                                                                    \
  extern "C" __device__ __noinline__ std::int64_t i64_##name(std::int64_t v, std::int64_t x, std::int64_t y) {     \
    return detail::whole_function(Pointwise::name, v, x, y);                                                       \
  }                                                                                                                \
  extern "C" __device__ __noinline__ std::uint64_t u64_##name(std::uint64_t v, std::uint64_t x, std::uint64_t y) { \
    return detail::whole_function(Pointwise::name, v, x, y);                                                       \
  }
LAMINA_POINTWISE_FUNCTIONS(LAMINA_FLOATS)
LAMINA_POINTWISE_FUNCTIONS(LAMINA_WHOLE)

extern "C" __device__ __noinline__ float f16_sigmoid(float v, float, float) {
  return cuda::reciprocal16(1.0f + cuda::exponential16(-v));
}
extern "C" __device__ __noinline__ float f16_silu(float v, float, float) { return cuda::silu<__half>(v); }
extern "C" __device__ __noinline__ float f16_gelu(float v, float, float) { return cuda::gelu16(v); }
extern "C" __device__ __noinline__ float f16_exp(float v, float, float) { return cuda::exponential16(v); }
