// The channels-last convolution with chains of functions behind it, on every tile and sharing.

#include "cuda/conv2d/channels_last/harness.h"

namespace lamina::test::chain_test {
namespace {

const PointwiseChain chains[] = {{{.function = Pointwise::hard_swish}},
                                 {{.function = Pointwise::silu}},
                                 {{.function = Pointwise::clip, .a = 0, .b = 6}},
                                 {{.function = Pointwise::prelu, .a = 0.1}},
                                 {{.function = Pointwise::gelu}, {.function = Pointwise::relu}}};

KernelOptions with_chain(Precision precision, const PointwiseChain& chain, const Tuning& tuning = {}) {
  KernelOptions options = options_for(precision, false, tuning);
  options.chain = chain;
  return options;
}

/// Sums with another activation.
const PointwiseStep addition = {.function = Pointwise::add, .operand = 1};
const PointwiseChain sums[] = {{addition},
                               {addition, {.function = Pointwise::relu}},
                               {addition, {.function = Pointwise::clip, .a = -1, .b = 2}},
                               {{.function = Pointwise::gelu}}};
/// And, in 16 bits, behind a function.
const Precision halves[] = {Precision::fp16, Precision::bf16};
const PointwiseChain late_sums[] = {{{.function = Pointwise::prelu, .a = 0.1}, addition},
                                    {{.function = Pointwise::silu}, addition},
                                    {{.function = Pointwise::relu}, addition},
                                    {{.function = Pointwise::gelu}, addition},
                                    {{.function = Pointwise::hard_swish}, addition}};

void expect_on_every_tile(std::span<const Precision> precisions, std::span<const PointwiseChain> of, unsigned seed) {
  for (const Precision precision : precisions) {
    const auto count = static_cast<int>(cuda::channels_last::tiles(precision).size());
    for (const std::size_t i : {3u, 5u, 16u}) {
      const ConvGeometry g = geometry_of(nhwc_cases[i]);
      const ConvData data = draw(g, normal, normal, ++seed);
      const ConvReference reference = reference_of(g, precision, data, true);
      for (int tile = 0; tile < count; ++tile) {
        for (const auto& [multicast, splits] : {std::pair{1, 1}, {2, 1}, {1, 3}}) {
          const KernelOptions options =
              with_chain(precision, of[seed % of.size()], {.tile = tile, .splits = splits, .multicast = multicast});
          if (!choice_of(g, options)) continue;
          ++seed;
          expect_contract(g, options, data, true, reference);
        }
      }
    }
  }
}

TEST_F(ChannelsLast, ChainsOnEveryTile) { expect_on_every_tile(precisions, chains, 9000); }

TEST_F(ChannelsLast, SumsOnEveryTile) { expect_on_every_tile(precisions, sums, 9200); }

TEST_F(ChannelsLast, LateSumsOnEveryTile) { expect_on_every_tile(halves, late_sums, 9300); }

TEST_F(ChannelsLast, SumsOfEveryKind) {
  unsigned seed = 9700;
  for (const Precision precision : halves) {
    for (const PointwiseChain& chain : late_sums) {
      for (const Case& c : nhwc_cases) {
        const ConvGeometry g = geometry_of(c);
        expect_contract(g, with_chain(precision, chain), draw(g, normal, normal, ++seed), true);
      }
    }
  }
  for (const Precision precision : precisions) {
    const bool every = size_of(storage_type(precision)) == 2;  // in f32 each case has one of the chains
    for (std::size_t chain = 0; chain < std::size(sums); ++chain) {
      for (std::size_t i = 0; i < nhwc_cases.size(); ++i) {
        if (!every && i % std::size(sums) != chain) continue;
        const ConvGeometry g = geometry_of(nhwc_cases[i]);
        expect_contract(g, with_chain(precision, sums[chain]), draw(g, normal, normal, ++seed), true);
      }
    }
  }
}

// Many tiles for each block, so that what is added is brought ahead of its tile.
TEST_F(ChannelsLast, SumsOfManyTiles) {
  const ConvGeometry g = geometry_of(conv("n9 64x56x56 -> 256"));
  for (const Precision precision : precisions) {
    expect_contract(g, with_chain(precision, sums[1]), draw(g, normal, normal, 5), true);
    if (size_of(storage_type(precision)) > 2) continue;
    for (const PointwiseChain& chain : late_sums)
      expect_contract(g, with_chain(precision, chain), draw(g, normal, normal, 5), true);
  }
}

TEST_F(ChannelsLast, ChainsOfEveryKind) {
  unsigned seed = 9500;
  for (const Precision precision : precisions) {
    for (const PointwiseChain& chain : chains) {
      for (const std::size_t i : {0u, 1u, 9u, 14u, 15u}) {
        const ConvGeometry g = geometry_of(nhwc_cases[i]);
        expect_contract(g, with_chain(precision, chain), draw(g, normal, normal, ++seed), true);
      }
    }
  }
}

TEST_F(ChannelsLast, ChainsOfWhatIsNotFinite) {
  const ConvGeometry g = geometry_of(nhwc_cases[5]);
  for (const Precision precision : precisions) {
    for (const int splits : {1, 2}) {
      ConvData data = draw(g, normal, positive, 11);
      data.x[0] = infinity, data.x[17] = -infinity, data.x[40] = std::nanf(""), data.x[data.x.size() - 1] = infinity;
      const Tuning tuning = {.splits = splits, .multicast = 1};
      expect_contract(g, with_chain(precision, chains[0], tuning), data, true);
      for (const PointwiseChain& chain : sums) expect_contract(g, with_chain(precision, chain, tuning), data, true);
      if (size_of(storage_type(precision)) > 2) continue;
      for (const PointwiseChain& chain : late_sums)
        expect_contract(g, with_chain(precision, chain, tuning), data, true);
    }
  }
}

}  // namespace
}  // namespace lamina::test::chain_test
