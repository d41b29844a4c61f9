// All steps of recurrent layers of f16 or bf16 in one launch, their products on tensor cores by mma.sync.
//
// A block has 16 units of one direction a warp, and eight images; where the weights of all units are more than shared
// memory holds, a cluster of up to eight blocks shares the units. A product's rows are the units of one gate, its
// columns the images, so that a thread has all gates of two neighbouring units of two images, and c and h of these in
// its registers. h goes to the other warps, and to the cluster's other blocks, through shared memory, in two buffers by
// turns, as the sum of two numbers of T: sums are of h in 16 to 22 bits, as "sums, h and c are f32" wants it.
//
// Shared memory: the weights of the block's units [units / 16][gates][16][K + 8], rows 0 to 7 of the 16 being the even
// units; h [2][high, low][8 images][K + 8]; K is H in whole 32s, with zeros behind. Dynamic.
// Preconditions: `takes_mma`.
// Source: Appleyard et al., "Optimizing Performance of Recurrent Neural Networks on GPUs", 2016, for weights that stay.

#include <algorithm>
#include <optional>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/shared.cuh"
#include "lamina/cuda/recurrent/recurrent.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/tensor_core/packing.h"

namespace lamina::cuda::recurrent {
namespace {

using namespace tables;

constexpr int unit_rows = 16, columns = 8, most_warps = 12, gap = 8;

/// How units are shared.
struct Share {
  int blocks = 1;  ///< of a cluster
  int warps = 1;   ///< of a block, 16 units each
  int pitch = 0;   ///< of a row of K elements
  int gates = 0;

  __host__ __device__ int weights() const { return warps * gates * unit_rows * pitch; }  // of a block, elements
  __host__ __device__ int buffer() const { return 2 * columns * pitch; }                 // of h, high and low
  std::size_t bytes() const { return static_cast<std::size_t>(weights() + 2 * buffer()) * 2; }
};

template <class T, int gates>
__global__ void __launch_bounds__(32 * most_warps)
    recurrent_mma_kernel(const __grid_constant__ RecurrentArgs a, const __grid_constant__ Share share) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char memory[];
  T* const weights = reinterpret_cast<T*>(memory);
  T* const h_shared = weights + share.weights();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int rank = static_cast<int>(blockIdx.x), d = static_cast<int>(blockIdx.z);
  const int unit = (rank * share.warps + warp) * unit_rows + 2 * (lane / 4);
  const int first_image = static_cast<int>(blockIdx.y) * columns, pitch = share.pitch;
  const int own_column = 2 * (lane % 4);  // images of this thread: that and the next
  const auto sync = [&] {
#if __CUDA_ARCH__ >= 900
    if (share.blocks > 1) return ptx::cluster_sync();
#endif
    __syncthreads();
  };
  // h of two neighbouring units of an image, to all blocks.
  const auto give = [&](int buffer, int column, float x, float y) {
    const T high[2] = {from_f32<T>(x), from_f32<T>(y)};
    const T low[2] = {from_f32<T>(x - to_f32(high[0])), from_f32<T>(y - to_f32(high[1]))};
    float words[2];
    memcpy(&words[0], high, 4);
    memcpy(&words[1], low, 4);
    T* const to = h_shared + buffer * share.buffer() + column * pitch + unit;
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      auto* const word = reinterpret_cast<float*>(to + part * columns * pitch);
#if __CUDA_ARCH__ >= 900
      for (int block = 0; share.blocks > 1 && block < share.blocks; ++block) ptx::store_to(word, block, words[part]);
      if (share.blocks > 1) continue;
#endif
      *word = words[part];
    }
  };

  const auto packs = [&](T* to) { return reinterpret_cast<Pack<T>*>(to); };
  const T* const packed = static_cast<const T*>(a.weights) + std::int64_t{d * share.blocks + rank} * share.weights();
  for (int i = thread; i < share.weights() / 8; i += static_cast<int>(blockDim.x)) {
    packs(weights)[i] = reinterpret_cast<const Pack<T>*>(packed)[i];
  }
  for (int i = thread; i < share.buffer() * 2 / 8; i += static_cast<int>(blockDim.x)) packs(h_shared)[i] = {};
  let_successor_start();
  wait_for_predecessor();
  sync();

  const bool live = unit < a.hidden, busy = unit - 2 * (lane / 4) < a.hidden;
  const int last = a.cell == Cell::lstm ? a.steps + 1 : a.steps;
  float h[4] = {}, c[4] = {};
  int lengths[2];
  bool there[2];
  const auto put = [&](int row, int i, float x, float y) {
    T* const to = static_cast<T*>(a.y) + a.place(row, first_image + own_column + i, d) + unit;
    *reinterpret_cast<Pack<T, 2>*>(to) = {from_f32<T>(x), from_f32<T>(y)};
  };
  const auto given = [&](const void* from, int i, float(&to)[4]) {
    const std::int64_t at = a.place(0, first_image + own_column + i, d) + unit;
    const auto pack = *reinterpret_cast<const Pack<T, 2>*>(static_cast<const T*>(from) + at);
    to[i] = to_f32(pack.values[0]), to[2 + i] = to_f32(pack.values[1]);
  };
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int image = first_image + own_column + i;
    there[i] = live && image < a.images;
    lengths[i] = there[i] ? a.length(image) : 0;
    if (!there[i]) continue;
    if (a.c != nullptr) given(a.c, i, c);
    if (a.h != nullptr) given(a.h, i, h), give(0, own_column + i, h[i], h[2 + i]);
    for (int row = a.steps; lengths[i] == 0 && row <= last; ++row) put(row, i, 0, 0);
  }
  sync();

  Pack<T, 2> x[2][gates];
  const auto load = [&](int step) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (step >= lengths[i]) continue;
      const int now = d == 1 || a.reverse ? lengths[i] - 1 - step : step;
      const T* const from = static_cast<const T*>(a.x) + a.place(now, first_image + own_column + i, d) * gates + unit;
#pragma unroll
      for (int g = 0; g < gates; ++g) x[i][g] = *reinterpret_cast<const Pack<T, 2>*>(from + g * a.hidden);
    }
  };
  load(0);
  const T* const own = weights + warp * gates * unit_rows * pitch + lane % 16 * pitch + lane / 16 * 8;
#pragma unroll 1
  for (int step = 0; step < a.steps; ++step) {
    float sum[4][4] = {}, small[gates][4] = {};  // of h's high words and of its low ones
    const T* const h_now = h_shared + step % 2 * share.buffer() + lane % 8 * pitch + lane / 8 * 8;
    if (busy) {
#pragma unroll 1
      for (int k = 0; k < pitch - gap; k += 32) {
        std::uint32_t high[4], low[4];
        ptx::load_matrices(high, ptx::shared_address(h_now + k));
        ptx::load_matrices(low, ptx::shared_address(h_now + columns * pitch + k));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t y[2] = {high[2 * half], high[2 * half + 1]}, z[2] = {low[2 * half], low[2 * half + 1]};
#pragma unroll
          for (int g = 0; g < gates; ++g) {
            std::uint32_t w[4];
            ptx::load_matrices(w, ptx::shared_address(own + g * unit_rows * pitch + k + 16 * half));
            ptx::mma<T>(sum[g], w, y, sum[g]);
            ptx::mma<T>(small[g], w, z, small[g]);
          }
        }
      }
    }
    Pack<T, 2> now[2][gates];
#pragma unroll
    for (int i = 0; i < 2 * gates; ++i) now[i / gates][i % gates] = x[i / gates][i % gates];
    load(step + 1);
#pragma unroll
    for (int v = 0; v < gates * 4; ++v) sum[v / 4][v % 4] += small[v / 4][v % 4];
    float next[4], c_next[4];  // value 2 u + i: unit u of image i, as a product's
#pragma unroll
    for (int v = 0; v < 4; ++v) next[v] = h[v], c_next[v] = c[v];
    const auto came = [&](int g, int v) { return to_f32(now[v % 2][g < gates ? g : 0].values[v / 2]); };
    const int units[4] = {unit, unit, unit + 1, unit + 1};
    if (live) cells_of<true>(a, d, units, sum, came, next, c_next);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (!there[i]) continue;
      if (step >= lengths[i]) {
        put(step, i, 0, 0);
        continue;
      }
      h[i] = next[i], h[2 + i] = next[2 + i], c[i] = c_next[i], c[2 + i] = c_next[2 + i];
      give((step + 1) % 2, own_column + i, h[i], h[2 + i]);
      put(d == 1 || a.reverse ? lengths[i] - 1 - step : step, i, h[i], h[2 + i]);
      if (step < lengths[i] - 1) continue;
      put(a.steps, i, h[i], h[2 + i]);
      if (a.cell == Cell::lstm) put(last, i, c[i], c[2 + i]);
    }
    sync();
  }
#endif
}

/// With as few blocks as hold the weights.
std::optional<Share> share_of(const RecurrentProblem& problem, const DeviceDescription& device) {
  const auto hidden = static_cast<int>(problem.hidden);
  for (int blocks = 1; blocks <= (device.architecture >= 90 ? DeviceDescription::max_cluster : 1); blocks *= 2) {
    const Share share = {blocks, lamina::detail::ceil_div(lamina::detail::ceil_div(hidden, unit_rows), blocks),
                         lamina::detail::ceil_div(hidden, 32) * 32 + gap, problem.gates()};
    if (share.warps <= most_warps && share.bytes() <= static_cast<std::size_t>(device.shared_bytes)) return share;
  }
  return std::nullopt;
}

/// As shared memory has them, [D][blocks].
std::vector<std::uint16_t> packed(const RecurrentProblem& problem, const Share& share, DType type) {
  const auto count = static_cast<std::size_t>(share.weights());
  std::vector<std::uint16_t> result(static_cast<std::size_t>(problem.directions * share.blocks) * count);
  const float* from = lamina::detail::floats(problem.weight);
  for (int d = 0; d < problem.directions; ++d) {
    for (int g = 0; g < share.gates; ++g) {
      for (std::int64_t unit = 0; unit < problem.hidden; ++unit, from += problem.hidden) {
        const std::int64_t tile = unit / unit_rows, row = unit % 2 * 8 + unit % unit_rows / 2;
        const std::int64_t line = ((d * share.blocks * share.warps + tile) * share.gates + g) * unit_rows + row;
        std::transform(from, from + problem.hidden, result.begin() + line * share.pitch,
                       [&](float weight) { return bits16(weight, type); });
      }
    }
  }
  return result;
}

}  // namespace

bool takes_mma(const RecurrentProblem& problem, const Preparation& p) {
  return lamina::detail::is_recurrence(problem, p) && size_of(p.input().format.dtype) == 2 &&
         p.device.architecture >= 80 && problem.phases() == 1 && !problem.scale.defined() && problem.hidden % 2 == 0 &&
         p.input().shape[1] <= 65'535 && p.input().shape.numel() <= std::int64_t{1} << 30 &&
         share_of(problem, p.device).has_value();
}

std::unique_ptr<Operator> prepare_mma(const RecurrentProblem& problem, const Preparation& p) {
  const DType type = p.input().format.dtype;
  const Share share = *share_of(problem, p.device);
  Constants constants(index(p));
  RecurrentArgs args = arguments_of(problem, p, constants);
  args.weights = constants.add(packed(problem, share, type));
  const Launch how = {.grid = dim3(static_cast<unsigned>(share.blocks),
                                   static_cast<unsigned>(lamina::detail::ceil_div(args.images, columns)),
                                   static_cast<unsigned>(args.directions)),
                      .block = dim3(static_cast<unsigned>(32 * share.warps)),
                      .shared_bytes = share.bytes(),
                      .cluster = share.blocks};
  return make_on_device(
      index(p),
      "all steps (mma.sync): eight images and a direction a " + std::string(share.blocks > 1 ? "cluster" : "block"),
      [=, constants = std::move(constants)](Inputs inputs, Outputs outputs, const Execution& execution) {
        const RecurrentArgs a = in_run(args, inputs, outputs, execution);
        if (a.steps == 0) {
          return check(cudaMemsetAsync(a.y, 0, outputs[0].bytes(), static_cast<cudaStream_t>(execution.stream)));
        }
        const auto run = [&]<class T>(T*) {
          const auto launch = [&](auto kernel) {
            reserve_shared_memory(constants.device(), reinterpret_cast<const void*>(kernel),
                                  static_cast<int>(how.shared_bytes));
            launch_kernel(kernel, how, execution.stream, a, share);
          };
          switch (a.cell) {
            case Cell::rnn: return launch(recurrent_mma_kernel<T, 1>);
            case Cell::gru: return launch(recurrent_mma_kernel<T, 3>);
            case Cell::lstm: return launch(recurrent_mma_kernel<T, 4>);
          }
        };
        type == DType::f16 ? run(static_cast<__half*>(nullptr)) : run(static_cast<__nv_bfloat16*>(nullptr));
      });
}

}  // namespace lamina::cuda::recurrent
