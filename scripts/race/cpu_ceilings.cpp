// What this machine's cores reach at best, for scripts/compare_cpu_peers.py, which compiles it: cpu_ceilings THREADS
// prints GFLOP/s of independent fp32 multiply-adds, GB/s of reading 256 MB and, where the processor has AMX, GFLOP/s of
// its bf16 products, the best of many short samples.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#if defined(__AMX_BF16__) && defined(__linux__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__AVX512F__)
constexpr int lanes = 16;
#elif defined(__AVX__)
constexpr int lanes = 8;
#else
constexpr int lanes = 4;
#endif
typedef float Vector __attribute__((vector_size(lanes * sizeof(float)), aligned(64 < lanes * 4 ? 64 : lanes * 4)));

constexpr int chains = 12, steps = 20000;
volatile float sink;

float multiply_adds() {
  Vector sum[chains];
  for (int c = 0; c < chains; ++c) sum[c] = Vector{} + sink + static_cast<float>(c);  // or they would be one chain
  const Vector x = Vector{} + 0.5f, y = Vector{} + 1.0f;
  for (int i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) sum[c] = sum[c] * x + y;
  }
  float total = 0;
#pragma GCC unroll 12
  for (int c = 0; c < chains; ++c) {
    for (int i = 0; i < lanes; ++i) total += sum[c][i];
  }
  return total;
}

/// Eight streams side by side: one alone does not keep the memory busy.
float read(const float* data, std::size_t count) {
  Vector sum[8] = {};
  const std::size_t part = count / 8 / lanes * lanes;
  for (std::size_t i = 0; i < part; i += lanes) {
#pragma GCC unroll 8
    for (std::size_t s = 0; s < 8; ++s) sum[s] += *reinterpret_cast<const Vector*>(data + s * part + i);
  }
  float total = 0;
  for (const Vector& s : sum) {
    for (int i = 0; i < lanes; ++i) total += s[i];
  }
  return total;
}

#if defined(__AMX_BF16__) && defined(__linux__)
/// Whether the system lets this process use the tiles.
bool ask_for_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

/// Four independent sums of 16 x 16, as the kernels have them: 2 * 16 * 16 * 32 operations each time.
constexpr double tile_operations = 4.0 * 2 * 16 * 16 * 32;
void tile_products() {
  struct alignas(64) {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  _tile_loadconfig(&config);
  for (int i = 0; i < steps; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}
#endif

/// Seconds that all threads together take for body(thread), the least of `samples`.
double best_of(int samples, int threads, const std::function<void(int)>& body) {
  double best = 1e9;
  for (int i = 0; i < samples; ++i) {
    std::atomic<int> ready{0}, left{threads};
    std::chrono::steady_clock::time_point start;
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        ++ready;
        while (ready < threads) {
        }
        if (t == 0) start = std::chrono::steady_clock::now();
        body(t);
        --left;
      });
    }
    for (std::thread& worker : workers) worker.join();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const double multiply = best_of(200, threads, [](int) {
    for (int i = 0; i < 10; ++i) sink = multiply_adds();
  });
  const std::size_t part = (std::size_t{256} << 20) / sizeof(float) / static_cast<std::size_t>(threads);
  const std::size_t bytes = part * static_cast<std::size_t>(threads) * sizeof(float);
  auto* const floats = static_cast<float*>(std::aligned_alloc(64, bytes));
  std::fill(floats, floats + bytes / sizeof(float), 1.0f);
  const double reading =
      best_of(40, threads, [&](int t) { sink = read(floats + static_cast<std::size_t>(t) * part, part); });
  std::printf("%.1f %.1f", 2e-9 * 10 * chains * steps * lanes * threads / multiply,
              1e-9 * static_cast<double>(bytes) / reading);
#if defined(__AMX_BF16__) && defined(__linux__)
  if (ask_for_tiles()) {
    const double tiles = best_of(50, threads, [](int) { tile_products(); });
    std::printf(" %.1f", 1e-9 * tile_operations * steps * threads / tiles);
  }
#endif
  std::printf("\n");
}
