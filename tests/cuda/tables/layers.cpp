// Convolutions and linear layers, against the loops in double precision, in every precision and format.

#include "cuda/conv2d/chains.h"
#include "cuda/tables/rows.h"
#include "support/kernel_harness.h"

namespace lamina::test {
namespace {

struct Layer {
  Case geometry;
  bool odd = false;
  bool pooled = false;  // by windows of 3x3, stride 2
};

/// Few channels; many; groups; one channel a group; patches.
const std::vector<Layer> convolutions = {
    {{.batch = 2,
      .in = 3,
      .height = 23,
      .width = 27,
      .out = 64,
      .kernel = {7, 7},
      .stride = {2, 2},
      .padding = {3, 3}}},
    {{.in = 3, .height = 43, .width = 47, .out = 32, .kernel = {11, 11}, .stride = {4, 4}, .padding = {2, 2}}, true},
    {{.in = 3, .height = 31, .width = 33, .out = 40, .kernel = {7, 7}, .stride = {2, 2}, .padding = {3, 3}},
     true,
     true},
    {{.batch = 2, .in = 64, .height = 8, .width = 8, .out = 64, .kernel = {3, 3}, .padding = {1, 1}}},
    {{.in = 72, .height = 9, .width = 11, .out = 40, .kernel = {3, 5}, .stride = {2, 1}, .padding = {1, 2}}, true},
    {{.batch = 3,
      .in = 17,
      .height = 9,
      .width = 7,
      .out = 21,
      .kernel = {3, 3},
      .padding = {1, 1},
      .dilation = {2, 1}},
     true},
    {{.in = 64, .height = 8, .width = 8, .out = 64, .kernel = {3, 3}, .padding = {1, 1}, .groups = 8}},
    {{.batch = 2, .in = 15, .height = 7, .width = 9, .out = 9, .kernel = {3, 3}, .padding = {1, 1}, .groups = 3}, true},
    {{.batch = 2, .in = 32, .height = 8, .width = 8, .out = 32, .kernel = {3, 3}, .padding = {1, 1}, .groups = 32}},
    {{.in = 13,
      .height = 11,
      .width = 9,
      .out = 13,
      .kernel = {5, 5},
      .stride = {2, 2},
      .padding = {2, 2},
      .groups = 13},
     true},
    {{.batch = 2, .in = 3, .height = 16, .width = 32, .out = 24, .kernel = {16, 16}, .stride = {16, 16}}},
};

/// Of one pixel: rows, in, out.
const std::vector<Layer> linears = {
    {{.batch = 1, .in = 256, .height = 1, .width = 1, .out = 64}},
    {{.batch = 8, .in = 256, .height = 1, .width = 1, .out = 128}},
    {{.batch = 40, .in = 128, .height = 1, .width = 1, .out = 64}},
    {{.batch = 1, .in = 264, .height = 1, .width = 1, .out = 77}, true},
    {{.batch = 3, .in = 264, .height = 1, .width = 1, .out = 77}, true},
    {{.batch = 3, .in = 33, .height = 1, .width = 1, .out = 5}, true},
    {{.batch = 37, .in = 72, .height = 1, .width = 1, .out = 40}, true},
    {{.batch = 37, .in = 33, .height = 1, .width = 1, .out = 77}, true},
};

/// What follows takes turns: nothing, a ReLU, chains, some with another operand.
void set_epilogue(KernelOptions& o, unsigned turn) {
  const unsigned kinds = 2 + static_cast<unsigned>(std::size(chains));
  if (turn % kinds == 0) return;
  if (turn % kinds == 1) {
    o.relu = true;
  } else {
    o.chain = chains[turn % kinds - 2];
  }
}

std::optional<PoolGeometry> pool_of(const ConvGeometry& g) {
  return PoolGeometry{.planes = g.batch * g.out_channels,
                      .in_height = g.out_height,
                      .in_width = g.out_width,
                      .out_height = (g.out_height - 3) / 2 + 1,
                      .out_width = (g.out_width - 3) / 2 + 1,
                      .kernel_height = 3,
                      .kernel_width = 3,
                      .stride_height = 2,
                      .stride_width = 2};
}

/// The largest of every window, which is off by no more than the worst of it; NaN wins.
std::vector<Expected> pooled(const PoolGeometry& pool, const std::vector<Expected>& map) {
  std::vector<Expected> result;
  for (std::int64_t i = 0; i < pool.planes * pool.out_pixels(); ++i) {
    const std::int64_t plane = i / pool.out_pixels(), row = i % pool.out_pixels() / pool.out_width * 2,
                       column = i % pool.out_width * 2;
    Expected most = {.value = -std::numeric_limits<double>::infinity()};
    for (std::int64_t k = 0; k < 9; ++k) {
      const std::int64_t at = (plane * pool.in_height + row + k / 3) * pool.in_width + column + k % 3;
      const Expected& e = map[static_cast<std::size_t>(at)];
      if (!(e.value <= most.value) && !std::isnan(most.value)) most.value = e.value;
      most.bound = std::max(most.bound, e.bound);
    }
    result.push_back(most);
  }
  return result;
}

/// Twice on each of ordinary values and of some that are none.
template <class Problem>
bool run_layer(const Layer& layer, const KernelOptions& o, const DeviceDescription& device, unsigned seed) {
  const ConvGeometry g = geometry_of(layer.geometry);
  Task<Problem> task(g, o, device);
  if (!task.taken()) return false;
  ConvData data = draw(g, normal, normal, seed);
  if (reads_residual(o.chain)) {
    data.residual = draw(g.output_size(), Values::mixed, seed + 1);
    for (float& r : data.residual) r = rounded(r, o.precision);
  }
  const Prepared kernel = {task.prepare(data, seed % 2 == 0), task.views[0], task.views[2]};
  for (const bool finite : {true, false}) {
    if (!finite) {
      data.x[0] = infinity, data.x[data.x.size() / 2] = std::nanf(""), data.x[data.x.size() - 1] = -infinity;
    }
    const std::string what = detail::concat(describe(g, o), finite ? "" : ", NaN and Inf");
    std::vector<Expected> expected =
        expected_outputs(g, o, reference_of(g, o.precision, data, seed % 2 == 0), data.residual);
    if (o.pool) expected = pooled(*o.pool, expected);
    const std::vector<unsigned char> bytes = run_bytes(kernel, data.x, nullptr, data.residual);
    expect_outputs(expected, to_values(bytes, kernel.output.shape, kernel.output.format), what);
    if (reduced()) continue;
    EXPECT_TRUE(bytes == run_bytes(kernel, data.x, nullptr, data.residual)) << what << ": other bits in a second run";
  }
  return true;
}

/// Types of input and output: as the precision stores them, and with f32 at either end.
std::vector<std::pair<DType, DType>> types_of(Precision precision) {
  const DType stored = storage_type(precision);
  if (stored == DType::f32) return {{stored, stored}};
  return {{stored, stored}, {stored, DType::f32}, {DType::f32, stored}};
}

template <class Problem>
Taken run_layers(const std::vector<Layer>& layers, std::string_view kernel, const DeviceDescription& device) {
  constexpr bool of_images = std::is_same_v<Problem, ConvProblem>;
  Taken taken;
  unsigned turn = 0;
  for (const Precision precision : precisions) {
    for (const auto& [in, out] : types_of(precision)) {
      for (const Layer& layer : layers) {
        for (unsigned layouts = 0; layouts < (of_images ? 4u : 1u); ++layouts) {
          KernelOptions o = {.kernel = kernel,
                             .precision = precision,
                             .input = {in, layouts % 2 == 0 ? Layout::nchw : Layout::nhwc},
                             .output = {out, layouts / 2 == 0 ? Layout::nchw : Layout::nhwc}};
          if (layer.pooled) o.pool = pool_of(geometry_of(layer.geometry));
          set_epilogue(o, ++turn);
          bool ran = run_layer<Problem>(layer, o, device, turn);
          if (!ran) {  // perhaps for the epilogue
            o.chain = {}, o.relu = true;
            ran = run_layer<Problem>(layer, o, device, turn);
          }
          if (ran) ++(layer.odd ? taken.odd : taken.regular);
          if (testing::Test::HasFailure()) return taken;
        }
      }
    }
  }
  return taken;
}

}  // namespace

void add_layer_rows(std::vector<TableRow>& rows) {
  add_rows<ConvProblem>(rows, [](std::string_view kernel, const DeviceDescription& device) {
    return run_layers<ConvProblem>(convolutions, kernel, device);
  });
  add_rows<LinearProblem>(rows, [](std::string_view kernel, const DeviceDescription& device) {
    return run_layers<LinearProblem>(linears, kernel, device);
  });
}

}  // namespace lamina::test
