#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "lamina/lamina.h"
#include "support/conv_cases.h"

/// Every layer but the convolution at awkward sizes, with slow double-precision truth: the CPU's and the GPU's tests
/// run the same list.
namespace lamina::test {

struct LayerCase {
  std::string name;
  std::shared_ptr<Module> module;
  std::vector<Tensor> inputs;
  std::vector<double> expected;
  double tolerance = 2e-6;  ///< of the largest magnitude that went into the result
};

inline Tensor drawn(const Shape& shape, unsigned seed, Values values = Values::mixed) {
  return Tensor::from(draw(shape.numel(), values, seed), shape);
}

/// Gives every parameter random values; variances are positive.
inline void set_parameters(Module& module, unsigned seed) {
  for (const Module::Parameter& parameter : module.parameters()) {
    module.set_parameter(parameter.name, drawn(parameter.shape, seed++,
                                               parameter.name == "running_var" ? Values::positive : Values::mixed));
  }
}

/// NaN stays the largest; -inf where a window holds no pixel.
inline std::vector<double> reference_max_pool(const PoolGeometry& g, const Tensor& input) {
  std::vector<double> result;
  const auto x = input.values<float>();
  for (std::int64_t p = 0; p < g.planes; ++p) {
    for (int oh = 0; oh < g.out_height; ++oh) {
      for (int ow = 0; ow < g.out_width; ++ow) {
        double largest = -std::numeric_limits<double>::infinity();
        for (int kh = 0; kh < g.kernel_height; ++kh) {
          for (int kw = 0; kw < g.kernel_width; ++kw) {
            const int ih = oh * g.stride_height - g.padding_height + kh * g.dilation_height;
            const int iw = ow * g.stride_width - g.padding_width + kw * g.dilation_width;
            if (ih < 0 || ih >= g.in_height || iw < 0 || iw >= g.in_width) continue;
            const auto value =
                static_cast<double>(x[static_cast<std::size_t>(p * g.in_pixels() + ih * g.in_width + iw)]);
            if (value > largest || std::isnan(value)) largest = value;
          }
        }
        result.push_back(largest);
      }
    }
  }
  return result;
}

/// The divisor by PyTorch's words: cells of the window inside the input, or inside the input and its padding.
inline std::vector<double> reference_avg_pool(const PoolGeometry& g, const Tensor& input) {
  std::vector<double> result;
  const auto x = input.values<float>();
  for (std::int64_t p = 0; p < g.planes; ++p) {
    for (int oh = 0; oh < g.out_height; ++oh) {
      for (int ow = 0; ow < g.out_width; ++ow) {
        double sum = 0;
        int inside = 0, padded = 0;
        for (int kh = 0; kh < g.kernel_height; ++kh) {
          for (int kw = 0; kw < g.kernel_width; ++kw) {
            const int ih = oh * g.stride_height - g.padding_height + kh;
            const int iw = ow * g.stride_width - g.padding_width + kw;
            if (ih >= g.in_height + g.padding_height || iw >= g.in_width + g.padding_width) continue;
            ++padded;
            if (ih < 0 || ih >= g.in_height || iw < 0 || iw >= g.in_width) continue;
            ++inside;
            sum += static_cast<double>(x[static_cast<std::size_t>(p * g.in_pixels() + ih * g.in_width + iw)]);
          }
        }
        result.push_back(inside == 0 ? 0 : sum / (g.count_padding ? padded : inside));
      }
    }
  }
  return result;
}

inline std::vector<double> reference_adaptive_pool(const PoolGeometry& g, const Tensor& input) {
  std::vector<double> result;
  const auto x = input.values<float>();
  // Cell i of the input belongs to every output whose real interval [o * in / out, (o + 1) * in / out) it meets.
  const auto meets = [](std::int64_t i, std::int64_t o, std::int64_t in, std::int64_t out) {
    return i * out < (o + 1) * in && (i + 1) * out > o * in;
  };
  for (std::int64_t p = 0; p < g.planes; ++p) {
    for (int oh = 0; oh < g.out_height; ++oh) {
      for (int ow = 0; ow < g.out_width; ++ow) {
        double sum = 0;
        int cells = 0;
        for (int ih = 0; ih < g.in_height; ++ih) {
          for (int iw = 0; iw < g.in_width; ++iw) {
            if (!meets(ih, oh, g.in_height, g.out_height) || !meets(iw, ow, g.in_width, g.out_width)) continue;
            ++cells;
            sum += static_cast<double>(x[static_cast<std::size_t>(p * g.in_pixels() + ih * g.in_width + iw)]);
          }
        }
        result.push_back(sum / cells);
      }
    }
  }
  return result;
}

inline std::vector<double> reference_linear(Linear& linear, const Tensor& input) {
  std::vector<double> result;
  const auto x = input.values<float>();
  const auto w = linear.weight().values<float>();
  const auto in = static_cast<std::size_t>(linear.options().in);
  const auto out = static_cast<std::size_t>(linear.options().out);
  for (std::size_t row = 0; row < x.size() / in; ++row) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = linear.options().bias ? static_cast<double>(linear.bias().values<float>()[o]) : 0.0;
      for (std::size_t i = 0; i < in; ++i) {
        sum += static_cast<double>(w[o * in + i]) * static_cast<double>(x[row * in + i]);
      }
      result.push_back(sum);
    }
  }
  return result;
}

inline std::vector<double> reference_response_norm(const LocalResponseNormOptions& o, const Tensor& input) {
  std::vector<double> result;
  const auto x = input.values<float>();
  const Shape& shape = input.shape();
  const std::int64_t pixels = shape[2] * shape[3];
  const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t p) {
    return static_cast<double>(x[static_cast<std::size_t>((n * shape[1] + c) * pixels + p)]);
  };
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      for (std::int64_t p = 0; p < pixels; ++p) {
        double sum = 0;
        for (std::int64_t i = 0; i < o.size; ++i) {
          const std::int64_t other = c - o.size / 2 + i;
          if (other >= 0 && other < shape[1]) sum += at(n, other, p) * at(n, other, p);
        }
        result.push_back(at(n, c, p) / std::pow(o.k + o.alpha / o.size * sum, o.beta));
      }
    }
  }
  return result;
}

inline std::vector<double> reference_softmax(int dim, const Tensor& input) {
  const Shape& shape = input.shape();
  const auto x = input.values<float>();
  std::int64_t inner = 1;
  for (int i = dim + 1; i < static_cast<int>(shape.rank()); ++i) inner *= shape[i];
  std::vector<double> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i) / inner % shape[dim];
    double sum = 0;
    for (std::int64_t other = 0; other < shape[dim]; ++other) {
      const auto at = static_cast<std::size_t>(static_cast<std::int64_t>(i) + (other - position) * inner);
      sum += std::exp(static_cast<double>(x[at]) - static_cast<double>(x[i]));
    }
    result[i] = 1 / sum;
  }
  return result;
}

/// The elements of the joined tensor, looked up one by one.
inline std::vector<double> reference_concat(int dim, const std::vector<Tensor>& inputs) {
  std::int64_t inner = 1, outer = 1;
  const Shape& first = inputs[0].shape();
  for (int i = 0; i < dim; ++i) outer *= first[i];
  for (int i = dim + 1; i < static_cast<int>(first.rank()); ++i) inner *= first[i];
  std::vector<double> result;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Tensor& input : inputs) {
      const std::int64_t size = input.shape()[dim] * inner;
      for (std::int64_t i = 0; i < size; ++i) {
        result.push_back(static_cast<double>(input.values<float>()[static_cast<std::size_t>(o * size + i)]));
      }
    }
  }
  return result;
}

inline std::vector<double> map(const Tensor& input, const std::function<double(double)>& f) {
  std::vector<double> result;
  for (const float x : input.values<float>()) result.push_back(f(static_cast<double>(x)));
  return result;
}

inline void add_pool_cases(std::vector<LayerCase>& cases) {
  struct Window {
    Size2d kernel;
    Size2d stride = 0;
    Size2d padding = 0;
    Size2d dilation = 1;
  };
  const std::vector<Window> windows = {{1},
                                       {2},
                                       {3, 2},
                                       {3, 2, 1},
                                       {3, 1, 1},
                                       {{2, 3}, {1, 2}, {1, 0}},
                                       {{1, 4}, 3, {0, 2}},
                                       {5, 4, 2},
                                       {3, 2, 1, 2},
                                       {{3, 2}, 1, 0, {2, 3}},
                                       {2, 5, 1},
                                       {7, 1, 3}};
  const std::vector<Shape> shapes = {{1, 1, 1, 1}, {2, 3, 7, 5}, {1, 5, 13, 13}, {3, 1, 8, 31}, {1, 2, 4, 6}};
  unsigned seed = 100;
  for (const Window& w : windows) {
    for (const bool ceil_mode : {false, true}) {
      for (const Shape& shape : shapes) {
        const Tensor x = drawn(shape, seed++);
        const std::string name = detail::concat(shape, " kernel ", to_string(w.kernel), " stride ", to_string(w.stride),
                                                " padding ", to_string(w.padding), ceil_mode ? " ceil" : "");
        const auto add = [&](const std::string& what, auto module, auto reference) {
          try {
            (void)module.geometry(shape);
          } catch (const Error&) {
            return;  // the kernel is larger than the padded input
          }
          cases.push_back(
              {what + name, std::make_shared<decltype(module)>(module), {x}, reference(module.geometry(shape), x)});
        };
        add("max ", MaxPool2d({w.kernel, w.stride, w.padding, w.dilation, ceil_mode}), reference_max_pool);
        if (w.dilation != Size2d(1)) continue;
        for (const bool count : {false, true}) {
          add(count ? "avg, padding counted " : "avg ", AvgPool2d({w.kernel, w.stride, w.padding, ceil_mode, count}),
              reference_avg_pool);
        }
      }
    }
  }
  for (const Shape& shape : shapes) {
    for (const Size2d output : {Size2d(1), Size2d(6), Size2d(2, 3), Size2d(7, 5), Size2d(11, 2)}) {
      const AdaptiveAvgPool2d pool(output);
      const Tensor x = drawn(shape, seed++);
      cases.push_back({detail::concat("adaptive ", shape, " to ", to_string(output)),
                       std::make_shared<AdaptiveAvgPool2d>(pool),
                       {x},
                       reference_adaptive_pool(pool.geometry(shape), x)});
    }
  }
}

inline void add_linear_cases(std::vector<LayerCase>& cases) {
  struct Sizes {
    std::int64_t rows;
    int in, out;
  };
  // Around the vector width, the rows taken together, the block of terms, the switch to a matrix product.
  const std::vector<Sizes> sizes = {{1, 1, 1},     {1, 7, 3},      {1, 16, 4},     {1, 1023, 5},  {1, 1025, 33},
                                    {2, 64, 10},   {3, 100, 129},  {4, 31, 2},     {5, 2049, 7},  {7, 12, 13},
                                    {8, 256, 101}, {9, 1000, 6},   {15, 33, 17},   {16, 128, 64}, {17, 129, 65},
                                    {31, 5, 97},   {64, 300, 100}, {193, 257, 41}, {1, 9216, 40}, {20, 2304, 24}};
  unsigned seed = 900;
  for (const auto& [rows, in, out] : sizes) {
    for (const bool bias : {true, false}) {
      auto linear = std::make_shared<Linear>(LinearOptions{.in = in, .out = out, .bias = bias});
      set_parameters(*linear, seed);
      const Tensor x = drawn({rows, in}, seed += 3);
      // Products of normal values: the scale of the contract is about in * 2 / pi.
      cases.push_back({detail::concat("linear ", rows, " x ", in, " to ", out, bias ? "" : " without bias"),
                       linear,
                       {x},
                       reference_linear(*linear, x),
                       3e-6 * in});
    }
  }
  auto deep = std::make_shared<Linear>(LinearOptions{.in = 6, .out = 5});
  set_parameters(*deep, seed);
  const Tensor x = drawn({2, 3, 6}, seed + 5);
  cases.push_back({"linear of rank 3", deep, {x}, reference_linear(*deep, x), 2e-5});
}

inline void add_other_cases(std::vector<LayerCase>& cases) {
  unsigned seed = 2000;
  for (const Shape& shape : std::vector<Shape>{{1, 1, 1, 1}, {2, 7, 3, 5}, {1, 96, 5, 6}, {1, 3, 17, 31}}) {
    const Tensor x = drawn(shape, seed++);
    for (const LocalResponseNormOptions& o :
         std::vector<LocalResponseNormOptions>{{},
                                               {.size = 1},
                                               {.size = 2, .alpha = 2, .beta = 0.5, .k = 2},
                                               {.size = 4, .alpha = 3, .beta = 0.6, .k = 0.5},
                                               {.size = 200, .alpha = 100}}) {
      cases.push_back({detail::concat("lrn ", shape, " size ", o.size),
                       std::make_shared<LocalResponseNorm>(o),
                       {x},
                       reference_response_norm(o, x)});
    }
    for (const bool affine : {true, false}) {
      auto norm = std::make_shared<BatchNorm2d>(
          BatchNorm2dOptions{.channels = static_cast<int>(shape[1]), .eps = 0.01, .affine = affine});
      set_parameters(*norm, seed);
      std::vector<std::span<const float>> p;
      for (const auto& parameter : norm->parameters()) p.push_back(parameter.value.values<float>());
      std::vector<double> expected;
      const auto d = [](float value) { return static_cast<double>(value); };
      for (std::size_t i = 0; i < static_cast<std::size_t>(x.numel()); ++i) {
        const std::size_t c = i / static_cast<std::size_t>(shape[2] * shape[3]) % static_cast<std::size_t>(shape[1]);
        const std::size_t running = affine ? 2 : 0;
        const double normal = (d(x.values<float>()[i]) - d(p[running][c])) / std::sqrt(d(p[running + 1][c]) + 0.01);
        expected.push_back(affine ? normal * d(p[0][c]) + d(p[1][c]) : normal);
      }
      cases.push_back({detail::concat("batch norm ", shape), norm, {x}, std::move(expected), 2e-5});
    }
    for (int dim = 0; dim < 4; ++dim) {
      cases.push_back({detail::concat("softmax ", shape, " along ", dim),
                       std::make_shared<Softmax>(dim - (dim > 1 ? 4 : 0)),
                       {x},
                       reference_softmax(dim, x)});
    }
    const Tensor y = drawn(shape, seed++);
    std::vector<double> sum = map(x, [](double v) { return v; });
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(y.values<float>()[i]);
    cases.push_back({detail::concat("add ", shape), std::make_shared<Add>(), {x, y}, std::move(sum)});
    cases.push_back({detail::concat("sigmoid ", shape), std::make_shared<Sigmoid>(), {x}, map(x, [](double v) {
                       return 1 / (1 + std::exp(-v));
                     })});
    for (int dim = 0; dim < 4; ++dim) {
      Shape wide = shape;
      wide.set(dim, shape[dim] + 2);
      const std::vector<Tensor> parts = {x, drawn(wide, seed++), y};
      cases.push_back({detail::concat("concat ", shape, " along ", dim),
                       std::make_shared<Concat>(dim - (dim == 1 ? 4 : 0)), parts, reference_concat(dim, parts)});
    }
  }
  const Tensor logits = drawn({3, 1000}, seed++);
  cases.push_back({"softmax of logits", std::make_shared<Softmax>(), {logits}, reference_softmax(1, logits)});
  const Tensor one = drawn({2, 3}, seed);
  cases.push_back({"concat of one", std::make_shared<Concat>(1), {one}, reference_concat(1, {one})});
}

inline std::vector<LayerCase> layer_cases() {
  std::vector<LayerCase> cases;
  add_pool_cases(cases);
  add_linear_cases(cases);
  add_other_cases(cases);
  return cases;
}

/// "" if the output is as expected, else what is wrong with it. NaN is expected for NaN, infinities for themselves.
inline std::string mismatch(const LayerCase& c, std::span<const float> output) {
  if (output.size() != c.expected.size()) return detail::concat(output.size(), " outputs, not ", c.expected.size());
  for (std::size_t i = 0; i < output.size(); ++i) {
    const auto value = static_cast<double>(output[i]);
    const double truth = c.expected[i];
    const bool same = value == truth || (std::isnan(value) && std::isnan(truth)) ||
                      std::abs(value - truth) <= c.tolerance * std::max(1.0, std::abs(truth));
    if (!same) return detail::concat("output ", i, " is ", value, ", expected ", truth);
  }
  return "";
}

}  // namespace lamina::test
