// Means, or the largest, of pixels between pixels in the bins of boxes. A block owns some channels and some bins of a
// box. Of pixels stored channels last neighbours in a warp read neighbouring channels, else those of neighbouring bins;
// where the result is stored otherwise it is turned in shared memory (8 KB).
//
// Preconditions: none; whatever the boxes hold, only pixels of the images are read.

#define LAMINA_HOST_DEVICE __host__ __device__
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/lookup/bin_side.h"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::BinSide, detail::larger;

constexpr int threads = 256, channels_at_once = 32, bins_at_once = 64;

struct BinExtents {
  std::int64_t images, channels, height, width;
  std::int64_t boxes, down, across;       // bins of a box
  std::int64_t channel_step, pixel_step;  // of the input
  bool channels_last, result_channels_last;

  __host__ __device__ std::int64_t bins() const { return down * across; }
  __host__ __device__ std::int64_t channel_groups() const {
    return (channels + channels_at_once - 1) / channels_at_once;
  }
  __host__ __device__ std::int64_t bin_groups() const { return (bins() + bins_at_once - 1) / bins_at_once; }
};

template <class T>
__device__ float of_bin(const T* pixels, const BinSide& down, const BinSide& across, std::int64_t bin, const Bins& how,
                        const BinExtents& e) {
  float result = 0, inside = 0;
  bool begun = false;
  down.each(bin / e.across, [&](std::int64_t y0, std::int64_t y1, float dy) {
    inside += across.each(bin % e.across, [&](std::int64_t x0, std::int64_t x1, float dx) {
      const auto part = [&](std::int64_t y, std::int64_t x, float weight) {
        return weight * to_f32(pixels[(y * e.width + x) * e.pixel_step]);
      };
      const float a = part(y0, x0, (1 - dy) * (1 - dx)), b = part(y0, x1, (1 - dy) * dx),
                  c = part(y1, x0, dy * (1 - dx)), d = part(y1, x1, dy * dx);
      if (how.max) {
        const float most = larger(larger(a, b), larger(c, d));
        result = begun ? larger(result, most) : most;
        begun = true;
      } else {
        result += a + b + c + d;
      }
    });
  });
  const float all = fmaxf(down.grid * across.grid, 1.0f);
  if (!how.max) return result / all;
  return inside < down.grid * across.grid ? larger(result, 0.0f) : result;
}

template <class T, class B>
__global__ void __launch_bounds__(threads, 2)
    bins_kernel(const T* __restrict__ input, const B* __restrict__ boxes, const std::int64_t* __restrict__ images,
                const std::int64_t* __restrict__ count, T* __restrict__ output, const Bins how, const BinExtents e,
                Fault* fault) {
  __shared__ float tile[channels_at_once][bins_at_once + 1];
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t groups = e.channel_groups() * e.bin_groups();
  for (std::int64_t item = blockIdx.x; item < e.boxes * groups; item += gridDim.x) {
    const std::int64_t r = item / groups, first_channel = item % groups / e.bin_groups() * channels_at_once,
                       first_bin = item % e.bin_groups() * bins_at_once;
    bool there = r < *count;
    const std::int64_t image = images[r];
    if (there && (image < 0 || image >= e.images)) {
      if (fault != nullptr) *fault = {Fault::outside, image, e.images};
      there = false;
    }
    const auto coordinate = [&](int i) { return to_f32(boxes[4 * r + i]); };
    const BinSide across(coordinate(0), coordinate(2), how, e.across, e.width),
        down(coordinate(1), coordinate(3), how, e.down, e.height);
    const T* const pixels = input + (there ? image : 0) * e.channels * e.height * e.width;
    T* const result = output + r * e.channels * e.bins();
    const auto each = [&](bool channels_first, const auto& use) {
      for (int i = threadIdx.x; i < channels_at_once * bins_at_once; i += threads) {
        const int c = channels_first ? i % channels_at_once : i / bins_at_once,
                  b = channels_first ? i / channels_at_once : i % bins_at_once;
        if (first_channel + c < e.channels && first_bin + b < e.bins()) use(c, b);
      }
    };
    each(e.channels_last, [&](int c, int b) {
      const T* const from = pixels + (first_channel + c) * e.channel_step;
      tile[c][b] = there ? of_bin(from, down, across, first_bin + b, how, e) : 0.0f;
    });
    __syncthreads();
    each(e.result_channels_last, [&](int c, int b) {
      const std::int64_t channel = first_channel + c, bin = first_bin + b;
      const std::int64_t at = e.result_channels_last ? bin * e.channels + channel : channel * e.bins() + bin;
      result[at] = from_f32<T>(tile[c][b]);
    });
    __syncthreads();
  }
}

}  // namespace

bool takes_bins(const GridSampleProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype, boxes = p.inputs[1].format.dtype;
  return detail::is_bins(problem, p) && is_activation(dtype) && (boxes == dtype || boxes == DType::f32);
}

std::unique_ptr<Operator> prepare_bins(const GridSampleProblem& problem, const Preparation& p) {
  const Shape &in = p.input().shape, &out = p.output().shape;
  const bool last = p.input().format.layout == Layout::nhwc;
  const BinExtents e = {.images = in[0],
                        .channels = in[1],
                        .height = in[2],
                        .width = in[3],
                        .boxes = out[0],
                        .down = out[2],
                        .across = out[3],
                        .channel_step = last ? 1 : in[2] * in[3],
                        .pixel_step = last ? in[1] : 1,
                        .channels_last = last,
                        .result_channels_last = p.output().format.layout == Layout::nhwc};
  return make_on_device(index(p), "a block for bins of a box",
                        [e, how = *problem.bins](Inputs inputs, Outputs outputs, const Execution& execution) {
                          const std::int64_t blocks = e.boxes * e.channel_groups() * e.bin_groups();
                          with_element_type(inputs[0].dtype(), [&]<class T>(T*) {
                            const auto run = [&]<class B>(const B* boxes) {
                              launch_kernel(bins_kernel<T, B>, {dim3(grid_for(blocks, 1)), dim3(threads)},
                                            execution.stream, elements<T>(inputs[0]), boxes,
                                            elements<std::int64_t>(inputs[2]), elements<std::int64_t>(inputs[3]),
                                            elements<T>(outputs[0]), how, e, execution.fault);
                            };
                            inputs[1].dtype() == DType::f32 ? run(floats(inputs[1])) : run(elements<T>(inputs[1]));
                          });
                        });
}

}  // namespace lamina::cuda
