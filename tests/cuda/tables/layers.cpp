// Convolutions and linear layers, against the loops in double precision, in every precision and format.

#include "cuda/conv2d/family.h"
#include "cuda/tables/examples.h"

namespace lamina::test {
namespace {

struct Layer {
  Case geometry;
  bool odd = false;
  bool pooled = false;  // by windows of 3x3, stride 2
};

/// Few channels; many; groups, of few and of many; one channel a group; patches; one pixel a window.
const std::vector<Layer> convolutions = {
    {conv("n2 3x23x27 -> 64, k 7, s 2, p 3")},
    {conv("3x43x47 -> 32, k 11, s 4, p 2"), true},
    {conv("3x31x33 -> 40, k 7, s 2, p 3"), true, true},
    {conv("n2 64x8x8 -> 64, k 3, p 1")},
    {conv("72x9x11 -> 40, k 3x5, s 2x1, p 1x2"), true},
    {conv("n3 17x9x7 -> 21, k 3, p 1, d 2x1"), true},
    {conv("64x8x8 -> 64, k 3, p 1, g 8")},
    {conv("n2 15x7x9 -> 9, k 3, p 1, g 3"), true},
    {conv("n2 128x8x8 -> 128, k 3, p 1, g 2")},
    {conv("n2 32x8x8 -> 32, k 3, p 1, g 32")},
    {conv("13x11x9 -> 13, k 5, s 2, p 2, g 13"), true},
    {conv("36x11x9 -> 36, k 3, s 2, p 1, g 36"), true},
    {conv("n2 3x16x32 -> 24, k 16, s 16")},
    {conv("n2 3x16x32 -> 32, k 3, s 2, p 1")},
    {conv("3x21x9 -> 24, k 3, s 2"), true},
    {conv("n2 64x8x8 -> 32")},
    {conv("72x5x7 -> 40"), true},
    {conv("n2 4x16x16 -> 8")},
    {conv("3x9x7 -> 5"), true},
    {conv("n2 64x1x72 -> 128")},
    {conv("n3 49x1x136 -> 77"), true},
    {conv("n2 3x16x32 -> 32, k 3, s 2, b 1")},
    {conv("3x32x30 -> 64, k 7, s 2, p 2, b 1")},
    {conv("n2 64x8x8 -> 64, k 3, s 2, b 1")},
    {conv("n2 64x8x8 -> 32, b 1x2")},
    {conv("n2 3x16x32 -> 24, k 16, s 16, b 16")},
    {conv("n2 64x9x8 -> 64, k 3x5, p 0x1, b 2x2, g 8")},
    {conv("n2 32x8x10 -> 32, k 5, s 2, p 1, b 1, g 32")},
    {conv("13x6x7 -> 9, k 3, s 2x1, p 1, d 2, b 1x3"), true},
    {conv("n2 15x9x9 -> 9, k 3, s 3, p 1, b -1, g 3"), true},
};

/// Of one pixel: rows, in, out.
const std::vector<Layer> linears = {
    {conv("256x1x1 -> 64")},          {conv("n8 256x1x1 -> 128")},      {conv("n40 128x1x1 -> 64")},
    {conv("264x1x1 -> 77"), true},    {conv("n3 264x1x1 -> 77"), true}, {conv("n3 33x1x1 -> 5"), true},
    {conv("n37 72x1x1 -> 40"), true}, {conv("n37 33x1x1 -> 77"), true}, {conv("n3 48x1x1 -> 77"), true},
    {conv("n64 8x1x1 -> 8")},         {conv("n37 5x1x1 -> 3"), true},
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
        if (layer.pooled) o.pool = pool_geometry(reference.geometry);
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

/// The same of codes, to codes, to f32 and to what codes stand for: the CPU's bits.
template <class Problem>
std::vector<Example<Problem>> of_codes(const std::vector<Layer>& layers) {
  std::vector<Example<Problem>> examples;
  for (const Layer& layer : layers) {
    const ConvGeometry g = geometry_of(layer.geometry);
    EightBitWeights eight;
    eight.weight = random_codes({g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}, DType::i8, 5);
    eight.scale = Tensor({g.out_channels});
    for (float& scale : eight.scale.values<float>()) scale = 0.0021f;
    Example<Problem> e;
    e.odd = layer.odd, e.spread = 0, e.from = e.to = {Layout::nhwc};
    Shape input = {g.batch, g.in_channels, g.in_height, g.in_width};
    e.output = {g.batch, g.out_channels, g.out_height, g.out_width};
    if constexpr (std::is_same_v<Problem, ConvProblem>) {
      e.problem.geometry = g;
    } else {
      e.problem.rows = g.batch, e.problem.in = g.in_channels, e.problem.out = g.out_channels;
      input = {g.batch, g.in_channels}, e.output = {g.batch, g.out_channels};
      eight.weight = eight.weight.view({g.out_channels, g.in_channels});
    }
    e.problem.eight = eight;
    for (const CodeCase& codes : code_cases) {
      if (codes.c.scale < 1e-15f) continue;
      e.inputs = {codes.draw(input, 7)}, e.problem.epilogue = {};
      e.result = codes.type, e.codes = {codes.a, codes.c};
      examples.push_back(e);
      e.problem.epilogue.chain = {{Pointwise::relu}};
      e.result = DType::f32, e.codes = {codes.a, {}};
      examples.push_back(e);
      Example<Problem> read = e;
      read.problem.epilogue.chain = {to_codes(codes.type, codes.c)};
      examples.push_back(read);
    }
  }
  return examples;
}

}  // namespace

void add_layer_rows(std::vector<TableRow>& rows) {
  add_rows<ConvProblem>(rows, [](std::string_view kernel, const DeviceDescription& device, bool run) {
    if (!kernel.starts_with("int8")) return try_layers<ConvProblem>(convolutions, kernel, device, run);
    return try_examples(of_codes<ConvProblem>(convolutions), kernel, device, run);
  });
  add_rows<LinearProblem>(rows, [](std::string_view kernel, const DeviceDescription& device, bool run) {
    if (!kernel.starts_with("int8")) return try_layers<LinearProblem>(linears, kernel, device, run);
    return try_examples(of_codes<LinearProblem>(linears), kernel, device, run);
  });
}

}  // namespace lamina::test
