// c = alpha * a b of f16 or bf16 on tensor cores, see matmul_tile.cuh.

#include "lamina/cuda/product/matmul_tile.cuh"

namespace lamina::cuda {
namespace {

using namespace tiles;

struct Scaled {
  float alpha = 1;

  template <class Row>  // as finish: before 8.0 nobody calls them
  __device__ float of_row(Row) const {
    return alpha;
  }

  template <class T, int n>
  __device__ void finish(float (&values)[n], float factor, std::int64_t, std::int64_t) const {
#pragma unroll
    for (float& value : values) value *= factor;
  }
};

template <class Tile, class T>
void dispatch(int device, const MatMulExtents& e, const T* a, const T* b, T* c, Stream stream) {
  const auto run = [&]<bool x, bool y>(std::bool_constant<x>, std::bool_constant<y>) {
    launch<Tile, x, y, false>(device, e, units_of(e, a, b, c), a, b, c, Scaled{static_cast<float>(e.alpha)}, stream);
  };
  using std::false_type, std::true_type;
  if (turns_a(e)) {
    turns_b(e) ? run(true_type(), true_type()) : run(true_type(), false_type());
  } else {
    turns_b(e) ? run(false_type(), true_type()) : run(false_type(), false_type());
  }
}

}  // namespace

bool takes_matmul_mma(const MatMulProblem& problem, const Preparation& p) {
  return takes_matmul_any(problem, p) && size_of(p.input().format.dtype) == 2 && p.device.architecture >= 80;
}

std::unique_ptr<Operator> prepare_matmul_mma(const MatMulProblem& problem, const Preparation& p) {
  const MatMulExtents e = detail::matmul_extents(problem, p);
  const bool enough = large_pays(e, p.device);
  return make_on_device(index(p), "mma.sync",
                        [e, enough, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                          const auto run = [&]<class T>(T*) {
                            const T *a = elements<T>(inputs[0]), *b = elements<T>(inputs[1]);
                            T* c = elements<T>(outputs[0]);
                            enough ? dispatch<Large>(device, e, a, b, c, execution.stream)
                                   : dispatch<Small>(device, e, a, b, c, execution.stream);
                          };
                          outputs[0].dtype() == DType::f16 ? run(static_cast<__half*>(nullptr))
                                                           : run(static_cast<__nv_bfloat16*>(nullptr));
                        });
}

}  // namespace lamina::cuda
