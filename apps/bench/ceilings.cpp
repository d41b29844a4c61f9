#include "bench/ceilings.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "bench/timer.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/eigen.h"
#include "lamina/cuda/runtime/peak.h"
#include "lamina/cuda/runtime/stream.h"

namespace lamina::app {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double seconds = 0.3;

double cpu_copy(ThreadPool& pool) {
  constexpr std::size_t bytes = std::size_t{256} << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  const std::size_t part = bytes / static_cast<std::size_t>(pool.threads());
  const Timing t = time_calls(Device::cpu(), 1, seconds, [&](int, void*) {
    pool.parallel_for(pool.threads(), [&](std::int64_t i, int) {
      const std::size_t at = static_cast<std::size_t>(i) * part;
      std::memcpy(to.data() + at, from.data() + at, part);
    });
  });
  return 2.0 * static_cast<double>(bytes) / t.median * 1e-6;
}

/// Each thread multiplies matrices of its own, as independent images are.
double cpu_gemm(ThreadPool& pool) {
  constexpr Eigen::Index n = 768;
  const RowMajor a = RowMajor::Random(n, n), b = RowMajor::Random(n, n);
  std::vector<RowMajor> c(static_cast<std::size_t>(pool.threads()), RowMajor(n, n));
  const Timing t = time_calls(Device::cpu(), 1, seconds, [&](int, void*) {
    pool.parallel_for(pool.threads(), [&](std::int64_t i, int) { c[static_cast<std::size_t>(i)].noalias() = a * b; });
  });
  return 2.0 * n * n * n * pool.threads() / t.median * 1e-9;
}

double cuda_copy(Device device) {
  constexpr std::int64_t bytes = std::int64_t{1} << 30;
  Tensor from = Tensor::zeros({bytes}, DType::u8, device);
  Tensor to({bytes}, DType::u8, device);
  const Timing t = time_calls(device, 1, seconds, [&](int, void* stream) {
    cuda::copy_on_device(device.index, to.raw(), from.raw(), static_cast<std::size_t>(bytes), stream);
  });
  return 2.0 * static_cast<double>(bytes) / t.median * 1e-6;
}

/// 0 if there is no cuBLAS.
double cuda_gemm(Device device) {
  constexpr int n = 8192;
  std::vector<float> values(std::size_t{n} * n);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 251) - 125.0f;
  const Tensor a = Tensor::from(values, {n, n}).to(device);
  Tensor c({n, n}, DType::f32, device);
  Tensor workspace({static_cast<std::int64_t>(cuda::square_product_workspace)}, DType::u8, device);
  const auto* data = static_cast<const float*>(a.raw());
  try {
    const Timing t = time_calls(device, 1, seconds, [&](int, void* stream) {
      cuda::square_product(device.index, data, data, static_cast<float*>(c.raw()), n, workspace.raw(), stream);
    });
    return 2.0 * n * n * n / t.median * 1e-9;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

Ceilings measure_ceilings(Device device, int threads) {
  if (device.is_cuda()) return {cuda_copy(device), cuda_gemm(device)};
  ThreadPool pool(threads);
  return {cpu_copy(pool), cpu_gemm(pool)};
}

void eigen_product_alone(const ConvGeometry& g, const float* weight, const float* columns, float* output,
                         ThreadPool& pool) {
  const std::int64_t k = g.reduction(), channels = g.group_out_channels(), pixels = g.out_pixels();
  pool.parallel_for(g.batch * g.groups, [&](std::int64_t i, int) {
    const std::int64_t group = i % g.groups;
    const Eigen::Map<const RowMajor> w(weight + group * channels * k, channels, k);
    const Eigen::Map<const RowMajor> cols(columns, k, pixels);
    Eigen::Map<RowMajor>(output + i * channels * pixels, channels, pixels).noalias() = w * cols;
  });
}

}  // namespace lamina::app
