// The multiply-adds of one tile of a convolution whose lanes are channels, compiled for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/lanes/tile.cpp"
#include "lamina/cpu/simd_targets.h"

#include "lamina/cpu/conv2d/lanes/blocks-inl.h"
#include "lamina/cpu/conv2d/lanes/tile.h"

LAMINA_SIMD_BEGIN(lamina::cpu::bf16);

/// K columns of taps, S positions from output to output: neighbouring outputs share what they read. `inside`: a tile
/// that reads no column outside of the image; others have a table of where each is, or its zeros.
template <class T, bool whole, int K, int S, bool inside>
HWY_INLINE void add_rows(const LanesTile& t, const T* const* table, std::int64_t channel, const float* weights,
                         Sums<T>& sums) {
  const Tag d;
  constexpr int P = positions<T>, V = vectors<T>, columns = (P - 1) * S + K;
  const std::int64_t pixel = t.pixel, first = t.left * pixel + channel;
  for (int row = 0, rows = t.kernel_rows; row < rows; ++row, table += columns) {
    const T* const x = inside ? static_cast<const T*>(t.rows[row]) + first : nullptr;
    Vector taps[K][V];
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v, weights += lanes) taps[k][v] = hn::Load(d, weights);
    }
#pragma GCC unroll 32
    for (int column = 0; column < columns; ++column) {
      Vector value[V];
      load<whole>(inside ? x + column * pixel : table[column] + channel, t.channels, value);
#pragma GCC unroll 8
      for (int k = 0; k < K; ++k) {
        const int p = (column - k) / S;
        if (column < k || (column - k) % S != 0 || p >= P) continue;
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) sums[p][v] = hn::MulAdd(taps[k][v], value[v], sums[p][v]);
      }
    }
  }
}

/// Any taps, summed in chains; `grouped`: of all channels of the groups.
template <class T, bool whole, bool grouped, bool inside>
HWY_INLINE void add_taps(const LanesTile& t, std::int64_t channel, const float* weights, const std::int32_t* places,
                         Sums<T>& sums) {
  const Tag d;
  constexpr int P = positions<T>, V = vectors<T>;
  Sums<T> total;
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) total[p][v] = hn::Zero(d);
  }
  const std::int64_t step = t.stride * t.pixel, tap_step = t.dilation * t.pixel;
  const int channels = grouped ? t.group_channels : 1;
  int left = t.chain;
  for (int row = 0; row < t.kernel_rows; ++row) {
    std::int64_t column = t.left;
    const T* x = static_cast<const T*>(t.rows[row]) + column * t.pixel + channel;
    for (int k = 0; k < t.kernel_columns; ++k, column += t.dilation, x += tap_step) {
      const T* from[P];
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        const std::int64_t own = column + p * t.stride;
        from[p] = inside || (own >= 0 && own < t.columns) ? x + p * step : static_cast<const T*>(t.zeros);
      }
      const std::int32_t* place = places;
      for (int c = channels; c > 0; --c, place += lanes, weights += V * lanes) {
        Vector tap[V];
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) tap[v] = hn::Load(d, weights + v * lanes);
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p) {
          Vector value[V];
          load<whole>(from[p], t.channels, value);
          if constexpr (grouped) {
            const hn::RebindToSigned<Tag> numbers;
            value[0] = hn::TableLookupLanes(value[0], hn::IndicesFromVec(d, hn::LoadU(numbers, place)));
          }
#pragma GCC unroll 2
          for (int v = 0; v < V; ++v) sums[p][v] = hn::MulAdd(tap[v], value[v], sums[p][v]);
        }
      }
      if (--left > 0) continue;
      left = t.chain;
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) {
          total[p][v] = hn::Add(total[p][v], sums[p][v]);
          sums[p][v] = hn::Zero(d);
        }
      }
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sums[p][v] = hn::Add(total[p][v], sums[p][v]);
  }
}

template <class T, class Round, bool whole, Pointwise function>
HWY_INLINE void store_results(const LanesTile& t, const float* sums, std::int64_t channel) {
  const Tag d;
  const Vector low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  const T* addend = t.addend == nullptr ? nullptr : static_cast<const T*>(t.addend) + channel;
  T* to = static_cast<T*>(t.output) + channel;
  for (int p = 0; p < t.positions; ++p, to += t.output_pixel, sums += block_channels<T>) {
    Vector y[vectors<T>], added[vectors<T>];
    if (addend != nullptr) load<whole>(addend + p * t.output_pixel, t.channels, added);
#pragma GCC unroll 2
    for (int v = 0; v < vectors<T>; ++v) {
      y[v] = hn::Load(d, sums + v * lanes);
      if (addend != nullptr) y[v] = hn::Add(y[v], added[v]);
      y[v] = applied<T, function>(clamped(y[v], low, high));
    }
    store<Round, whole>(y, to, t.channels);
  }
}

template <class T, class Round, bool whole>
void store_applied(const LanesTile& t, const float* sums, std::int64_t channel) {
  switch (t.function) {
    case Pointwise::silu: return store_results<T, Round, whole, Pointwise::silu>(t, sums, channel);
    case Pointwise::gelu: return store_results<T, Round, whole, Pointwise::gelu>(t, sums, channel);
    case Pointwise::hard_swish: return store_results<T, Round, whole, Pointwise::hard_swish>(t, sums, channel);
    default: return store_results<T, Round, whole, Pointwise::identity>(t, sums, channel);
  }
}

/// What is not stored from the registers that the sums are in: those themselves, functions of them, some of them.
template <class T, class Round>
HWY_NOINLINE void store_sums(const LanesTile& t, const float* sums, std::int64_t channel) {
  constexpr int size = block_channels<T>;
  if (t.sums == nullptr) {
    t.channels == size ? store_applied<T, Round, true>(t, sums, channel)
                       : store_applied<T, Round, false>(t, sums, channel);
    return;
  }
  for (int p = 0; p < t.positions; ++p) {
    for (int i = 0; i < size; ++i) t.sums[p * size + i] = sums[p * size + lane_place(dtype_of<T>, i, size)];
  }
}

/// add(block, its channel of the input, its weights, sums) for all blocks, whose sums begin with their biases.
template <class T, class Round, bool whole, class Add>
HWY_INLINE void for_blocks(const LanesTile& t, const Add& add) {
  const Tag d;
  constexpr int P = positions<T>, V = vectors<T>;
  // In registers: what is stored might be a part of the tile, as far as the compiler knows.
  const float *weights = t.weights, *bias = t.bias;
  const std::int64_t block_weights = t.block_weights, output_pixel = t.output_pixel;
  const LanesBlock* const blocks = t.blocks;
  T* const output = static_cast<T*>(t.output);
  const int count = t.count;
  const bool plain =
      whole && t.sums == nullptr && t.addend == nullptr && t.function == Pointwise::identity && t.positions == P;
  const Vector low = hn::Set(d, t.low), high = hn::Set(d, t.high);
  for (int block = 0; block < count; ++block, weights += block_weights, bias += V * lanes) {
    Sums<T> sums;
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      sums[0][v] = hn::Load(d, bias + v * lanes);
#pragma GCC unroll 8
      for (int p = 1; p < P; ++p) sums[p][v] = sums[0][v];
    }
    add(block, blocks[block].input, weights, sums);
    const std::int64_t channel = blocks[block].output;
    if constexpr (sizeof(T) == 1) {
      std::int32_t* to = t.whole + (channel - blocks[0].output);
      for (int p = 0; p < t.positions; ++p, to += t.whole_row) {
        hn::StoreU(hn::ConvertTo(hn::RebindToSigned<Tag>(), sums[p][0]), hn::RebindToSigned<Tag>(), to);
      }
    } else {
      if (plain) {
        T* to = output + channel;
#pragma GCC unroll 8
        for (int p = 0; p < P; ++p, to += output_pixel) {
          Vector y[V];
#pragma GCC unroll 2
          for (int v = 0; v < V; ++v) y[v] = clamped(sums[p][v], low, high);
          store<Round, true>(y, to, t.channels);
        }
        continue;
      }
      HWY_ALIGN float stored[P * V * lanes];
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) hn::Store(sums[p][v], d, stored + (p * V + v) * lanes);
      }
      store_sums<T, Round>(t, stored, channel);
    }
  }
}

template <class T, class Round, bool whole, int K, int S, bool inside>
HWY_NOINLINE void run_rows(const LanesTile& t, const T* const* table) {
  for_blocks<T, Round, whole>(t, [&](int, std::int64_t channel, const float* weights, Sums<T>& sums)
                                     HWY_ATTR { add_rows<T, whole, K, S, inside>(t, table, channel, weights, sums); });
}

template <class T, class Round, bool whole, int K, int S>
void run_rows(const LanesTile& t) {
  constexpr int columns = (positions<T> - 1) * S + K;
  if (t.left >= 0 && t.left + columns <= t.columns) return run_rows<T, Round, whole, K, S, true>(t, nullptr);
  const T* table[LanesTile::chunk_terms / K * columns];
  const T** entry = table;
  for (int row = 0; row < t.kernel_rows; ++row) {
    for (std::int64_t column = t.left; column < t.left + columns; ++column) {
      *entry++ = static_cast<const T*>(column >= 0 && column < t.columns ? t.rows[row] : t.zeros) +
                 (column >= 0 && column < t.columns ? column * t.pixel : 0);
    }
  }
  run_rows<T, Round, whole, K, S, false>(t, table);
}

template <class T, class Round, bool whole, bool grouped, bool inside>
HWY_NOINLINE void run_taps(const LanesTile& t) {
  for_blocks<T, Round, whole>(t, [&](int block, std::int64_t channel, const float* weights, Sums<T>& sums) HWY_ATTR {
    const std::int32_t* const places = grouped ? t.places + std::ptrdiff_t{block} * t.group_channels * lanes : nullptr;
    add_taps<T, whole, grouped, inside>(t, channel, weights, places, sums);
  });
}

template <class T, class Round, bool grouped>
void run_taps(const LanesTile& t) {
  const int last = (positions<T> - 1) * t.stride + (t.kernel_columns - 1) * t.dilation;
  t.left >= 0 && t.left + last < t.columns ? run_taps<T, Round, true, grouped, true>(t)
                                           : run_taps<T, Round, true, grouped, false>(t);
}

template <class T, class Round>
void run(const LanesTile& t) {
  if (t.channels < block_channels<T>) {
    const bool square = t.dilation == 1 && t.stride == 1 && t.kernel_columns == 3 && t.kernel_rows <= 3;
    return square ? run_rows<T, Round, false, 3, 1>(t) : run_taps<T, Round, false, false, false>(t);
  }
  if (t.dilation == 1 && t.kernel_rows * t.kernel_columns <= LanesTile::chunk_terms) {
    if (t.stride == 1) {
      if (t.kernel_columns == 3) return run_rows<T, Round, true, 3, 1>(t);
      if (t.kernel_columns == 5) return run_rows<T, Round, true, 5, 1>(t);
      if (t.kernel_columns == 7) return run_rows<T, Round, true, 7, 1>(t);
    } else if (t.stride == 2) {
      if (t.kernel_columns == 3) return run_rows<T, Round, true, 3, 2>(t);
      if (t.kernel_columns == 5) return run_rows<T, Round, true, 5, 2>(t);
    }
  }
  run_taps<T, Round, false>(t);
}

template <class T>
constexpr LanesKernel plain_kernel = {LAMINA_SIMD_SET, block_channels<T>, positions<T>,
                                      run<T, void>,    nullptr,           run_taps<T, void, true>};
constexpr LanesKernel of_f32 = plain_kernel<float>, of_u8 = plain_kernel<std::uint8_t>,
                      of_i8 = plain_kernel<std::int8_t>;

constexpr LanesKernel of_bf16 = {
    .set = LAMINA_SIMD_SET,
    .channels = block_channels<bfloat16>,
    .positions = positions<bfloat16>,
    .run = run<bfloat16, Rounding>,
#if HWY_TARGET == HWY_AVX3
    .run_rounding = run<bfloat16, InstructionRounding>,
#endif
};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu::bf16 {
static std::span<const LanesKernel> lanes_kernels_of(DType input) {
  switch (input) {
    case DType::bf16: return LAMINA_SIMD_KERNELS(of_bf16);
    case DType::u8: return LAMINA_SIMD_KERNELS(of_u8);
    case DType::i8: return LAMINA_SIMD_KERNELS(of_i8);
    default: return LAMINA_SIMD_KERNELS(of_f32);
  }
}
}  // namespace lamina::cpu::bf16

std::span<const lamina::cpu::LanesKernel> lamina::cpu::lanes_kernels(DType input) {
  return bf16::lanes_kernels_of(input);
}
#endif
