#include "lamina/cuda/conv2d/depthwise/depthwise.h"

#include <algorithm>
#include <optional>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/depthwise/choice.h"
#include "lamina/cuda/conv2d/preference.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/short_finish.h"
#include "lamina/cuda/tensor_core/fragments.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/order_of_sums.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::depthwise {
namespace {

using lamina::detail::channel_end;
using lamina::detail::concat;
using lamina::detail::floats;
using lamina::detail::is_eight_bits;

std::string describe(const Choice& choice) {
  const Arguments& a = choice.args;
  const Instance& i = choice.instance;
  if (i.kernel == 0) return concat("depthwise (any geometry): ", i.pack, " channels of a pixel per thread");
  return concat("depthwise: ", i.pack, " channels of ", i.rows, " x ", i.columns, " pixels per thread, ", a.slice,
                " channels of ", a.down * i.rows, " x ", a.across * i.columns, " pixels per block, ", choice.blocks,
                " blocks");
}

std::string describe(const PairChoice& choice) {
  const PairArguments& a = choice.args;
  const Instance& i = choice.instance;
  return concat("pair (mma.sync): ", a.terms, " channels to ", a.slice, " of ", a.geometry.in_channels, " filters of ",
                a.down * i.rows, " x ", a.across * i.columns, " pixels per block, ", i.pack, " channels of ", i.rows,
                " x ", i.columns, " per thread, ", (choice.shared_bytes + 1023) / 1024, " KB shared memory, ",
                choice.blocks, " blocks");
}

/// [C, 1, KH, KW] -> [KH, KW, C], rounded to the storage type.
std::vector<float> pack(const ConvProblem& problem, DType type) {
  const ConvGeometry& g = problem.geometry;
  const int taps = g.kernel_height * g.kernel_width;
  std::vector<float> weights(static_cast<std::size_t>(g.weight_size()));
  for (int channel = 0; channel < g.in_channels; ++channel) {
    for (int tap = 0; tap < taps; ++tap) {
      weights[static_cast<std::size_t>(std::int64_t{tap} * g.in_channels + channel)] =
          rounded(floats(problem.weight)[std::int64_t{channel} * taps + tap], type);
    }
  }
  return weights;
}

/// A channel's weights as CodeTaps has them.
std::vector<std::uint32_t> code_words(const Tensor& weight, int channel, const Instance& instance) {
  const CodeTaps taps = {instance.kernel, instance.stride, instance.rows};
  const int kernel = instance.kernel;
  const auto values = weight.values<std::int8_t>().subspan(static_cast<std::size_t>(channel * kernel * kernel));
  std::vector<std::uint32_t> words;
  for (int four = 0; four < taps.fours(); ++four) {
    for (int row = 0; row < taps.rows; ++row) {
      if (!taps.sees(four, row)) continue;
      for (int kw = 0; kw < kernel; ++kw) {
        std::uint32_t& word = words.emplace_back(0);
        for (int at = 0; at < taps.rows_of(four); ++at) {
          const int kh = taps.tap(four, at, row), byte = taps.rows_of(four) == 1 ? channel % 4 : at;
          if (kh < 0 || kh >= kernel) continue;
          word |= std::uint32_t{static_cast<std::uint8_t>(values[static_cast<std::size_t>(kh * kernel + kw)])}
                  << byte * 8;
        }
      }
    }
  }
  return words;
}

CodesEnd codes_end(const lamina::detail::ChannelEnd& end, int channels, std::int64_t terms, Constants& constants,
                   const Epilogue& epilogue) {
  return {eight_bits::ends_of(end, channels, constants, epilogue.table()),
          eight_bits::saturates(end, terms),
          {end.end.type, end.end.quantization}};
}

/// Of a pair of codes, each as a problem of its own: what the first gives is what the second reads.
struct CodePair {
  View between;
  Preparation first, second;

  CodePair(const ConvPairProblem& problem, const Preparation& p) : between(p.input()), first(p), second(p) {
    const ConvGeometry& g = problem.second.geometry;
    between.shape = {g.batch, g.in_channels, g.in_height, g.in_width};
    between.format.layout = Layout::nhwc, between.quantization = problem.between;
    first.outputs = {&between, 1}, second.inputs = {&between, 1};
  }
  CodePair(const CodePair&) = delete;
  CodePair& operator=(const CodePair&) = delete;

  bool are_eight_bits(const ConvPairProblem& problem) const {
    return is_eight_bits(problem.first, first) && is_eight_bits(problem.second, second);
  }
};

struct CodeEnds {
  lamina::detail::ChannelEnd first, second;

  CodeEnds(const ConvPairProblem& problem, const Preparation& p) {
    const CodePair pair(problem, p);
    first = channel_end(problem.first, pair.first, p.input().quantization.zero_point);
    second = channel_end(problem.second, pair.second, problem.between.zero_point);
  }
};

/// What ParametersOf describes, of all slices; zeros where there are no more filters or channels.
Packed pack(const ConvPairProblem& problem, const PairArguments& args, const Instance& instance, DType type,
            const std::optional<CodeEnds>& codes) {
  const int taps = instance.taps();
  const ParametersOf offset(args.steps, args.slice, taps, instance.codes);
  Packed packed(std::int64_t{args.slices} * offset.bytes);
  for (int filter = 0; filter < args.geometry.in_channels; ++filter) {
    const std::int64_t slice = std::int64_t{filter / args.slice} * offset.bytes;
    const int column = filter % args.slice;
    const auto put_weight = [&](int k, auto bits) {
      constexpr int size = sizeof(bits), terms = step_bytes / size;
      const FragmentPlace place = fragment_place(size, k % terms, column % 8);
      const int fragment = k / terms * (args.slice / 8) + column / 8;
      packed.put(slice + std::int64_t{fragment} * fragment_bytes + place.lane * 8 + place.element * size, bits);
    };
    for (int k = 0; k < args.terms; ++k) {
      const std::int64_t at = std::int64_t{filter} * args.terms + k;
      if (codes) {
        put_weight(k, problem.first.eight.weight.values<std::int8_t>()[static_cast<std::size_t>(at)]);
      } else {
        put_weight(k, bits16(floats(problem.first.weight)[at], type));
      }
    }
    const auto words = codes ? code_words(problem.second.eight.weight, filter, instance) : std::vector<std::uint32_t>();
    for (int tap = 0; tap < taps; ++tap) {
      const std::int64_t to = slice + offset.taps + (tap * args.slice + column) * 4;
      if (codes) {
        packed.put(to, words[static_cast<std::size_t>(tap)]);
      } else {
        packed.put(to, rounded(floats(problem.second.weight)[std::int64_t{filter} * taps + tap], type));
      }
    }
    const auto f = static_cast<std::size_t>(filter);
    const auto put_bias = [&](int at, auto bias) { packed.put(slice + at + column * 4, bias); };
    if (codes) {
      for (const auto& [at, end] : {std::pair(offset.bias, &codes->first), std::pair(offset.last, &codes->second)}) {
        put_bias(at, end->bias[f]);
        put_bias(at + args.slice * 4, end->factor[f]);
      }
      continue;
    }
    if (problem.first.bias.defined()) put_bias(offset.bias, floats(problem.first.bias)[filter]);
    if (problem.second.bias.defined()) put_bias(offset.last, floats(problem.second.bias)[filter]);
  }
  return packed;
}

template <class Args>
std::unique_ptr<Operator> launch(const ChoiceOf<Args>& choice, const Constants& constants, bool adds,
                                 int shared_bytes) {
  if (choice.instance.kernel != 0) reserve_shared_memory(constants.device(), choice.instance.function, shared_bytes);
  return make_launched<Args>({.description = describe(choice),
                              .kernel = choice.instance.function,
                              .how = of_blocks(choice.blocks, choice.threads, choice.shared_bytes),
                              .args = choice.args,
                              .constants = constants,
                              .residual = adds ? 1u : 0u});
}

/// A slice's pixels begin where packs of channels do.
bool fits(const View& view, std::int64_t pixels, DType type) {
  return view.format.dtype == type && (view.format.layout == Layout::nhwc || pixels == 1) &&
         (!view.is_slice() || (view.shape[1] % 4 == 0 && view.alignment % (4 * size_of(type)) == 0));
}

bool is_pointwise(const ConvGeometry& g) { return lamina::detail::is_of_pixels(g) && g.groups == 1; }

using lamina::detail::is_depthwise;

bool is_square(const ConvGeometry& g) {
  return g.kernel_height == g.kernel_width && g.stride_height == g.stride_width && g.dilation_height == 1 &&
         g.dilation_width == 1;
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const DType type = storage_type(p.precision);
  return is_depthwise(g) && finish_takes(problem.epilogue, p) && fits(p.input(), g.in_pixels(), type) &&
         fits(p.output(), g.out_pixels(), type) && !(p.output().is_slice() && problem.epilogue.reads_operands());
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  Choice choice = choose(problem, p);
  Constants constants(p.device.device.index);
  choice.args.weight = constants.add(pack(problem, p.input().format.dtype));
  choice.args.bias = constants.add(padded_biases(problem.bias, problem.geometry.out_channels));
  choice.args.finish = finish_of(problem.epilogue, p.output().format.dtype);
  return launch(choice, constants, problem.epilogue.reads_operands(), std::min(shared_limit, p.device.shared_bytes));
}

bool takes_codes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const auto nhwc = [](const View& view) { return view.format.layout == Layout::nhwc && !view.is_slice(); };
  if (!is_depthwise(g) || !is_eight_bits(problem, p) || !nhwc(p.input()) || !nhwc(p.output()) ||
      choose(problem, p).blocks == 0) {
    return false;
  }
  return !problem.epilogue.table() || channel_end(problem, p).end.codes;
}

std::unique_ptr<Operator> prepare_codes(const ConvProblem& problem, const Preparation& p) {
  const std::int32_t zero = p.input().quantization.zero_point;
  const auto end = channel_end(problem, p, zero);
  Choice choice = choose(problem, p);
  const auto channels = static_cast<std::size_t>(problem.geometry.in_channels);
  std::vector<std::uint32_t> weights(channels * static_cast<std::size_t>(choice.instance.taps()));
  for (std::size_t c = 0; c < channels; ++c) {
    const auto words = code_words(problem.eight.weight, static_cast<int>(c), choice.instance);
    for (std::size_t i = 0; i < words.size(); ++i) weights[i * channels + c] = words[i];
  }
  Constants constants(p.device.device.index);
  choice.args.weight = constants.add(weights);
  choice.args.bias = constants.add(end.bias);
  choice.args.padding = constants.add(std::vector<unsigned char>(16, static_cast<unsigned char>(zero)));
  choice.args.ends =
      codes_end(end, problem.geometry.out_channels, problem.geometry.reduction(), constants, problem.epilogue);
  return launch(choice, constants, false, std::min(shared_limit, p.device.shared_bytes));
}

bool takes_code_pair(const ConvPairProblem& problem, const Preparation& p) {
  const ConvGeometry &a = problem.first.geometry, &b = problem.second.geometry;
  const View &input = p.input(), &output = p.output();
  const CodePair pair(problem, p);
  if (p.device.architecture < 80 || p.inputs.size() != 1 || !is_pointwise(a) || !is_depthwise(b) || !is_square(b) ||
      a.in_channels % 4 != 0 || !fits(input, a.in_pixels(), input.format.dtype) ||
      !fits(output, b.out_pixels(), input.format.dtype) || !pair.are_eight_bits(problem)) {
    return false;
  }
  const CodeEnds ends(problem, p);
  return ends.first.end.codes && ends.second.end.codes && keep(choose(problem, p), p);
}

bool takes_pair(const ConvPairProblem& problem, const Preparation& p) {
  if (problem.between.defined()) return takes_code_pair(problem, p);
  const ConvGeometry &a = problem.first.geometry, &b = problem.second.geometry;
  const DType type = storage_type(p.precision);
  return p.device.architecture >= 80 && size_of(type) == 2 && p.inputs.size() == 1 && is_pointwise(a) &&
         is_depthwise(b) && is_square(b) && a.in_channels % 2 == 0 && is_short(problem.first.epilogue, type) &&
         finish_takes(problem.second.epilogue, p) && fits(p.input(), a.in_pixels(), type) &&
         fits(p.output(), b.out_pixels(), type) && keep(choose(problem, p), p);
}

bool pays_pair(const ConvPairProblem& problem, const Preparation& p) {
  ConvPairProblem usual = problem;  // whether it pays is the layer's where bits must not depend on the batch
  for (ConvProblem* part : {&usual.first, &usual.second}) {
    if (p.batch_invariant) part->geometry = lamina::detail::of_images(part->geometry, p, 32);
  }
  const auto choice = p.batch_invariant ? choose(usual, p) : kept(p, [&] { return choose(problem, p); });
  return choice && preference::pair(usual, choice->cost);
}

std::unique_ptr<Operator> prepare_pair(const ConvPairProblem& problem, const Preparation& p) {
  auto choice = kept(p, [&] { return choose(problem, p); });
  if (!choice) lamina::detail::fail("pair: no tile fits this device");
  const DType type = p.output().format.dtype;
  Constants constants(p.device.device.index);
  PairArguments& args = choice->args;
  std::optional<CodeEnds> codes;
  if (problem.between.defined()) {
    codes.emplace(problem, p);
    const int channels = args.slices * args.slice;
    args.between_ends = codes_end(codes->first, channels, args.terms, constants, problem.first.epilogue);
    args.ends =
        codes_end(codes->second, channels, problem.second.geometry.reduction(), constants, problem.second.epilogue);
    args.outside = static_cast<std::uint8_t>(problem.between.zero_point) * 0x01010101u;
  } else {
    args.between = finish_of(problem.first.epilogue, type);
    args.finish = finish_of(problem.second.epilogue, type);
  }
  args.parameters = constants.add(pack(problem, args, choice->instance, type, codes).bytes());
  return launch(*choice, constants, false, p.device.shared_bytes);
}

}  // namespace lamina::cuda::depthwise
