#include "lamina/cuda/squeeze_excite/squeeze_excite.h"

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/eight_bits.h"

namespace lamina {
namespace cuda::squeeze_excite {
namespace {

bool of_codes(const SqueezeExciteProblem& problem) { return problem.means.defined(); }
Quantization product_of(const SqueezeExciteProblem& problem, const Preparation& p) {
  return problem.multiplies ? p.output().quantization : problem.product;
}

Result result_of(const SqueezeExciteProblem& problem) {
  return problem.norm ? Result::response : problem.multiplies ? Result::product : Result::factors;
}

/// Of clusters of so many blocks.
Arguments arguments_of(const SqueezeExciteProblem& problem, const View& input, int log2_blocks = log2_parts) {
  Arguments args;
  args.log2_blocks = log2_blocks;
  args.images = input.shape[0];
  args.pixels = static_cast<int>(input.shape[2] * input.shape[3]);
  args.channels = static_cast<int>(input.shape[1]);
  constexpr int least_channels = 256;  // of a slice: fewer are added up by too few of a block's threads
  const auto divides_again = [&] {
    const int slices = 2 << args.log2_slices;
    return args.channels % (slices * pack) == 0 && args.channels / slices >= least_channels;
  };
  while (args.log2_slices < log2_parts && divides_again()) ++args.log2_slices;
  const int packs = args.slice_channels() / pack;
  args.slice = Divider(args.slice_channels()), args.pack_of_slice = Divider(packs);
  args.groups = threads / std::max(packs, 1);
  if (problem.norm) return args;
  args.hidden = problem.squeeze.geometry.out_channels;
  args.squeeze = Layer(args.hidden, args.blocks(), problem.squeeze.geometry.in_channels, of_codes(problem));
  args.excite = Layer(args.channels, args.blocks(), args.hidden, of_codes(problem));
  return args;
}

/// The layers of a gate of codes, each as a problem of its own.
struct CodeLayers {
  View means, between, factors;
  Preparation first, second;

  CodeLayers(const SqueezeExciteProblem& problem, const Preparation& p)
      : means(p.input()), between(means), factors(means), first(p), second(p) {
    means.shape = factors.shape = {p.input().shape[0], p.input().shape[1], 1, 1};
    between.shape = {p.input().shape[0], problem.squeeze.geometry.out_channels, 1, 1};
    means.quantization = problem.means, between.quantization = problem.between, factors.quantization = problem.factors;
    first.inputs = {&means, 1}, first.outputs = second.inputs = {&between, 1}, second.outputs = {&factors, 1};
  }
  CodeLayers(const CodeLayers&) = delete;
  CodeLayers& operator=(const CodeLayers&) = delete;
};

/// What becomes of a layer's sums of codes, and of the codes of each byte: numbers for who reads them. What the layer
/// multiplies is less its zero point already.
struct CodeEnd {
  lamina::detail::ChannelEnd sums;
  std::vector<float> numbers;

  CodeEnd(const ConvProblem& problem, const Preparation& p, const std::vector<float>& of) : numbers(of) {
    sums = lamina::detail::channel_end(problem, p);
    const CodeTable* const table = problem.epilogue.table();
    if (table == nullptr) return;
    std::ranges::transform(*table, numbers.begin(), [&](std::uint8_t byte) { return of[byte]; });
  }
};

/// What a factor's codes are for who multiplies the image.
std::optional<std::vector<float>> slopes_of(const SqueezeExciteProblem& problem, const Preparation& p) {
  return lamina::detail::product_slopes(p.input().format.dtype, p.input().quantization, problem.factors,
                                        product_of(problem, p));
}

/// How images are divided: those of a cluster, its blocks, and their shared memory; 0 bytes if they cannot be.
struct Division {
  int images = 1, log2_blocks = log2_parts, bytes = 0;
};

/// What takes the least time by a simple model: the more images there are the fewer blocks an image gets, if they have
/// room for the parameters. Where each block can have a multiprocessor of its own it is given more memory than it
/// needs, or two would meet on one while others have none.
Division division_of(const SqueezeExciteProblem& problem, const View& input, const DeviceDescription& device) {
  constexpr double start = 4, each = 1.2;                 // us, of a cluster and of each image
  constexpr double image_rate = 24e3, layer_rate = 54e3;  // bytes/us, of a block
  constexpr double beside = 1.4;                          // what a block takes longer if another one is beside it
  const Result result = result_of(problem);
  const double image_bytes = static_cast<double>(input.shape[1] * input.shape[2] * input.shape[3]) *
                             static_cast<double>(size_of(input.format.dtype)) * (result == Result::product ? 2 : 1);
  Division best;
  double least = std::numeric_limits<double>::infinity();
  for (int log2_blocks = log2_parts; log2_blocks >= 0; --log2_blocks) {
    const Arguments args = arguments_of(problem, input, log2_blocks);
    const int blocks = args.blocks();
    const int alone = device.clusters[static_cast<std::size_t>(blocks)];
    if (alone == 0 || (result == Result::response && args.channels > threads * blocks)) continue;
    for (int images = 1; images <= max_images; ++images) {
      const int bytes = shared_bytes(args, images, result), all = bytes + device.reserved_shared_bytes;
      if (bytes > device.shared_bytes) break;
      const auto clusters = lamina::detail::ceil_div<std::int64_t>(args.images, images);
      const bool two = clusters > alone && 2 * all <= device.multiprocessor_shared_bytes;
      const auto waves = lamina::detail::ceil_div<std::int64_t>(clusters, two ? 2 * alone : alone);
      const double one = each + image_bytes / blocks / image_rate +
                         static_cast<double>(args.squeeze.bytes() + args.excite.bytes()) / layer_rate;
      const double time = static_cast<double>(waves) * (start + images * one * (two ? beside : 1));
      if (time >= least) continue;
      const int half = device.multiprocessor_shared_bytes / 2 - device.reserved_shared_bytes + 16;
      const bool spreads = clusters <= alone && half <= device.shared_bytes;
      least = time, best = {images, log2_blocks, spreads ? std::max(bytes, half) : bytes};
    }
  }
  return best;
}

/// The parameters of all blocks; zeros where there are no more values. `ends`: of codes the first layer's, the
/// second's.
Packed pack_layers(const SqueezeExciteProblem& problem, const Arguments& args, DType type,
                   std::span<const CodeEnd> ends) {
  const std::int64_t bytes = args.squeeze.bytes() + args.excite.bytes();
  Packed packed(args.blocks() * bytes);
  const auto put_layer = [&](const ConvProblem& conv, const Layer& layer, const CodeEnd* end, int offset, int count) {
    const Tensor weight = end != nullptr ? conv.eight.weight.to(DType::f32) : conv.weight;
    const float* weights = lamina::detail::floats(weight);
    for (int i = 0; i < count; ++i) {
      const std::int64_t at = i / layer.rows * bytes + offset;
      const int row = i % layer.rows;
      for (int k = 0; k < layer.terms; ++k) {
        packed.put(at + row * layer.pitch() + k * 2, bits16(weights[std::int64_t{i} * layer.terms + k], type));
      }
      const std::int64_t behind = at + layer.weight_bytes();
      if (end != nullptr) {
        const auto channel = static_cast<std::size_t>(i);
        for (int byte = 0; row == 0 && byte < 256; ++byte)
          packed.put(behind + byte * 4, end->numbers[static_cast<std::size_t>(byte)]);
        packed.put(behind + (256 + row) * 4, end->sums.bias[channel]);
        packed.put(behind + (256 + layer.rows + row) * 4, end->sums.factor[channel]);
      } else if (conv.bias.defined()) {
        packed.put(behind + row * 4, lamina::detail::floats(conv.bias)[i]);
      }
    }
  };
  put_layer(problem.squeeze, args.squeeze, ends.empty() ? nullptr : &ends[0], 0, args.hidden);
  put_layer(problem.excite, args.excite, ends.empty() ? nullptr : &ends[1], args.squeeze.bytes(), args.channels);
  return packed;
}

/// Of all channels what their numbers are scaled by, then the summands.
std::vector<float> numbers_of(const NormProblem& norm) {
  std::vector<float> numbers(static_cast<std::size_t>(norm.channels), 1.0f);
  if (norm.scale.defined()) std::ranges::copy(norm.scale.values<float>(), numbers.begin());
  numbers.resize(2 * numbers.size());
  if (norm.shift.defined()) std::ranges::copy(norm.shift.values<float>(), numbers.begin() + norm.channels);
  return numbers;
}

bool is_layer(const ConvProblem& problem, const Preparation& p) {
  return problem.geometry.groups == 1 && finish_takes(problem.epilogue, p);
}

/// A lane's sum is a whole number of f32, as a channel's is.
bool are_code_layers(const SqueezeExciteProblem& problem, const Preparation& p) {
  using namespace lamina::detail;
  constexpr std::int64_t exact = 1 << 24, most = 255 * 128;
  const Arguments args = arguments_of(problem, p.input());
  const CodeLayers layers(problem, p);
  const auto is_one = [](const ConvProblem& layer, const Preparation& of, int lane_terms) {
    return is_eight_bits(layer, of) && is_code(of.output()) && layer.geometry.groups == 1 && lane_terms * most < exact;
  };
  return is_code(p.input()) && is_code(p.output()) == problem.multiplies && args.pixels * std::int64_t{255} < exact &&
         Rounding(layers.means).inverse != 0 && is_one(problem.squeeze, layers.first, args.squeeze.lane_terms()) &&
         is_one(problem.excite, layers.second, args.excite.lane_terms()) && slopes_of(problem, p);
}

/// The factors of a response norm of all channels.
bool is_response(const NormProblem& norm, std::int64_t channels) {
  return norm.kind == NormKind::mean && norm.length == channels && norm.channels == channels && norm.inner == 1 &&
         norm.epilogue.chain.empty();
}

}  // namespace

bool takes(const SqueezeExciteProblem& problem, const Preparation& p) {
  const bool codes = of_codes(problem);
  const Format stored = {codes ? p.input().format.dtype : storage_type(p.precision), Layout::nhwc};
  const DType given = codes && !problem.multiplies ? DType::f32 : stored.dtype;
  if (p.device.architecture < 90 || p.inputs.size() != 1 || size_of(stored.dtype) != (codes ? 1 : 2) ||
      p.input().format != stored || p.output().format.dtype != given) {
    return false;
  }
  const Shape& shape = p.input().shape;
  if (problem.multiplies ? p.output().shape != shape || p.output().format != stored
                         : p.output().shape != Shape{shape[0], shape[1], 1, 1}) {
    return false;
  }
  if (shape[1] % pack != 0 || shape[1] > std::int64_t{threads} * pack ||
      shape[1] * shape[2] * shape[3] > std::numeric_limits<int>::max() || p.input().alignment % 16 != 0 ||
      p.output().alignment % 16 != 0) {
    return false;
  }
  // The first layer may leave out the last channels, if they are less than a pack.
  if (!problem.norm &&
      (lamina::detail::round_up<std::int64_t>(problem.squeeze.geometry.in_channels, pack) != shape[1] ||
       problem.excite.geometry.out_channels != shape[1]))
    return false;
  const bool known = problem.norm ? !problem.multiplies && !codes && is_response(*problem.norm, shape[1])
                     : codes      ? are_code_layers(problem, p)
                                  : is_layer(problem.squeeze, p) && is_layer(problem.excite, p);
  return known && division_of(problem, p.input(), p.device).bytes > 0;
}

/// A larger image takes the blocks of one cluster longer than all multiprocessors in four launches.
bool pays(const SqueezeExciteProblem&, const Preparation& p) {
  constexpr std::int64_t most_elements = 1 << 20;
  const Shape& shape = p.input().shape;
  return shape[1] * shape[2] * shape[3] <= most_elements;
}

std::unique_ptr<Operator> prepare(const SqueezeExciteProblem& problem, const Preparation& p) {
  const DType type = p.input().format.dtype;
  const Division division = division_of(problem, p.input(), p.device);
  Arguments args = arguments_of(problem, p.input(), division.log2_blocks);
  Constants constants(p.device.device.index);
  if (problem.norm) {
    args.eps = static_cast<float>(problem.norm->eps);
    args.norm = constants.add(numbers_of(*problem.norm));
  } else if (of_codes(problem)) {
    const CodeLayers layers(problem, p);
    const auto whole = lamina::detail::numbers_of(type, {1, problem.between.zero_point});
    const CodeEnd ends[] = {{problem.squeeze, layers.first, whole},
                            {problem.excite, layers.second, *slopes_of(problem, p)}};
    CodeArguments& codes = args.codes;
    codes.image = Multiplier(p.input(), product_of(problem, p)), codes.scale = p.input().quantization.scale;
    codes.zeros = (codes.image.image.zero - (1 << 23)) * static_cast<float>(args.pixels);
    codes.means = Rounding(layers.means), codes.means.zero = 0;
    codes.squeeze = ends[0].sums.end, codes.excite = ends[1].sums.end;
    args.parameters = constants.add(pack_layers(problem, args, DType::f16, ends).bytes());
  } else {
    args.squeeze_finish = finish_of(problem.squeeze.epilogue, type);
    args.excite_finish = finish_of(problem.excite.epilogue, type);
    args.parameters = constants.add(pack_layers(problem, args, type, {}).bytes());
  }
  const auto clusters = lamina::detail::ceil_div<std::int64_t>(args.images, division.images);
  const void* const function = kernel(type, division.images, result_of(problem));
  reserve_shared_memory(p.device.device.index, function, p.device.shared_bytes);
  return make_launched<Arguments>(
      {.description = lamina::detail::concat(
           "cluster of ", args.blocks(), args.blocks() == 1 ? " block: " : " blocks: ", args.channels, " channels, ",
           problem.norm ? "response norm" : lamina::detail::concat(args.hidden, " between"),
           of_codes(problem) ? ", codes" : "", division.images > 1 ? ", several images" : "",
           problem.multiplies ? "" : ", factors alone"),
       .kernel = function,
       .how = of_blocks(clusters * args.blocks(), threads, division.bytes, args.blocks()),
       .args = args,
       .constants = constants});
}

}  // namespace cuda::squeeze_excite

template <>
std::span<const Kernel<SqueezeExciteProblem>> Kernels<SqueezeExciteProblem>::cuda() {
  constexpr Features layer = reads::chain | reads::sum_codes | reads::table;
  static constexpr Kernel<SqueezeExciteProblem> table[] = {{"squeeze_excite", cuda::squeeze_excite::takes,
                                                            cuda::squeeze_excite::prepare, cuda::squeeze_excite::pays,
                                                            reads::codes | layer | reads::behind(layer)}};
  return table;
}

}  // namespace lamina
