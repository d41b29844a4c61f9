#include "lamina/cuda/conv2d/stem/stem.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/stem/arguments.h"
#include "lamina/cuda/conv2d/stem/tiles.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/short_finish.h"
#include "lamina/cuda/tensor_core/fragments.h"
#include "lamina/cuda/tensor_core/packing.h"

namespace lamina::cuda::stem {
namespace {

/// The widest of those that leave no filters of zeros.
std::optional<Instance> instance_for(int filters, DType input, DType output) {
  std::optional<Instance> best;
  for (const Instance& instance : instances()) {
    if (instance.input == input && instance.output == output && filters % (8 * instance.n) == 0) best = instance;
  }
  return best;
}

struct Choice {
  Instance instance;
  Arguments args;  // all that does not need memory
  std::int64_t blocks = 0;
  int shared_bytes = 0;
};

Choice choose(const ConvGeometry& g, const Instance& instance, const DeviceDescription& device) {
  Choice c = {.instance = instance, .args = {}};
  Arguments& a = c.args;
  c.blocks = share_out(a, g, detail::ceil_div(g.out_channels, 8 * instance.n), device.multiprocessors);
  a.channels = g.in_channels, a.height = g.in_height, a.width = g.in_width;
  a.filters = g.out_channels, a.out_height = g.out_height, a.out_width = g.out_width;
  a.padding_height = g.padding_height, a.padding_width = g.padding_width;
  a.in_columns = a.columns * stride + 2;
  a.in_rows = (a.rows - 1) * stride + kernel_side;
  a.by_in_columns = Divider(a.in_columns);
  c.shared_bytes = a.in_rows * a.in_columns * pixel_bytes;
  return c;
}

/// Weights as Arguments says; zeros where there are no more filters, channels or pixels of the window.
Packed pack(const ConvProblem& problem, const Arguments& args, int n, DType type) {
  Packed packed(std::int64_t{args.slices} * kernel_side * n * fragment_bytes);
  const float* weight = lamina::detail::floats(problem.weight);
  for (int filter = 0; filter < args.filters; ++filter) {
    const FilterPlace at = filter_place(filter, n);
    for (int kh = 0; kh < kernel_side; ++kh) {
      for (int kw = 0; kw < kernel_side; ++kw) {
        for (int c = 0; c < args.channels; ++c) {
          const FragmentPlace place = fragment_place(2, kw * max_channels + c, at.column);
          const int fragment = (at.slice * kernel_side + kh) * n + at.fragment;
          packed.put(fragment * fragment_bytes + place.lane * 8 + place.element * 2,
                     bits16(weight[((filter * args.channels + c) * kernel_side + kh) * kernel_side + kw], type));
        }
      }
    }
  }
  return packed;
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const DType type = storage_type(p.precision);
  const Format in = p.input().format;
  return p.device.architecture >= 80 && size_of(type) == 2 && g.groups == 1 && g.in_channels <= max_channels &&
         g.kernel_height == kernel_side && g.kernel_width == kernel_side && g.stride_height == stride &&
         g.stride_width == stride && g.dilation_height == 1 && g.dilation_width == 1 &&
         is_short(problem.epilogue, type) && p.inputs.size() == 1 && in.layout == Layout::nchw &&
         instance_for(g.out_channels, in.dtype, type) && p.output().format == Format{type, Layout::nhwc} &&
         p.output().alignment % 16 == 0 &&
         g.batch * g.out_pixels() < std::numeric_limits<int>::max() / std::max(64, g.out_channels);
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  const DType type = p.output().format.dtype;
  const auto instance = instance_for(problem.geometry.out_channels, p.input().format.dtype, type);
  if (!instance) lamina::detail::fail("stem: no kernel for ", problem.geometry.out_channels, " filters");
  Choice choice = choose(problem.geometry, *instance, p.device);
  Arguments& args = choice.args;
  const int filters = 8 * instance->n;
  reserve_shared_memory(p.device.device.index, instance->kernel, p.device.shared_bytes);
  Constants constants(p.device.device.index);
  args.weights = constants.add(pack(problem, args, instance->n, type).bytes());
  args.bias = constants.add(padded_biases(problem.bias, std::int64_t{args.slices} * filters));
  args.finish = finish_of(problem.epilogue, type);
  return make_launched<Arguments>(
      {.description = lamina::detail::concat("stem (mma.sync): ", filters, " filters of ", args.rows, " x ",
                                             args.columns, " pixels per block, ", (choice.shared_bytes + 1023) / 1024,
                                             " KB shared memory, ", choice.blocks, " blocks"),
       .kernel = instance->kernel,
       .how = of_blocks(choice.blocks, threads, choice.shared_bytes),
       .args = args,
       .constants = constants});
}

}  // namespace lamina::cuda::stem
