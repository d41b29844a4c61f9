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

/// Few channels; many; groups; one channel a group; patches; one pixel a window.
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
    {{.batch = 2,
      .in = 3,
      .height = 16,
      .width = 32,
      .out = 32,
      .kernel = {3, 3},
      .stride = {2, 2},
      .padding = {1, 1}}},
    {{.in = 3, .height = 21, .width = 9, .out = 24, .kernel = {3, 3}, .stride = {2, 2}}, true},
    {{.batch = 2, .in = 64, .height = 8, .width = 8, .out = 32}},
    {{.in = 72, .height = 5, .width = 7, .out = 40}, true},
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

/// One layer in one precision: its operands, with NaN and Inf among them and without, and what should come of them.
struct Reference {
  Reference(const Layer& layer, Precision chosen, unsigned turn, bool run)
      : geometry(geometry_of(layer.geometry)), precision(chosen), biased(turn % 2 == 0) {
    if (!run) return;
    finite = draw(geometry, normal, normal, turn);
    finite.residual = draw(geometry.output_size(), Values::mixed, turn + 1);
    for (float& r : finite.residual) r = rounded(r, precision);
    other = finite;
    other.x[0] = infinity, other.x[other.x.size() / 2] = std::nanf(""), other.x[other.x.size() - 1] = -infinity;
    of_finite = reference_of(geometry, precision, finite, biased);
    if (!reduced()) of_other = reference_of(geometry, precision, other, biased);
  }

  ConvGeometry geometry;
  Precision precision;
  bool biased;
  ConvData finite, other;
  ConvReference of_finite, of_other;
};

/// Twice on ordinary values, once on some that are none; under compute-sanitizer, once.
template <class Problem>
bool try_layer(const Reference& r, const KernelOptions& o, const DeviceDescription& device, bool run) {
  Task<Problem> task(r.geometry, o, device);
  if (!task.taken() || !run) return task.taken();
  const Prepared kernel = {task.prepare(r.finite, r.biased), task.views[0], task.views[2]};
  const std::vector<float> residual = reads_residual(o.chain) ? r.finite.residual : std::vector<float>();
  const auto run_on = [&](const ConvData& data, const ConvReference& reference, const char* which) {
    std::vector<Expected> expected = expected_outputs(r.geometry, o, reference, r.finite.residual);
    if (o.pool) expected = pooled(*o.pool, expected);
    std::vector<unsigned char> bytes = run_bytes(kernel, data.x, nullptr, residual);
    expect_outputs(expected, to_values(bytes, kernel.output.shape, kernel.output.format),
                   describe(r.geometry, o) + which);
    return bytes;
  };
  const std::vector<unsigned char> bytes = run_on(r.finite, r.of_finite, "");
  if (reduced()) return true;
  run_on(r.other, r.of_other, ", NaN and Inf");
  EXPECT_TRUE(bytes == run_bytes(kernel, r.finite.x, nullptr, residual)) << describe(r.geometry, o) << ": other bits";
  return true;
}

/// Types of input and output: as the precision stores them, and with f32 at either end.
std::vector<std::pair<DType, DType>> types_of(Precision precision) {
  const DType stored = storage_type(precision);
  if (stored == DType::f32) return {{stored, stored}};
  return {{stored, stored}, {stored, DType::f32}, {DType::f32, stored}};
}

/// Every layer that the row takes, in every precision, type and layout; under compute-sanitizer each in one type and
/// layout, in turn.
template <class Problem>
Taken try_layers(const std::vector<Layer>& layers, std::string_view kernel, const DeviceDescription& device, bool run) {
  constexpr std::size_t layouts = std::is_same_v<Problem, ConvProblem> ? 4 : 1;  // pairs of them
  Taken taken;
  unsigned turn = 0;
  for (const Precision precision : precisions) {
    const auto types = types_of(precision);
    for (const Layer& layer : layers) {
      const Reference reference(layer, precision, ++turn, run);
      const std::size_t first = turn, ways = types.size() * layouts;
      for (std::size_t i = 0; i < ways; ++i) {
        const std::size_t way = (first + i) % ways;
        const auto [in, out] = types[way / layouts];
        KernelOptions o = {.kernel = kernel,
                           .precision = precision,
                           .input = {in, way % 2 == 0 ? Layout::nchw : Layout::nhwc},
                           .output = {out, way % layouts / 2 == 0 ? Layout::nchw : Layout::nhwc}};
        if (layouts == 1) o.input.layout = Layout::nchw;
        if (layer.pooled) o.pool = pool_of(reference.geometry);
        set_epilogue(o, ++turn);
        bool ran = try_layer<Problem>(reference, o, device, run);
        if (!ran) {  // perhaps for the epilogue
          o.chain = {}, o.relu = true;
          ran = try_layer<Problem>(reference, o, device, run);
        }
        if (!ran) continue;
        ++(layer.odd ? taken.odd : taken.regular);
        if (testing::Test::HasFailure()) return taken;
        if (reduced()) break;
      }
    }
  }
  return taken;
}

}  // namespace

void add_layer_rows(std::vector<TableRow>& rows) {
  add_rows<ConvProblem>(rows, [](std::string_view kernel, const DeviceDescription& device, bool run) {
    return try_layers<ConvProblem>(convolutions, kernel, device, run);
  });
  add_rows<LinearProblem>(rows, [](std::string_view kernel, const DeviceDescription& device, bool run) {
    return try_layers<LinearProblem>(linears, kernel, device, run);
  });
}

}  // namespace lamina::test
