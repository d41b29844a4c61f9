#pragma once

// How a block of stream.cuh divides its tile and its shared memory, and the thread that fills the ring.

#include <type_traits>

#include "lamina/cuda/linear/stream_arguments.h"
#include "lamina/cuda/ptx/barrier.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/tensor_copy.cuh"
#include "lamina/cuda/ptx/tf32.h"
#include "lamina/cuda/tensor_core/ring.cuh"
#include "lamina/cuda/tensor_core/split_k.cuh"

namespace lamina::cuda::linear_stream {

using ptx::Tf32;

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, Tf32>, float, T>;

template <class T>
inline constexpr int step_terms = step_bytes / static_cast<int>(sizeof(Stored<T>));

/// How a block divides its tile; `groups` warpgroups, of which each has 64 outputs, or in f32 each other step.
template <class T, int groups, int n>
struct Shape {
  static constexpr bool products = !std::is_same_v<T, float>;  // by tensor cores
  static constexpr int consumers = groups * 128;
  static constexpr int outputs = products ? groups * block_outputs : block_outputs;
  static constexpr int weight_bytes = outputs * step_bytes;
  static constexpr int stage_bytes = weight_bytes + n * step_bytes;
  static constexpr int fragments = products ? n / 8 : 1;        // a thread's sums, four at a time
  static constexpr int finishers = products ? consumers : 128;  // threads that add up what was sent
  static constexpr int parts = products ? 1 : groups;           // of a sum, from each block
  static constexpr int fragment_bytes = parts * finishers * 16;
  static constexpr int resident = n <= 8 ? 1 : 2;  // blocks on a multiprocessor, see stream.cpp
};

/// What a block keeps in shared memory.
template <class S>
struct Shared {
  unsigned char *ring, *landing;
  std::uint64_t *full, *empty, *landed;  // by the copies, the consumers, the cluster's blocks
  int owned;                             // fragments of each block of the cluster

  __device__ Shared(unsigned char* base, const Arguments& args)
      : ring(base), landing(base + args.stages * S::stage_bytes), owned(fragments_owned(S::fragments, args.splits)) {
    full = reinterpret_cast<std::uint64_t*>(landing + args.splits * owned * S::fragment_bytes);
    empty = full + max_stages;
    landed = empty + max_stages;
  }
};

/// The one thread that copies.
template <class T, class S>
struct Producer {
  const Arguments& args;
  const Shared<S>& shared;
  KPiece span;
  const unsigned char* source;  // of the first block of 64 outputs, at the step to come
  std::uint64_t policy;

  __device__ Producer(const Arguments& arguments, const Shared<S>& memory, int tile, int rank)
      : args(arguments), shared(memory), span(arguments.steps, arguments.splits, rank), policy(ptx::evict_first()) {
    source = static_cast<const unsigned char*>(args.weight) +
             (static_cast<std::size_t>(span.first) * static_cast<unsigned>(args.blocks) +
              static_cast<unsigned>(tile * (S::outputs / block_outputs))) *
                 block_bytes;
  }

  /// The next step's weights, into a stage that may now receive all its bytes.
  __device__ __forceinline__ void bring(int stage) {
    ptx::barrier_arrive_expect(shared.full + stage, S::stage_bytes);
    ptx::bulk_load(shared.ring + stage * S::stage_bytes, source, S::weight_bytes, shared.full + stage, policy);
    source += static_cast<std::size_t>(args.blocks) * block_bytes;
  }

  /// As many steps' weights as the ring holds.
  __device__ __forceinline__ int ahead() {
    const int steps = min(args.stages, span.count());
#pragma unroll 1
    for (int step = 0; step < steps; ++step) bring(step);
    return steps;
  }

  /// All the input, and the weights of the other steps.
  __device__ __forceinline__ void feed(const CUtensorMap& input, int ahead) {
    TeamRing ring{{args.stages}};
    int column = span.first * step_terms<T>;
    for (int step = 0; step < span.count(); ++step, column += step_terms<T>, ring.advance()) {
      if (step >= ahead) {
        ptx::barrier_wait(shared.empty + ring.stage, ring.parity ^ 1);
        bring(ring.stage);
      }
      ptx::load_box(shared.ring + ring.stage * S::stage_bytes + S::weight_bytes, input, column, 0,
                    shared.full + ring.stage);
    }
  }
};

}  // namespace lamina::cuda::linear_stream
