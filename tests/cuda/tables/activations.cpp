// What the tables of cuda/kernels.cpp are tried on: activations, most of them images.

#include "cuda/tables/examples.h"

namespace lamina::test {
namespace {

std::vector<Example<AffineProblem>> affine() {
  const auto example = [](bool odd, const Shape& shape, bool relu) {
    const AffineProblem problem = {.scale = draw_floats({shape[1]}, 1),
                                   .shift = draw_floats({shape[1]}, 2),
                                   .epilogue = {.chain = relu ? PointwiseChain{{Pointwise::relu}} : PointwiseChain{}}};
    return Example<AffineProblem>{odd, problem, {draw_floats(shape, 3)}, shape, 4};
  };
  std::vector<Example<AffineProblem>> examples = {
      example(false, {2, 32, 8, 8}, false), example(true, {3, 13, 5, 7}, true), example(true, {1, 40, 3, 1}, false)};
  for (std::size_t i = 0, floats = examples.size(); i < floats; ++i) {
    for (const CodeCase& codes : code_cases) {
      Example<AffineProblem> e = examples[i];
      e.inputs = {codes.draw(e.output, 4)}, e.spread = 0, e.result = codes.type, e.codes = {codes.a, codes.c};
      examples.push_back(e);
      e.result = DType::f32, e.codes = {codes.a, {}};
      examples.push_back(std::move(e));
    }
  }
  return examples;
}

std::vector<Example<SoftmaxProblem>> softmax() {
  std::vector<Example<SoftmaxProblem>> examples;
  for (const SoftmaxKind kind : {SoftmaxKind::softmax, SoftmaxKind::log_softmax}) {
    const double spread = kind == SoftmaxKind::softmax ? 1 : 8;
    for (const auto& [odd, shape, dim] : {std::tuple{false, Shape{4, 1024}, 1},
                                          {false, {2, 16, 8, 8}, 1},
                                          {true, {3, 77}, 1},
                                          {true, {2, 13, 5, 7}, 1},
                                          {true, {2, 3, 5, 300}, 3},
                                          {true, {3, 5000}, 1},
                                          {true, {7, 3, 5}, 0}}) {
      examples.push_back({odd, {.dim = dim, .kind = kind}, {draw_floats(shape, 4)}, shape, spread});
    }
  }
  return examples;
}

std::vector<Example<LocalResponseProblem>> local_response() {
  std::vector<Example<LocalResponseProblem>> examples;
  for (const auto& [odd, shape, size] :
       {std::tuple{false, Shape{2, 32, 8, 8}, 5}, {true, {1, 13, 5, 3}, 5}, {true, {2, 3, 1, 7}, 4}}) {
    const LocalResponse settings = {.images = shape[0],
                                    .channels = static_cast<int>(shape[1]),
                                    .pixels = shape[2] * shape[3],
                                    .size = size,
                                    .alpha = 0.1f};
    examples.push_back({odd, {settings}, {draw_floats(shape, 5)}, shape, 4});
  }
  return examples;
}

std::vector<Example<PoolProblem>> pool() {
  struct Window {
    bool odd;
    Shape shape;
    int kernel, stride, padding, dilation;
  };
  std::vector<Example<PoolProblem>> examples;
  const auto geometry_of = [](const Shape& shape, int out_height, int out_width) {
    return PoolGeometry{.planes = shape[0] * shape[1],
                        .in_height = static_cast<int>(shape[2]),
                        .in_width = static_cast<int>(shape[3]),
                        .out_height = out_height,
                        .out_width = out_width};
  };
  for (const Window& w : {Window{false, {2, 32, 8, 8}, 2, 2, 0, 1},
                          {false, {1, 64, 16, 16}, 3, 2, 1, 1},
                          {true, {3, 13, 7, 9}, 3, 2, 1, 1},
                          {true, {1, 20, 9, 11}, 3, 1, 1, 2},
                          {true, {2, 7, 5, 3}, 2, 1, 0, 1}}) {
    const auto out = [&](std::int64_t in) {
      return (static_cast<int>(in) + 2 * w.padding - w.dilation * (w.kernel - 1) - 1) / w.stride + 1;
    };
    for (const PoolKind kind : {PoolKind::largest, PoolKind::average}) {
      if (kind == PoolKind::average && w.dilation > 1) continue;
      PoolGeometry g = geometry_of(w.shape, out(w.shape[2]), out(w.shape[3]));
      g.kernel_height = g.kernel_width = w.kernel, g.stride_height = g.stride_width = w.stride;
      g.padding_height = g.padding_width = w.padding, g.dilation_height = g.dilation_width = w.dilation;
      g.count_padding = w.odd;
      const Shape output = {w.shape[0], w.shape[1], g.out_height, g.out_width};
      examples.push_back({w.odd, {kind, g}, {draw_floats(w.shape, 6)}, output, kind == PoolKind::largest ? 0.0 : 2.0});
    }
  }
  for (const auto& [odd, shape, size] :
       {std::tuple{false, Shape{2, 64, 8, 8}, 1}, {true, {3, 5, 7, 9}, 1}, {true, {2, 24, 7, 5}, 3}}) {
    examples.push_back({odd,
                        {PoolKind::adaptive, geometry_of(shape, size, size)},
                        {draw_floats(shape, 7)},
                        {shape[0], shape[1], size, size},
                        2});
  }
  for (std::size_t i = 0, floats = examples.size(); i < floats; ++i) {
    for (const CodeCase& codes : code_cases) {
      Example<PoolProblem> e = examples[i];
      const bool largest = e.problem.kind == PoolKind::largest;
      e.inputs = {codes.draw(e.inputs[0].shape(), 9)}, e.spread = 0;
      e.codes = {codes.a, largest ? codes.a : codes.c};
      examples.push_back(e);
      for (const DType result : {DType::f32, DType::f16, DType::bf16}) {
        if (largest) break;
        e.result = result, e.codes = {codes.a, {}};
        examples.push_back(e);
      }
    }
  }
  // As many outputs as make strips of two.
  const Shape large = {4, 64, 96, 90};
  for (const PoolKind kind : {PoolKind::largest, PoolKind::average}) {
    PoolGeometry g = geometry_of(large, 96, 90);
    g.kernel_height = g.kernel_width = 3, g.padding_height = g.padding_width = 1, g.count_padding = false;
    examples.push_back({false, {kind, g}, {draw_floats(large, 8)}, large, kind == PoolKind::largest ? 0.0 : 2.0});
  }
  return examples;
}

std::vector<Example<ConversionProblem>> conversion() {
  std::vector<Example<ConversionProblem>> examples;
  for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [odd, shape] :
         {std::pair{false, Shape{2, 64, 8, 8}}, {true, {3, 3, 7, 5}}, {true, {1, 130, 9, 1}}, {true, {7, 33}}}) {
      examples.push_back({odd, {}, {draw_floats(shape, 8)}, shape, 0, to});
      if (to != DType::f32) continue;
      for (const CodeCase& codes : code_cases) {
        examples.push_back(
            {.odd = odd, .inputs = {codes.draw(shape, 8)}, .output = shape, .spread = 0, .codes = {codes.a, codes.a}});
      }
    }
  }
  return examples;
}

std::vector<Example<NormalizationProblem>> normalization() {
  std::vector<Example<NormalizationProblem>> examples;
  for (const DType to : {DType::f32, DType::f16, DType::bf16}) {
    for (const auto& [odd, shape] :
         {std::pair{false, Shape{2, 3, 8, 16}}, {true, {3, 3, 7, 5}}, {true, {1, 3, 1, 1}}}) {
      Example<NormalizationProblem> e = {
          odd, {.table = draw_floats({3, 256}, 9), .bgr = odd}, {draw_whole(shape, 10, 0, 255, DType::u8)}, shape, 0,
          to};
      e.from = {Layout::nhwc}, e.to = {Layout::nchw, Layout::nhwc};
      examples.push_back(std::move(e));
    }
  }
  return examples;
}

}  // namespace

void add_activation_rows(std::vector<TableRow>& rows) {
  add_example_rows<AffineProblem, affine>(rows);
  add_example_rows<SoftmaxProblem, softmax>(rows);
  add_example_rows<LocalResponseProblem, local_response>(rows);
  add_example_rows<PoolProblem, pool>(rows);
  add_example_rows<ConversionProblem, conversion>(rows);
  add_example_rows<NormalizationProblem, normalization>(rows);
}

}  // namespace lamina::test
