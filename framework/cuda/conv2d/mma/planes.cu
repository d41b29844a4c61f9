// A convolution of one pixel between images that stay channels first: each is a matrix of channels by pixels, which the
// weights are multiplied by. So are the rows of tokens that an MLP-Mixer multiplies across (Tolstikhin et al.,
// "MLP-Mixer: An all-MLP Architecture for Vision", 2021), without a turn in front and behind. See matmul_tile.cuh.
//
// Preconditions: `takes`.

#include "lamina/cuda/conv2d/mma/mma.h"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/product/matmul_tile.cuh"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::mma::planes {
namespace {

using namespace tables;
using tiles::Large, tiles::Small;

constexpr int whole = 8;  // elements of 16 bytes

/// With a bias for each row, and finished.
struct Finished {
  Finish by;
  const float* bias = nullptr;

  template <class Row>  // as finish: before 8.0 nobody calls them
  __device__ float of_row(Row r) const {
    return bias == nullptr ? 0 : bias[r];
  }

  template <class T, int n>
  __device__ void finish(float (&values)[n], float shift, std::int64_t first, std::int64_t columns) const {
    float residual[n];
#pragma unroll
    for (int v = 0; v < n; v += 2) {
      float two[2] = {};
      if (v * 4 < columns) load_residual<T>(by, first + v * 4, two);
#pragma unroll
      for (int i = 0; i < 2; ++i) residual[v + i] = two[i], values[v + i] += shift;
    }
    apply<T>(by, values, residual);
  }
};

/// The weights in rows of whole packs, zeros behind them.
std::vector<std::uint16_t> packed(const ConvProblem& problem, std::int64_t pitch, DType type) {
  const auto filters = problem.geometry.out_channels;
  const std::int64_t terms = problem.geometry.reduction();
  const float* from = lamina::detail::floats(problem.weight);
  std::vector<std::uint16_t> rows(static_cast<std::size_t>(filters * pitch));
  for (std::int64_t filter = 0; filter < filters; ++filter) {
    std::transform(from + filter * terms, from + (filter + 1) * terms, rows.begin() + filter * pitch,
                   [&](float weight) { return bits16(weight, type); });
  }
  return rows;
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const DType type = storage_type(p.precision);
  const auto fits = [&](const View& view) {
    return view.format == Format{type, lamina::Layout::nchw} && !view.is_slice() && view.alignment % 16 == 0;
  };
  return p.device.architecture >= 80 && size_of(type) == 2 && lamina::detail::is_of_pixels(g) && g.groups == 1 &&
         g.in_pixels() % whole == 0 && fits(p.input()) && fits(p.output()) && !problem.scaled() &&
         finish_takes(problem.epilogue, p);
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const DType type = storage_type(p.precision);
  tiles::MatMulExtents e;
  e.m = g.out_channels, e.n = g.in_pixels(), e.k = g.in_channels, e.batches = g.batch;
  e.a_row = lamina::detail::ceil_div<std::int64_t>(e.k, whole) * whole, e.a_term = 1;
  e.b_term = e.n, e.b_column = 1;
  e.batch_rank = 1, e.extents[0] = g.batch, e.a_strides[0] = 0, e.b_strides[0] = e.k * e.n;
  Constants constants(index(p));
  const void* const weights = constants.add(packed(problem, e.a_row, type));
  const Finished end = {finish_of(problem.epilogue, type),
                        problem.bias.defined() ? constants.add(padded_biases(problem.bias, e.m)) : nullptr};
  const bool large = tiles::large_pays(e, p.device), adds = problem.epilogue.reads_operands();
  return make_on_device(
      index(p), large ? "planes (mma.sync): 128 filters x 128 pixels" : "planes (mma.sync): 64 filters x 64 pixels",
      [=, constants = std::move(constants)](Inputs inputs, Outputs outputs, const Execution& execution) {
        Finished finished = end;
        if (adds) finished.by.residual = inputs.back().raw();
        const auto run = [&]<class T>(T*) {
          const auto launch = [&]<class Tile>(Tile) {
            tiles::launch<Tile, false, false, true>(constants.device(), e, {}, static_cast<const T*>(weights),
                                                    elements<T>(inputs[0]), elements<T>(outputs[0]), finished,
                                                    execution.stream);
          };
          large ? launch(Large()) : launch(Small());
        };
        type == DType::f16 ? run(static_cast<__half*>(nullptr)) : run(static_cast<__nv_bfloat16*>(nullptr));
      });
}

}  // namespace lamina::cuda::mma::planes
