// A fully connected layer of codes for few rows, limited by reading the weights once, as rows.cu is. Sums are exact, so
// nothing depends on how they are cut: a warp owns an output for up to `Rows` rows, its lanes packs of 16 or 8 terms in
// turn, four products an instruction (dp4a). `ahead` packs of weights are on their way at a time, the first of them
// before the kernel waits for its predecessor. Blocks of the same weights and more rows run together, for L2. Rows come
// from L1, and what becomes of sums is that of convolutions.
//
// Shared memory: none. Preconditions: rows of whole packs.

#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/linear/kernels.h"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/linear_as_convolution.h"

namespace lamina::cuda {
namespace {

using lamina::detail::LinearAsConvolution;

constexpr int code_warps = 4, code_threads = 32 * code_warps, ahead = 4;

struct CodeRows {
  const void* input = nullptr;          // [rows, in] of u8 or i8
  const std::int8_t* weight = nullptr;  // [out, in]
  void* output = nullptr;               // [rows, out]
  eight_bits::Ends ends;
  std::int64_t rows = 0;
  int in = 0, out = 0;
};

template <class T, int Rows, int words>
__global__ void __launch_bounds__(code_threads) code_rows_kernel(const __grid_constant__ CodeRows a) {
  using Words = Pack<std::uint32_t, words>;
  constexpr int terms = 4 * words;
  let_successor_start();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int output = static_cast<int>(blockIdx.y) * code_warps + static_cast<int>(threadIdx.x) / 32;
  const int known = min(output, a.out - 1);  // those beyond the last repeat it
  const std::int64_t first = std::int64_t{blockIdx.x} * Rows;
  const std::int8_t* const weight = a.weight + std::int64_t{known} * a.in;
  const int offset = __ldg(a.ends.offset + known);
  const float factor = __ldg(a.ends.factor + known), bias = __ldg(a.ends.bias + known);
  int sum[Rows] = {};
  for (int begin = lane * terms; begin - lane * terms < a.in; begin += 32 * terms * ahead) {
    Words w[ahead];
#pragma unroll
    for (int s = 0; s < ahead; ++s) {
      const std::int8_t* const from = weight + begin + s * 32 * terms;
      if (begin + s * 32 * terms >= a.in) continue;
      if constexpr (words == 4) {
        *reinterpret_cast<uint4*>(&w[s]) = ptx::load_once(from);
      } else {
        w[s] = *reinterpret_cast<const Words*>(from);
      }
    }
    if (begin == lane * terms) wait_for_predecessor();
#pragma unroll
    for (int s = 0; s < ahead; ++s) {
      const int at = begin + s * 32 * terms;
      if (at >= a.in) continue;
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        const std::int64_t row = min(first + r, a.rows - 1);
        const Words x = *reinterpret_cast<const Words*>(static_cast<const T*>(a.input) + row * a.in + at);
#pragma unroll
        for (int j = 0; j < words; ++j) sum[r] = ptx::dot_four<T>(x.values[j], w[s].values[j], sum[r]);
      }
    }
  }
  int own = 0;  // that of the lane's row
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum[r] += __shfl_xor_sync(0xffffffffu, sum[r], distance);
    if (lane == r) own = sum[r] + offset;
  }
  if (lane >= Rows || first + lane >= a.rows || output >= a.out) return;
  const std::int64_t index = (first + lane) * a.out + output;
  if (a.ends.table == nullptr) return eight_bits::put<1>(a.ends.end, {own}, {factor}, {bias}, a.output, index);
  const std::uint32_t code = eight_bits::code(a.ends.end, own, factor, bias) & 0xffu;
  static_cast<std::uint8_t*>(a.output)[index] = __ldg(a.ends.table + code);
}

}  // namespace

bool linear_code_rows_take(const LinearProblem& problem, const Preparation& p) {
  const LinearAsConvolution conv(problem, p);
  return lamina::detail::are_rows_in_order(p) && problem.in % 8 == 0 && p.input().alignment % 16 == 0 &&
         problem.out <= linear_max_code_outputs && lamina::detail::is_eight_bits(conv.problem, conv.preparation);
}

std::unique_ptr<Operator> prepare_linear_code_rows(const LinearProblem& problem, const Preparation& p) {
  const LinearAsConvolution conv(problem, p);
  const auto end = lamina::detail::channel_end(conv.problem, conv.preparation, p.input().quantization.zero_point);
  Constants constants(p.device.device.index);
  const CodeRows args = {.weight = static_cast<const std::int8_t*>(constants.add(problem.eight.weight)),
                         .ends = eight_bits::ends_of(end, problem.out, constants, problem.epilogue.table()),
                         .rows = problem.rows,
                         .in = problem.in,
                         .out = problem.out};
  const bool is_signed = p.input().format.dtype == DType::i8;
  constexpr int many = linear_rows_at_once;
  const auto of = [&]<class T, int words>(T, std::integral_constant<int, words>) {
    return problem.rows == 1 ? reinterpret_cast<const void*>(&code_rows_kernel<T, 1, words>)
                             : reinterpret_cast<const void*>(&code_rows_kernel<T, many, words>);
  };
  const auto of_type = [&](auto type) {
    return problem.in % 16 == 0 ? of(type, std::integral_constant<int, 4>())
                                : of(type, std::integral_constant<int, 2>());
  };
  Launch how = of_blocks(lamina::detail::ceil_div<std::int64_t>(problem.rows, many), code_threads);
  how.grid.y = static_cast<unsigned>(lamina::detail::ceil_div(problem.out, code_warps));
  return make_launched<CodeRows>({.description = "int8_rows: weights streamed, a warp for an output",
                                  .kernel = is_signed ? of_type(std::int8_t()) : of_type(std::uint8_t()),
                                  .how = how,
                                  .args = args,
                                  .constants = constants});
}

}  // namespace lamina::cuda
