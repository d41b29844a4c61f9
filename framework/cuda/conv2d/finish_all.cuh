#pragma once

#include "lamina/cuda/finish.cuh"

namespace lamina::cuda {

/// What is done to a thread's sums, bias included: what is inlined once for all of them, for code that is run once for
/// each would take more time than the products; other chains piece by piece. `each(f)` calls f(sums, load) for all
/// pieces, which are neighbouring channels of an output; load(to) gives what is added to them.
template <class T, class Each>
__device__ __forceinline__ void finish_all(const Finish& finish, const Each& each) {
  if (finish.kind == Finish::Kind::chain) {
    each([&]<int n>(float(&sums)[n], const auto& load) {
      float residual[n] = {};
      load(residual);
      call_chain(finish, sums, residual);
    });
    return;
  }
  if (finish.residual != nullptr) {
    each([&]<int n>(float(&sums)[n], const auto& load) {
      float residual[n] = {};
      load(residual);
#pragma unroll
      for (int j = 0; j < n; ++j) sums[j] += residual[j];
    });
  }
  with_kind(finish.kind, [&](auto kind) {
    each([&]<int n>(float(&sums)[n], const auto&) {
#pragma unroll
      for (int j = 0; j < n; ++j) sums[j] = finished<kind.value, T>(finish, sums[j]);
    });
  });
}

}  // namespace lamina::cuda
