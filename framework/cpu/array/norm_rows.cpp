// Norms, written once and compiled for each instruction set by Highway.
//
// Of rows, in floats, and as exact as in doubles to a few units: the mean is found twice, the second time from
// differences to the first, which have no leading digits in common; and it is these differences that are scaled.
// Source: Chan, Golub, LeVeque, "Algorithms for Computing the Sample Variance", 1983 (the corrected two-pass
// algorithm). Of images channels last, in one pass over them: differences to a pixel of the same piece, summed up in
// doubles, which are put together by the same source's formula.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/array/norm_rows.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>
#include <cmath>

#include "lamina/cpu/array/norm_rows.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

/// body(d, i, sum index) for all elements, each once: whole vectors, in turns for several sums, and then one by one.
template <class Body>
HWY_INLINE void in_turns(std::int64_t count, const Body& body) {
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    for (int k = 0; k < 4; ++k) body(Tag(), i + k * lanes, k);
  }
  for (; i + lanes <= count; i += lanes) body(Tag(), i, 0);
  for (; i < count; ++i) body(hn::CappedTag<float, 1>(), i, 0);
}

/// Four sums of vectors, and one of single elements.
struct Sums {
  Vector whole[4];
  float rest = 0;

  Sums() {
    for (Vector& v : whole) v = hn::Zero(Tag());
  }
  HWY_INLINE void add(Tag, Vector x, int k) { whole[k] = hn::Add(whole[k], x); }
  template <class D>
  HWY_INLINE void add(D d, hn::Vec<D> x, int) {
    float one[1];
    hn::StoreU(x, d, one);
    rest += one[0];
  }
  HWY_INLINE float total() const {
    const Vector sum = hn::Add(hn::Add(whole[0], whole[1]), hn::Add(whole[2], whole[3]));
    return hn::GetLane(hn::SumOfLanes(Tag(), sum)) + rest;
  }
};

/// What a row is normalised with: y = (scale x - mean - rest) factor.
struct Moments {
  float scale = 1, mean = 0, rest = 0, factor = 0;
  float squares = 0;  // the sum of those of scale x - mean; of x / (mean + eps), of scale x itself
};

template <class T>
HWY_INLINE Moments moments(const NormRowsKernel::Rows& r, const T* in, float scale) {
  Moments m = {.scale = scale};
  const auto count = static_cast<float>(r.length);
  const bool centred = r.kind == NormKind::centred, squared = r.kind != NormKind::mean;
  const auto load = [&](auto d, std::int64_t i) { return hn::Mul(load_floats(d, in + i), hn::Set(d, scale)); };
  if (centred) {
    Sums sums;
    in_turns(r.length, [&](auto d, std::int64_t i, int k) { sums.add(d, load(d, i), k); });
    m.mean = sums.total() / count;
  }
  Sums differences, squares;
  in_turns(r.length, [&](auto d, std::int64_t i, int k) {
    const auto x = hn::Sub(load(d, i), hn::Set(d, m.mean));
    differences.add(d, x, k);
    squares.add(d, squared ? hn::Mul(x, x) : x, k);
  });
  if (centred) m.rest = differences.total() / count;
  m.squares = squares.total();
  const float mean = m.squares / count - m.rest * m.rest, root = std::sqrt(m.squares);
  switch (r.kind) {
    case NormKind::mean: m.factor = 1.0f / (mean + r.eps * scale); break;
    case NormKind::length: m.factor = 1.0f / (root < r.eps * scale ? r.eps * scale : root); break;
    default: m.factor = 1.0f / std::sqrt(mean + r.eps * scale * scale);
  }
  return m;
}

/// Results on their way to memory, `most` at a time: in registers what the epilogue begins with, then the rest of it.
template <class T>
class Ending {
 public:
  static constexpr std::int64_t most = 4096;

  explicit Ending(const NormRowsKernel::End& end) : end_(end), epilogue_(*end.epilogue) {}

  /// Of elements that begin at `first`.
  HWY_INLINE void begin(std::int64_t first) {
    out_ = static_cast<T*>(end_.output) + first;
    added_ = end_.residual == nullptr ? nullptr : static_cast<const T*>(end_.residual) + first;
  }
  template <class D>
  HWY_INLINE void put(D d, hn::Vec<D> y, std::int64_t i) {
    if (epilogue_.adds) y = hn::Add(y, load_floats(d, added_ + i));
    if (epilogue_.clamps()) y = clamped(y, hn::Set(d, epilogue_.low), hn::Set(d, epilogue_.high));
    if (epilogue_.rest.empty()) return store_floats(d, y, out_ + i);
    hn::StoreU(y, d, values_ + i);
  }
  void end(std::int64_t count) {
    if (epilogue_.rest.empty()) return;
    if (added_ != nullptr)
      each_once(count, [&](auto d, std::int64_t i) { hn::StoreU(load_floats(d, added_ + i), d, residual_ + i); });
    apply_rest(epilogue_, residual_, values_, count);
    each_once(count, [&](auto d, std::int64_t i) { store_floats(d, hn::LoadU(d, values_ + i), out_ + i); });
  }

 private:
  const NormRowsKernel::End& end_;
  const RowEpilogue& epilogue_;
  T* out_ = nullptr;
  const T* added_ = nullptr;
  alignas(64) float values_[most], residual_[most];
};

template <class T>
void norm(const NormRowsKernel::Rows& r) {
  Ending<T> ending(r.end);
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const T* in = static_cast<const T*>(r.input) + row * r.length;
    // Squares of what is beyond 1e19 overflow, of what is below 1e-19 vanish: beside an eps that would not hide them.
    constexpr float far = 0x1p70f;
    Moments m = moments(r, in, 1);
    if (!std::isfinite(m.squares)) m = moments(r, in, 1 / far);
    if (std::abs(m.squares) < 1e-20f && r.eps < 1e-20f) m = moments(r, in, far);
    // Stretches of one channel each, or of one element of each channel after the other.
    for (std::int64_t first = 0, run = 0; first < r.length; first += run) {
      const std::int64_t element = (r.first + row) * r.length + first, channel = element / r.inner % r.channels;
      run = std::min({ending.most, r.length - first, r.inner > 1 ? r.inner - element % r.inner : r.channels - channel});
      ending.begin(row * r.length + first);
      const auto finish = [&](auto planes) {
        const auto of_channel = [&](auto d, const float* numbers, std::int64_t i) {
          return planes ? hn::Set(d, numbers[channel]) : hn::LoadU(d, numbers + channel + i);
        };
        in_turns(run, [&](auto d, std::int64_t i, int) {
          const auto x = hn::Mul(load_floats(d, in + first + i), hn::Set(d, m.scale));
          auto y = hn::Mul(hn::Sub(hn::Sub(x, hn::Set(d, m.mean)), hn::Set(d, m.rest)), hn::Set(d, m.factor));
          if (r.scale != nullptr) y = hn::Mul(y, of_channel(d, r.scale, i));
          if (r.shift != nullptr) y = hn::Add(y, of_channel(d, r.shift, i));
          ending.put(d, y, i);
        });
      };
      r.inner > 1 ? finish(std::true_type()) : finish(std::false_type());
      ending.end(run);
    }
  }
}

template <class T>
void sum_up(const NormRowsKernel::Pixels& p, const NormRowsKernel::Sums& sums) {
  const T* const in = static_cast<const T*>(p.input);
  const auto of_channels = [&](auto d, std::int64_t i) {
    const hn::Rebind<float, decltype(d)> floats;
    const auto at = [&](std::int64_t pixel) {
      return hn::PromoteTo(d, load_floats(floats, in + pixel * p.channels + i));
    };
    const auto first = at(0);
    auto differences = hn::Zero(d), squares = hn::Zero(d);
    for (std::int64_t pixel = 1; pixel < p.count; ++pixel) {
      const auto x = hn::Sub(at(pixel), first);
      differences = hn::Add(differences, x);
      squares = hn::MulAdd(x, x, squares);
    }
    hn::StoreU(first, d, sums.first + i);
    hn::StoreU(differences, d, sums.differences + i);
    hn::StoreU(squares, d, sums.squares + i);
  };
  const hn::ScalableTag<double> full;
  std::int64_t i = 0;
  for (; i + lanes_of(full) <= p.channels; i += lanes_of(full)) of_channels(full, i);
  for (; i < p.channels; ++i) of_channels(hn::CappedTag<double, 1>(), i);
}

template <class T>
void scale(const NormRowsKernel::Pixels& p, const NormRowsKernel::Factors& f, const NormRowsKernel::End& end) {
  Ending<T> ending(end);
  const std::int64_t width = std::min(p.channels, ending.most), height = ending.most / width;
  for (std::int64_t pixel = 0; pixel < p.count; pixel += height) {
    const std::int64_t pixels = std::min(height, p.count - pixel);
    for (std::int64_t channel = 0, count = 0; channel < p.channels; channel += count) {
      count = std::min(width, p.channels - channel);
      const std::int64_t begin = pixel * p.channels + channel;
      const T* const in = static_cast<const T*>(p.input) + begin;
      ending.begin(begin);
      for (std::int64_t k = 0; k < pixels; ++k) {
        for_vectors(count, [&](auto d, std::int64_t i) {
          const auto of = [&](const float* numbers) { return hn::LoadU(d, numbers + channel + i); };
          const auto x = load_floats(d, in + k * count + i);
          ending.put(d, hn::MulAdd(hn::Sub(hn::Sub(x, of(f.mean)), of(f.rest)), of(f.factor), of(f.shift)),
                     k * count + i);
        });
      }
      ending.end(pixels * count);
    }
  }
}

constexpr NormRowsKernel kernel = {LAMINA_SIMD_SET,  norm<float>,  norm<bfloat16>, sum_up<float>,
                                   sum_up<bfloat16>, scale<float>, scale<bfloat16>};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const NormRowsKernel> norm_rows_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
