#include "lamina/quantize/calibrate.h"

#include <algorithm>
#include <cmath>

#include "lamina/base/error.h"

namespace lamina::detail {
namespace {

constexpr std::size_t bins = 8192;
constexpr double cut = 1e-4;  // of the numbers, at either end

struct Sums {
  Observed seen;
  std::vector<double> sums;
  double count = 0;  // of numbers of a channel
  std::vector<std::uint64_t> histogram;
};

void add(Sums& s, const Tensor& value, std::int64_t axis, const std::string& name) {
  const Shape& shape = value.shape();
  const auto channels = static_cast<std::size_t>(shape[static_cast<int>(axis)]);
  std::size_t behind = 1;
  for (std::size_t d = static_cast<std::size_t>(axis) + 1; d < shape.rank(); ++d)
    behind *= static_cast<std::size_t>(shape[static_cast<int>(d)]);
  s.sums.resize(channels), s.seen.most.resize(channels);
  const std::span<const float> values = value.values<float>();
  for (std::size_t i = 0; i < values.size(); i += behind) {
    const std::size_t c = i / behind % channels;
    for (const float x : values.subspan(i, behind)) {
      if (!std::isfinite(x)) fail(name, ": is ", x, " for a sample; only numbers can be quantised");
      s.seen.low = std::min(s.seen.low, x), s.seen.high = std::max(s.seen.high, x);
      s.seen.most[c] = std::max(s.seen.most[c], std::abs(x));
      s.sums[c] += static_cast<double>(x);
    }
  }
  s.count += static_cast<double>(values.size() / channels);
}

double width(const Observed& o) { return static_cast<double>(o.high) - static_cast<double>(o.low); }

void count(Sums& s, const Tensor& value) {
  s.histogram.resize(bins);
  const double scale = width(s.seen) > 0 ? bins / width(s.seen) : 0;
  for (const float x : value.values<float>()) {
    const double at = (static_cast<double>(x) - static_cast<double>(s.seen.low)) * scale;
    ++s.histogram[std::min(bins - 1, static_cast<std::size_t>(std::max(0.0, at)))];
  }
}

/// Without the bins at either end that hold a share of `cut` at most, and never without 0.
void narrow(Sums& s) {
  std::uint64_t all = 0;
  for (const std::uint64_t some : s.histogram) all += some;
  const auto most = static_cast<std::uint64_t>(cut * static_cast<double>(all));
  std::size_t first = 0, last = bins;
  for (std::uint64_t gone = 0; first < last && (gone += s.histogram[first]) <= most;) ++first;
  for (std::uint64_t gone = 0; last > first && (gone += s.histogram[last - 1]) <= most;) --last;
  const double low = static_cast<double>(s.seen.low), step = width(s.seen) / bins;
  s.seen.low = std::min(0.0F, static_cast<float>(low + static_cast<double>(first) * step));
  s.seen.high = std::max(0.0F, static_cast<float>(low + static_cast<double>(last) * step));
}

}  // namespace

std::vector<Observed> observe(const Draft& draft, const std::vector<bool>& marked, std::span<const Tensor> samples,
                              const QuantizeOptions& options) {
  CompileOptions compile = options.compile;
  compile.keep_all = true;
  Plan plan = draft.graph().compile(compile);
  // A product of matrices has its channels last, a convolution behind the batch.
  std::vector<bool> last(draft.items.size(), false);
  for (const Item& item : draft.items) {
    if (item.product && item.product->kind == Product::Kind::matmul)
      last[static_cast<std::size_t>(item.inputs[0])] = true;
  }
  std::vector<Sums> sums(draft.items.size());
  const auto each = [&](const auto& take) {
    for (const Tensor& sample : samples) {
      plan.run({&sample, 1});
      for (std::size_t i = 0; i < sums.size(); ++i) {
        if (!marked[i]) continue;
        take(i, plan.activation(draft.items[i].name).to(Device::cpu()));
      }
    }
  };
  each([&](std::size_t i, const Tensor& value) {
    const auto rank = static_cast<std::int64_t>(value.shape().rank());
    add(sums[i], rank == 0 ? value.view({1}) : value, rank < 2 ? 0 : last[i] ? rank - 1 : 1, draft.items[i].name);
  });
  if (options.calibration == Calibration::percentile) {
    each([&](std::size_t i, const Tensor& value) { count(sums[i], value); });
  }
  std::vector<Observed> result;
  for (Sums& s : sums) {
    if (!s.histogram.empty()) narrow(s);
    for (const double sum : s.sums) s.seen.means.push_back(static_cast<float>(sum / std::max(1.0, s.count)));
    result.push_back(std::move(s.seen));
  }
  return result;
}

Quantization levels_over(const Observed& observed) {
  const double step = width(observed) / 255;
  // What was always 0 may have any scale.
  const float scale = step < 0x1p-100 ? 1.0F : static_cast<float>(step);
  const double zero = std::nearbyint(-static_cast<double>(observed.low) / static_cast<double>(scale));
  return {.scale = scale, .zero_point = static_cast<std::int32_t>(std::clamp(zero, 0.0, 255.0))};
}

}  // namespace lamina::detail
