#pragma once

// Depthwise convolution between channels-last tensors: output channel c is input channel c with a filter of its own.
// Memory takes the time, so each input pixel comes from memory about once and is used from registers.
//
// Tiled (square kernels of 3, 5, 7, strides 1 and 2): a block owns a tile of outputs of one image, down x across
// threads' tiles of rows x columns, and a slice of the channels, of which a thread takes one pack. The map that the
// tile's windows see, the halo, is in shared memory, zeros where the padding is; a thread walks down its rows, each of
// which is read and converted to f32 once and used for all output rows that see it. Weights of 3x3 stay in registers,
// others come from shared memory, each for a row of outputs. The map's Source is either
//   Image (image.cuh): the input, which comes by cp.async; a thread has one tile at most;
//   Expanded (expanded.cuh): what a 1x1 convolution makes of the input, as mobile networks' blocks begin. The widest
//   map of such a block is then neither written nor read, and a launch is saved.
// Preconditions: Arguments filled in by depthwise.cpp; compute capability 8.0 for the tiled ones.
//
// Sums are in f32, tap by tap in the order of the kernel's rows; the general kernel adds up row by row. Of codes they
// are whole numbers, four rows of a channel at a time (CodeTaps).

#include "lamina/cuda/conv2d/depthwise/expanded.cuh"
#include "lamina/cuda/conv2d/depthwise/general.cuh"
#include "lamina/cuda/conv2d/depthwise/image.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::depthwise {

template <class Word, int taps, int pack>
__device__ __forceinline__ void load_taps(Word (&w)[taps][pack], const Word* from, int pitch) {
#pragma unroll
  for (int tap = 0; tap < taps; ++tap) load_words(from + tap * pitch, w[tap]);
}

template <class Source, int kernel, int stride, int pack, int columns, int rows>
__global__ void __launch_bounds__(max_threads, 2)
    tiled_kernel(const __grid_constant__ typename Source::Arguments args) {
#if __CUDA_ARCH__ >= 800
  using T = typename Source::Element;
  using Word = Sum<T>;
  constexpr int taps_of_channel = of_codes<T> ? CodeTaps{kernel, stride, rows}.words() * kernel : kernel * kernel;
  constexpr bool in_registers = taps_of_channel * pack <= 36;
  extern __shared__ __align__(16) unsigned char memory[];
  let_successor_start();
  const ConvGeometry& g = args.geometry;
  const Place place(args, rows, columns);
  const Source source(args, place, taps_of_channel, place.row * stride - g.padding_height,
                      place.column * stride - g.padding_width, memory);
  const int thread = static_cast<int>(threadIdx.x), items = args.slice / pack * args.across * args.down;

  // Parameters do not depend on the kernel before this one.
  const Item own(args, place, thread, rows, columns, pack);
  Word w[in_registers ? taps_of_channel : 1][pack];
  Word bias[pack];
  float factor[pack];  // of codes
  constexpr bool early = in_registers && !Source::expands;
  if constexpr (early) {
    const int mine = thread < items && own.channel < g.in_channels ? own.channel : 0;
    if constexpr (of_codes<T>) {
      load_words(static_cast<const Word*>(args.bias) + mine, bias);
      load_words(args.ends.factor + mine, factor);
    }
    load_taps(w, static_cast<const Word*>(args.weight) + mine, g.in_channels);
  } else {
    source.template load_parameters<pack>(taps_of_channel);
  }
  wait_for_predecessor();
  source.load();
  ptx::copy_async_commit();
  ptx::copy_async_wait<0>();
  __syncthreads();
  source.expand();

  const auto add_up = [&](const Item& item) {
    if (item.row >= g.out_height || item.column >= g.out_width || item.channel >= g.in_channels) return;
    const Word* taps = source.taps + item.lane * pack;
    if constexpr (in_registers && Source::expands) load_taps(w, taps, args.slice);
    const int rows_left = g.out_height - item.row, columns_left = g.out_width - item.column;
    const unsigned char* first =
        source.map + (item.down * rows * stride * args.halo_width + item.across * columns * stride) * args.pixel_bytes +
        item.lane * pack * static_cast<int>(sizeof(T));
    const auto tap = [&](int i, Word(&to)[pack]) {
      if constexpr (in_registers) {
#pragma unroll
        for (int j = 0; j < pack; ++j) to[j] = w[i][j];
      } else {
        load_words(taps + i * args.slice, to);
      }
    };
    if constexpr (!of_codes<T> || !early) load_words(source.biases + item.lane * pack, bias);
    const std::int64_t output =
        ((place.image * g.out_height + item.row) * g.out_width + item.column) * args.output_pitch + item.channel;
    const auto index = [&](int r, int c) {
      return output + (r * static_cast<std::int64_t>(g.out_width) + c) * args.output_pitch;
    };
    const auto inside = [&](int r, int c) { return r < rows_left && c < columns_left; };
    Word sum[rows][columns][pack] = {};
    if constexpr (of_codes<T>) {
      add_code_windows<T, kernel, stride>(first, args.halo_width * args.pixel_bytes, args.pixel_bytes, tap, bias, sum);
      if constexpr (!early) load_words(source.factors + item.lane * pack, factor);
      store_codes<early || Source::expands>(args.ends, item.channel, factor, sum, args.output, index, inside);
    } else {
      add_windows<T, kernel, stride, in_registers>(first, args.halo_width * args.pixel_bytes, args.pixel_bytes, tap,
                                                   sum);
      store_windows<T>(args.finish, bias, sum, static_cast<T*>(args.output), index, inside);
    }
  };
  if constexpr (Source::expands) {
    for (int i = thread; i < items; i += max_threads) add_up(Item(args, place, i, rows, columns, pack));
  } else if (thread < items) {
    add_up(own);
  }
#endif
}

template <class Source, int kernel, int stride, int pack, int rows>
Instance tiled() {
  // As many as leave a thread's 128 registers for its row of inputs: f32 is loaded in place of converted.
  constexpr bool wide = sizeof(typename Source::Element) == 4 && pack == 4;
  constexpr int columns = kernel > 3 && stride == 1 ? (wide && kernel > 5 ? 4 : 7) : wide && kernel > 3 ? 2 : 4;
  const void* const function =
      reinterpret_cast<const void*>(&tiled_kernel<Source, kernel, stride, pack, columns, rows>);
  return {kernel, stride, pack, columns, rows, function, of_codes<typename Source::Element>};
}
template <class T, int pack>
Instance general() {
  return {.pack = pack, .function = reinterpret_cast<const void*>(&general_kernel<T, pack>)};
}

template <class T>
std::vector<Instance> instances() {
  using S = Image<T>;
  return {tiled<S, 3, 1, 4, 2>(), tiled<S, 3, 1, 4, 1>(), tiled<S, 3, 2, 4, 2>(), tiled<S, 3, 2, 4, 1>(),
          tiled<S, 5, 1, 4, 2>(), tiled<S, 5, 1, 4, 1>(), tiled<S, 5, 2, 4, 2>(), tiled<S, 5, 2, 4, 1>(),
          tiled<S, 7, 1, 4, 1>(), tiled<S, 7, 2, 4, 1>(), tiled<S, 3, 1, 2, 2>(), tiled<S, 3, 1, 2, 1>(),
          tiled<S, 3, 2, 2, 2>(), tiled<S, 3, 2, 2, 1>(), tiled<S, 5, 1, 2, 1>(), tiled<S, 5, 2, 2, 1>(),
          general<T, 4>(),        general<T, 1>()};
}

/// Of codes.
template <class T>
std::vector<Instance> code_instances() {
  using S = Image<T>;
  return {tiled<S, 3, 1, 4, 2>(), tiled<S, 3, 1, 4, 1>(), tiled<S, 3, 2, 4, 2>(), tiled<S, 3, 2, 4, 1>(),
          tiled<S, 5, 1, 4, 2>(), tiled<S, 5, 1, 4, 1>(), tiled<S, 5, 2, 4, 1>(), tiled<S, 7, 1, 4, 1>()};
}

/// Of pairs.
template <class T>
std::vector<Instance> pairs() {
  using S = Expanded<T>;
  return {tiled<S, 3, 1, 4, 2>(), tiled<S, 3, 1, 4, 1>(), tiled<S, 3, 2, 4, 2>(), tiled<S, 3, 2, 4, 1>(),
          tiled<S, 5, 1, 4, 2>(), tiled<S, 5, 1, 4, 1>(), tiled<S, 5, 2, 4, 2>(), tiled<S, 5, 2, 4, 1>(),
          tiled<S, 3, 1, 2, 2>(), tiled<S, 3, 1, 2, 1>(), tiled<S, 3, 2, 2, 2>(), tiled<S, 3, 2, 2, 1>()};
}

template <class T>
std::vector<Instance> code_pairs() {
  using S = Expanded<T>;
  return {tiled<S, 3, 1, 4, 2>(), tiled<S, 3, 1, 4, 1>(), tiled<S, 3, 2, 4, 2>(),
          tiled<S, 3, 2, 4, 1>(), tiled<S, 5, 1, 4, 1>(), tiled<S, 5, 2, 4, 1>()};
}

}  // namespace lamina::cuda::depthwise
