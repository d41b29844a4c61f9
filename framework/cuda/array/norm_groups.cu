// Group norms of images channels last: a row is some neighbouring channels of all pixels of an image. A thread holds
// the same pack of channels of eight pixels, a block as many pixels as it has threads for: a part of the image, of
// which all groups are looked at. As norm.cu does it for long rows, one launch finds each part's mean and sum of
// squares, of every group, and another, once all are known, normalises them.
//
// Shared memory: 16 KB, of f32 8. Preconditions: whole packs of channels, at most 256 of them.

#include "lamina/base/math.h"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/array/norm_rows.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/norm_rules.h"
#include "lamina/tensor/constants.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256, items = 8;

struct Groups {
  NormSettings norm = {};
  std::int64_t pixels = 1;      // of an image
  int channels = 1, packs = 1;  // of a pixel
  bool relu = false;
  int of_group = 1, groups = 1;  // channels of a group, groups of an image
  int pixels_at_a_time = 1;
  std::int64_t parts = 1;  // of an image
  Divider by_group = {};

  __host__ __device__ std::int64_t part_pixels() const { return std::int64_t{items} * pixels_at_a_time; }
  __device__ float elements_of(std::int64_t part) const {
    return static_cast<float>(min(pixels - part * part_pixels(), part_pixels()) * of_group);
  }
};

/// The block's sums of value(g, i) over i < count for every group g, which f(g, sum) is given: by as many lanes for a
/// group as have something to add.
template <class Value, class F>
__device__ void for_each_group(const Groups& s, std::int64_t count, const Value& value, const F& f) {
  int lanes = warp;
  while (lanes > 1 && lanes / 2 >= count) lanes /= 2;
  const int lane = static_cast<int>(threadIdx.x) % lanes, together = threads / lanes;
  for (int first = 0; first < s.groups; first += together) {  // the same for all: they exchange what they have
    const int g = first + static_cast<int>(threadIdx.x) / lanes;
    float sum = 0;
    for (std::int64_t i = lane; i < count && g < s.groups; i += lanes) sum += value(g, i);
    for (int distance = lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (lane == 0 && g < s.groups) f(g, sum);
  }
}

/// A thread's pack of channels of some of the pixels of a part.
template <class T>
struct HeldPixels {
  static constexpr int size = Pack<T>::size;
  float values[items][size];
  int group[size];
  int channel, count = 0;
  std::int64_t first;  // element

  __device__ HeldPixels(const Groups& s, const T* input, std::int64_t image, std::int64_t part) {
    const int pixel = static_cast<int>(threadIdx.x) / s.packs;
    channel = (static_cast<int>(threadIdx.x) - pixel * s.packs) * size;
#pragma unroll
    for (int j = 0; j < size; ++j) group[j] = static_cast<int>(s.by_group.quotient(static_cast<unsigned>(channel + j)));
    const std::int64_t at = part * s.part_pixels() + pixel;
    first = (image * s.pixels + at) * s.channels + channel;
    if (pixel >= s.pixels_at_a_time) return;
#pragma unroll
    for (int k = 0; k < items; ++k) {
      if (at + k * s.pixels_at_a_time >= s.pixels) continue;
      count = k + 1;
      const auto pack = *reinterpret_cast<const Pack<T>*>(input + element(s, k));
#pragma unroll
      for (int j = 0; j < size; ++j) values[k][j] = to_f32(pack.values[j]);
    }
  }
  __device__ std::int64_t element(const Groups& s, int k) const {
    return first + std::int64_t{k} * s.pixels_at_a_time * s.channels;
  }

  /// Every group's sum of f(value, j) over the part, which to(g, sum) is given; j: of the pack.
  template <class F, class To>
  __device__ void sums(const Groups& s, float* shared, const F& f, const To& to) const {
#pragma unroll
    for (int j = 0; j < size; ++j) {
      float sum = 0;
#pragma unroll
      for (int k = 0; k < items; ++k) {
        if (k < count) sum += f(values[k][j], j);
      }
      shared[static_cast<int>(threadIdx.x) * size + j] = sum;  // [pixels at a time][channels]
    }
    __syncthreads();
    const std::int64_t all = std::int64_t{s.pixels_at_a_time} * s.of_group;
    for_each_group(
        s, all,
        [&](int g, std::int64_t i) {
          const auto pixel = static_cast<int>(s.by_group.quotient(static_cast<unsigned>(i)));
          return shared[pixel * s.channels + g * s.of_group + static_cast<int>(i) - pixel * s.of_group];
        },
        to);
    __syncthreads();
  }
};

template <class T>
__global__ void __launch_bounds__(threads)
    group_parts_kernel(const T* input, NormPart* parts, std::int64_t all, const __grid_constant__ Groups s) {
  __shared__ float shared[threads * Pack<T>::size], means[threads * Pack<T>::size];
  let_successor_start();
  wait_for_predecessor();
  for (std::int64_t p = blockIdx.x; p < all; p += gridDim.x) {
    const std::int64_t image = p / s.parts, part = p % s.parts;
    const HeldPixels<T> held(s, input, image, part);
    const T* const start = input + image * s.pixels * s.channels;
    const auto first_of = [&](int g) { return s.norm.centred() ? to_f32(start[g * s.of_group]) : 0.0f; };
    const float elements = s.elements_of(part);
    float first[HeldPixels<T>::size];
#pragma unroll
    for (int j = 0; j < held.size; ++j) first[j] = first_of(held.group[j]);
    held.sums(
        s, shared, [&](float v, int j) { return v - first[j]; },
        [&](int g, float sum) { means[g] = s.norm.centred() ? sum / elements : 0.0f; });
    const auto squares = [&](float v, int j) {
      const float d = v - first[j] - means[held.group[j]];
      return d * d;
    };
    held.sums(s, shared, squares, [&](int g, float sum) { parts[p * s.groups + g] = {first_of(g) + means[g], sum}; });
  }
}

template <class T>
__global__ void __launch_bounds__(threads) group_norm_kernel(const T* input, T* output, const NormPart* parts,
                                                             std::int64_t all, const __grid_constant__ Groups s) {
  constexpr int size = Pack<T>::size;
  __shared__ float means[threads * size], factors[threads * size];  // means: beside the first part's
  let_successor_start();
  wait_for_predecessor();
  for (std::int64_t p = blockIdx.x; p < all; p += gridDim.x) {
    const std::int64_t image = p / s.parts, part = p % s.parts;
    const NormPart* const own = parts + image * s.parts * s.groups;
    const auto length = static_cast<float>(s.norm.length);
    __syncthreads();  // the last part is done
    for_each_group(
        s, s.parts,
        [&](int g, std::int64_t i) { return s.elements_of(i) * (own[i * s.groups + g].mean - own[g].mean); },
        [&](int g, float sum) { means[g] = sum / length; });
    __syncthreads();
    for_each_group(
        s, s.parts,
        [&](int g, std::int64_t i) {
          const NormPart one = own[i * s.groups + g];
          const float d = one.mean - own[g].mean - means[g];
          return one.squares + s.elements_of(i) * d * d;
        },
        [&](int g, float sum) { factors[g] = s.norm.factor(sum); });
    __syncthreads();
    const HeldPixels<T> held(s, input, image, part);
#pragma unroll
    for (int k = 0; k < items; ++k) {
      if (k >= held.count) continue;
      Pack<T> pack;
#pragma unroll
      for (int j = 0; j < size; ++j) {
        const int g = held.group[j];
        float y = (held.values[k][j] - own[g].mean - means[g]) * factors[g];
        if (s.norm.scale != nullptr) y *= s.norm.scale[held.channel + j];
        if (s.norm.shift != nullptr) y += s.norm.shift[held.channel + j];
        pack.values[j] = from_f32<T>(s.relu && y < 0.0f ? 0.0f : y);
      }
      *reinterpret_cast<Pack<T>*>(output + held.element(s, k)) = pack;
    }
  }
}

}  // namespace

bool takes_norm_of_groups(const NormProblem& problem, const Preparation& p) {
  if (p.inputs.size() != 1 || p.outputs.size() != 1 || !(p.input().format == p.output().format) || p.has_codes()) {
    return false;
  }
  const DType dtype = p.input().format.dtype;
  if (p.input().format.layout != Layout::nhwc || !is_activation(dtype) || !detail::is_of_groups(problem, p))
    return false;
  const std::int64_t channels = p.input().shape[1], size = 16 / static_cast<std::int64_t>(size_of(dtype));
  return problem.kind <= NormKind::root_mean_square && channels % size == 0 && channels / size <= threads &&
         p.input().alignment % 16 == 0 && p.output().alignment % 16 == 0;
}

/// Two launches are longer than the one of planes and the turns around it until there is something to do.
bool norm_of_groups_pays(const NormProblem&, const Preparation& p) {
  constexpr std::int64_t enough = std::int64_t{1} << 20;  // elements
  const Shape& image = p.input().shape;
  const std::int64_t images = p.batch_invariant ? 32 : image[0];  // sums are in the order of the kernel
  return images * image[1] * image[2] * image[3] >= enough;
}

std::unique_ptr<Operator> prepare_norm_of_groups(const NormProblem& problem, const Preparation& p) {
  const Shape& image = p.input().shape;
  const Tensor scale = detail::constant(problem.scale, p.device.device),
               shift = detail::constant(problem.shift, p.device.device);
  Groups s = {.norm = {.length = problem.length, .eps = static_cast<float>(problem.eps), .kind = problem.kind},
              .pixels = image[2] * image[3],
              .channels = static_cast<int>(image[1]),
              .packs = static_cast<int>(image[1]) * static_cast<int>(size_of(p.input().format.dtype)) / 16,
              .relu = problem.epilogue.relu()};
  s.of_group = static_cast<int>(problem.length / s.pixels);
  s.groups = s.channels / s.of_group;
  s.pixels_at_a_time = threads / s.packs;
  s.parts = detail::ceil_div(s.pixels, s.part_pixels());
  s.by_group = Divider(s.of_group);
  const std::int64_t all = image[0] * s.parts;
  return make_on_device(
      index(p), "groups of channels", {.workspace = static_cast<std::size_t>(all * s.groups) * sizeof(NormPart)},
      [=](Inputs inputs, Outputs outputs, const Execution& execution) {
        Groups with = s;
        with.norm.scale = floats(scale), with.norm.shift = floats(shift);  // which the operator keeps
        auto* const parts = static_cast<NormPart*>(execution.workspace);
        const Launch how = {.grid = dim3(grid_for(all, 1)), .block = dim3(threads)};
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          launch_kernel(group_parts_kernel<T>, how, execution.stream, elements<T>(inputs[0]), parts, all, with);
          launch_kernel(group_norm_kernel<T>, how, execution.stream, elements<T>(inputs[0]), elements<T>(outputs[0]),
                        static_cast<const NormPart*>(parts), all, with);
        });
      });
}

}  // namespace lamina::cuda
