#include "lamina/quantize/quantizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "lamina/base/error.h"
#include "lamina/files/safetensors.h"
#include "lamina/onnx/onnx.h"
#include "lamina/quantize/calibrate.h"
#include "lamina/quantize/draft.h"

namespace lamina {
namespace {

using detail::Draft;
using detail::fail;

constexpr std::size_t one_in = 4;          // samples that are held back
constexpr std::size_t for_each_layer = 8;  // samples that tell what a layer's error is

/// What a network answers: of each sample, each output.
using Answers = std::vector<std::vector<Tensor>>;

Draft draft_of(const Model& model) {
  if (model.graph.inputs().size() != 1) fail("expected a network of one input, it has ", model.graph.inputs().size());
  Draft draft(model.graph);
  if (std::ranges::none_of(draft.items, [](const detail::Item& item) { return item.product.has_value(); }))
    fail("there is nothing to quantise: no convolution and no product with constant weights of f32");
  return draft;
}

class Quantizer {
 public:
  Quantizer(const Model& model, std::span<const Tensor> samples, const QuantizeOptions& options)
      : model_(model), options_(options), draft_(draft_of(model)) {
    if (samples.empty()) fail("expected samples to calibrate with, got none");
    for (std::size_t i = 0; i < samples.size(); ++i) (i % one_in == one_in - 1 ? held_ : used_).push_back(samples[i]);
    if (held_.empty()) held_ = {samples.back()};
    if (used_.size() > 1 && samples.size() < one_in) used_.pop_back();
    for (std::size_t i = 0; i < draft_.items.size(); ++i) {
      if (draft_.items[i].product) products_.push_back(i);
    }
  }

  Quantized run() {
    Quantized result;
    most_ = products_.size() + static_cast<std::size_t>(std::ceil(std::log2(products_.size() + 1))) + 2;
    expected_ = answers(model_.graph, held_);
    calibrate(result);
    const std::vector<double> errors = errors_alone();
    std::vector<std::size_t> order(products_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return errors[i]; });
    choice_.products = without(order, fewest_left_out(order));
    for (std::size_t i = 0; i < draft_.items.size(); ++i) {
      const detail::Item& item = draft_.items[i];
      if (!item.product && item.why.empty()) continue;
      QuantizedLayer layer = {
          .name = item.name, .op = std::string(item.module->op()), .quantized = choice_.products[i], .why = item.why};
      const auto found = std::ranges::find(products_, i);
      if (found != products_.end()) layer.error = errors[static_cast<std::size_t>(found - products_.begin())];
      if (item.product && !layer.quantized) layer.why = "its error";
      result.layers.push_back(std::move(layer));
    }
    Graph graph = draft_.graph(choice_);
    const Answers found = answers(graph, held_);
    result.error = error_of(found, expected_);
    result.agreement = agreement(found, result.compared);
    result.held_back = held_.size();
    result.model = {.graph = std::move(graph),
                    .preprocess = model_.preprocess,
                    .labels = model_.labels,
                    .description = model_.description,
                    .metadata = model_.metadata};
    return result;
  }

 private:
  Answers answers(const Graph& graph, std::span<const Tensor> samples) {
    Plan plan = graph.compile(options_.compile);
    Answers result;
    for (const Tensor& sample : samples) {
      result.emplace_back();
      for (const Tensor& output : plan.run({&sample, 1})) result.back().push_back(output.to(Device::cpu()).clone());
    }
    if (options_.progress) options_.progress(std::min(++measured_, most_), most_);
    return result;
  }

  /// |y8 - y| / |y| of the output that is off most.
  static double error_of(const Answers& found, const Answers& expected) {
    double worst = 0;
    for (std::size_t output = 0; output < expected[0].size(); ++output) {
      double off = 0, all = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const Tensor a = found[i][output].to(DType::f64), b = expected[i][output].to(DType::f64);
        for (std::size_t k = 0; k < b.values<double>().size(); ++k) {
          const double x = a.values<double>()[k], y = b.values<double>()[k];
          off += (x - y) * (x - y), all += y * y;
        }
      }
      const double error = off == 0 ? 0 : std::sqrt(off / all);
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
    return worst;
  }

  double agreement(const Answers& found, std::size_t& rows) const {
    std::size_t same = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Tensor &a = found[i][0], &b = expected_[i][0];
      if (b.dtype() != DType::f32 || b.shape().rank() != 2 || b.shape()[1] < 2) return 1;
      const auto classes = static_cast<std::size_t>(b.shape()[1]);
      for (std::size_t first = 0; first < b.values<float>().size(); first += classes, ++rows) {
        const auto best = [&](const Tensor& t) {
          const std::span<const float> row = t.values<float>().subspan(first, classes);
          return std::ranges::max_element(row) - row.begin();
        };
        if (best(a) == best(b)) ++same;
      }
    }
    return rows == 0 ? 1 : static_cast<double>(same) / static_cast<double>(rows);
  }

  void calibrate(Quantized& result) {
    std::vector<bool> all(draft_.items.size(), false);
    for (const std::size_t product : products_) all[product] = true;
    std::vector<bool> marked = draft_.stored(all);
    for (std::size_t i = 0; i < marked.size(); ++i) {
      if (marked[i]) marked[static_cast<std::size_t>(draft_.origin(static_cast<int>(i)))] = true;
    }
    if (options_.equalize) {
      const QuantizeOptions all_numbers = {.compile = options_.compile};
      result.equalized =
          detail::equalize(draft_, detail::observe(draft_, detail::computed_by_products(draft_), used_, all_numbers));
    }
    std::vector<detail::Observed> seen = detail::observe(draft_, marked, used_, options_);
    for (std::size_t i = 0; i < draft_.items.size(); ++i) {
      choice_.codes.push_back(detail::levels_over(seen[static_cast<std::size_t>(draft_.origin(static_cast<int>(i)))]));
      if (options_.correct_bias) choice_.means.push_back(std::move(seen[i].means));
    }
  }

  std::vector<double> errors_alone() {
    const std::span<const Tensor> some = std::span(used_).first(std::min(used_.size(), for_each_layer));
    const Answers expected = answers(model_.graph, some);
    std::vector<double> result;
    for (const std::size_t product : products_) {
      choice_.products.assign(draft_.items.size(), false);
      choice_.products[product] = true;
      result.push_back(error_of(answers(draft_.graph(choice_), some), expected));
    }
    return result;
  }

  /// All products but the first of that order.
  std::vector<bool> without(const std::vector<std::size_t>& order, std::size_t count) const {
    std::vector<bool> result(draft_.items.size(), false);
    for (std::size_t i = count; i < order.size(); ++i) result[products_[order[i]]] = true;
    return result;
  }

  /// How many of that order have to stay in floats, found by halving.
  std::size_t fewest_left_out(const std::vector<std::size_t>& order) {
    if (std::isinf(options_.max_error)) return 0;
    double least = 0;
    const auto holds = [&](std::size_t count) {
      choice_.products = without(order, count);
      least = error_of(answers(draft_.graph(choice_), held_), expected_);
      return least <= options_.max_error;
    };
    std::size_t low = 0, high = order.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      holds(middle) ? high = middle : low = middle + 1;
    }
    if (low < order.size()) return low;
    fail("with a max_error of ", options_.max_error,
         " no layer stays in eight bits: ", draft_.at(static_cast<int>(products_[order.back()])).name,
         " alone, which does least harm, is off by ", least);
  }

  const Model& model_;
  const QuantizeOptions& options_;
  Draft draft_;
  std::vector<Tensor> used_, held_;    // samples
  std::vector<std::size_t> products_;  // items
  Draft::Choice choice_;
  Answers expected_;
  std::size_t measured_ = 0, most_ = 0;
};

}  // namespace

Quantized quantize(const Model& model, std::span<const Tensor> samples, const QuantizeOptions& options) {
  if (!(options.max_error >= 0)) fail("quantize: expected a max_error of 0 or more, got ", options.max_error);
  try {
    return Quantizer(model, samples, options).run();
  } catch (const Error&) {  // what the caller's `progress` throws leaves as it is
    detail::rethrow_at("quantize");
  }
}

void require_quantizable(const Model& model, const std::filesystem::path& out) {
  detail::at_node("quantize", [&] {
    detail::require_ending(out, {".safetensors", ".onnx"});
    detail::require_labels(model);
    const Draft draft = draft_of(model);
    if (out.extension() == ".onnx") detail::require_onnx(draft.graph());
  });
}

}  // namespace lamina
