// What the tables of cuda/lookup are tried on.

#include "cuda/tables/examples.h"
#include "lamina/kernel/rules/lookup/find.h"

namespace lamina::test {
namespace {

/// Two taps of weights 0.25 and 0.75, `out` of them over `in` places.
ResampleProblem::Axis axis_of(int dim, int in, int out) {
  ResampleProblem::Axis axis = {.dim = dim, .taps = 2};
  for (int i = 0; i < out; ++i) {
    const int at = i * in / out;
    axis.indices.insert(axis.indices.end(), {at, std::min(at + 1, in - 1)});
    axis.weights.insert(axis.weights.end(), {0.25f, 0.75f});
  }
  return axis;
}

std::vector<Example<ResampleProblem>> resample() {
  return {{false, {{axis_of(2, 8, 16), axis_of(3, 8, 16)}}, {draw_floats({2, 16, 8, 8}, 1)}, {2, 16, 16, 16}, 4},
          {true, {{axis_of(2, 7, 13), axis_of(3, 9, 5)}}, {draw_floats({3, 5, 7, 9}, 2)}, {3, 5, 13, 5}, 4},
          {true, {{axis_of(1, 33, 50)}}, {draw_floats({3, 33}, 3)}, {3, 50}, 4}};
}

std::vector<Example<GatherProblem>> gather() {
  const auto places = [](const Shape& shape, std::int64_t extent) { return draw_whole(shape, 4, -extent, extent - 1); };
  return {{false, {GatherKind::take, 0}, {draw_floats({64, 32}, 1), places({16}, 64)}, {16, 32}, 0},
          {true, {GatherKind::take, 1}, {draw_floats({3, 7, 5}, 2), places({2, 3}, 7)}, {3, 2, 3, 5}, 0},
          {true, {GatherKind::elements, 1}, {draw_floats({3, 50, 7}, 3), places({3, 61, 7}, 50)}, {3, 61, 7}, 0},
          {true, {GatherKind::nd, 0, 1}, {draw_floats({3, 5, 6, 2}, 4), places({3, 8, 2}, 5)}, {3, 8, 2}, 0},
          {true, {GatherKind::take, 0}, {draw_any({7, 5}, 2, DType::u8), places({11}, 7)}, {11, 5}, 0}};
}

std::vector<Example<ScatterProblem>> scatter() {
  std::vector<Example<ScatterProblem>> examples;
  for (const ScatterReduction reduction : {ScatterReduction::none, ScatterReduction::add, ScatterReduction::mul,
                                           ScatterReduction::max, ScatterReduction::min}) {
    const bool sums = reduction == ScatterReduction::add || reduction == ScatterReduction::mul;
    const double spread = sums ? 64 : 0;
    examples.push_back({false,
                        {GatherKind::elements, 0, reduction},
                        {draw_floats({32, 16}, 1), draw_whole({16, 16}, 2, 0, 31), draw_floats({16, 16}, 3)},
                        {32, 16},
                        spread});
    examples.push_back({true,
                        {GatherKind::elements, 1, reduction},
                        {draw_floats({3, 7, 5}, 4), draw_whole({3, 11, 5}, 5, -7, 6), draw_floats({3, 11, 5}, 6)},
                        {3, 7, 5},
                        spread});
    examples.push_back({true,
                        {GatherKind::nd, 0, reduction},
                        {draw_floats({7, 33}, 7), draw_whole({5, 1}, 8, 0, 6), draw_floats({5, 33}, 9)},
                        {7, 33},
                        spread});
  }
  return examples;
}

std::vector<Example<TopKProblem>> topk() {
  std::vector<Example<TopKProblem>> examples;
  for (const bool largest : {true, false}) {
    const auto example = [&](bool odd, const Tensor& x, int dim, std::int64_t k) {
      Shape output = x.shape();
      output.set(dim, k);
      Example<TopKProblem> e = {odd, {dim, k, largest}, {x}, output, 0};
      e.result = DType::i64;
      examples.push_back(std::move(e));
    };
    example(false, draw_floats({4, 1024}, 1), 1, 8);
    example(true, draw_floats({3, 77}, 2), 1, 77);
    example(true, draw_floats({2, 5001, 1}, 3), 1, 300);
    example(true, draw_whole({3, 600}, 4, -5, 5, DType::i32), 1, 41);
  }
  return examples;
}

/// Boxes of 8ths, which all types hold.
void add_bins(std::vector<Example<GridSampleProblem>>& examples) {
  for (const bool odd : {false, true}) {
    const Shape in = odd ? Shape{2, 37, 9, 13} : Shape{2, 64, 16, 16};
    const Tensor boxes =
        Tensor::from(std::vector<float>{1, 2, 7.5F, 8, 0, 0, 3.25F, 2, -4, -4, 20, 3, 5, 5, 5, 6}, {4, 4});
    const Tensor images = Tensor::from(std::vector<std::int64_t>{0, 1, 1, 0}, {4});
    const Tensor count = Tensor::from(std::vector<std::int64_t>{odd ? 3 : 4}, {1});
    const Bins bins = {.max = odd, .sampling_ratio = odd ? 0 : 2, .spatial_scale = 0.5F};
    Example<GridSampleProblem> e = {
        odd, {.bins = bins}, {draw_floats(in, 7), boxes, images, count}, {4, in[1], 7, odd ? 5 : 7}, 16};
    e.from = e.to = {Layout::nchw, Layout::nhwc};
    examples.push_back(std::move(e));
  }
}

std::vector<Example<GridSampleProblem>> grid_sample() {
  std::vector<Example<GridSampleProblem>> examples;
  for (const GridMode mode : {GridMode::linear, GridMode::nearest, GridMode::cubic}) {
    for (const GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
      const auto example = [&](bool odd, const Shape& in, const Shape& out) {
        // Of 64ths, which all types hold, so that all see the same places; none is half way between two elements.
        Tensor places = draw_whole({out[0], out[2], out[3], 2}, 5, -20, 20).to(DType::f32);
        for (float& g : places.values<float>()) g = (g + 0.25f) / 16;
        examples.push_back({odd, {mode, padding, odd}, {draw_floats(in, 6), places}, out, 4});
      };
      example(false, {2, 8, 8, 8}, {2, 8, 4, 16});
      example(true, {1, 3, 7, 5}, {1, 3, 9, 11});
    }
  }
  add_bins(examples);
  return examples;
}

std::vector<Example<CumulativeProblem>> cumulative() {
  std::vector<Example<CumulativeProblem>> examples;
  for (const bool product : {false, true}) {
    for (const bool reverse : {false, true}) {
      const auto example = [&](bool odd, const Tensor& x, int dim) {
        const CumulativeProblem problem = {.dim = dim, .exclusive = odd, .reverse = reverse, .product = product};
        examples.push_back({odd, problem, {x}, x.shape(), is_float(x.dtype()) ? 64.0 : 0.0});
      };
      // Factors near 1: no product, in whichever order, leaves the range.
      const auto terms = [&](const Shape& shape, unsigned seed) {
        Tensor x = draw_floats(shape, seed);
        if (product) std::ranges::for_each(x.values<float>(), [](float& v) { v = 1 + 0.01f * v; });
        return x;
      };
      example(false, terms({4, 256}, 1), 1);
      example(true, terms({3, 77, 5}, 2), 1);
      example(true, terms({2, 1030}, 3), 1);
      example(true, draw_whole({3, 77}, 4, 0, 1, DType::i32), 1);
    }
  }
  return examples;
}

std::vector<Example<FindProblem>> find() {
  std::vector<Example<FindProblem>> examples;
  const auto example = [&](bool odd, const FindProblem& problem, std::vector<Tensor> inputs, std::int64_t length) {
    Example<FindProblem> e = {odd, problem, std::move(inputs), {length}, 0};
    e.result = DType::i64;
    examples.push_back(std::move(e));
  };
  for (const std::int64_t elements : {1, 77, 4096, 100'003}) {
    const Tensor x = draw_whole({elements}, 1, 0, 3, DType::i32).to(DType::boolean);
    example(elements % 2 != 0, {.kind = FindProblem::Kind::places}, {x}, 1 + std::max<std::int64_t>(2, elements));
    example(true, {.kind = FindProblem::Kind::places}, {x}, 1 + elements / 2);
  }
  example(true, {.rule = {.times = 6, .per = 4, .most = 10}}, {Tensor::from(std::vector<std::int64_t>{8}, {1})}, 1);
  for (const bool centred : {false, true}) {
    for (const std::int64_t boxes : {5, 256, 3000}) {
      Tensor scores = draw_whole({2, 3, boxes}, 2, -50, 50).to(DType::f32);  // many are equal
      const Tensor corners = draw_whole({2, boxes, 4}, 3, 1, 60).to(DType::f32);
      for (const double most : {4.0, 1e9}) {
        const Tensor settings = Tensor::from(std::vector<double>{most, 0.25, -20}, {3});
        const FindProblem problem = {.kind = FindProblem::Kind::boxes, .centred = centred};
        example(boxes % 2 != 0, problem, {corners, scores, settings}, 1 + 18 * boxes);
        example(true, problem, {corners, scores, settings}, 1 + boxes);
      }
    }
  }
  return examples;
}

}  // namespace

void add_lookup_rows(std::vector<TableRow>& rows) {
  add_example_rows<ResampleProblem, resample>(rows);
  add_example_rows<GatherProblem, gather>(rows);
  add_example_rows<ScatterProblem, scatter>(rows);
  add_example_rows<TopKProblem, topk>(rows);
  add_example_rows<GridSampleProblem, grid_sample>(rows);
  add_example_rows<CumulativeProblem, cumulative>(rows);
  add_example_rows<FindProblem, find>(rows);
}

}  // namespace lamina::test
