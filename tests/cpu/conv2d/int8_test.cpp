// Every engine for eight bits, and the model of AMX's, beside the plain loops: the same bits.

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <tuple>

#include "cpu/amx_model.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/conv2d/int8/kernels.h"
#include "lamina/cpu/conv2d/lanes/lanes.h"
#include "support/conv_cases.h"
#include "support/guarded.h"
#include "support/problem_data.h"

namespace lamina::test::int8_test {
namespace {

/// Runs operators on the same random codes, each within memory of its own.
class Runs {
 public:
  Runs(const View& input, const View& output, ThreadPool& pool)
      : output_(output), pool_(pool), memory_(input.shape.numel()) {
    const Tensor bytes = random_codes(input.shape, input.format.dtype, 2);
    input_ = Tensor::borrow(memory_.data(), input.shape, input.format.dtype);
    std::memcpy(memory_.data(), bytes.raw(), bytes.bytes());
  }

  Tensor operator()(const Operator& op, const Tensor& added = {}) {
    const DType type = output_.format.dtype;
    cpu::Guarded<float> workspace(cpu::whole_lines(static_cast<std::int64_t>(op.workspace_bytes()) / 4 + 1));
    cpu::Guarded<std::uint8_t> memory(output_.shape.numel() * static_cast<std::int64_t>(size_of(type)));
    Tensor y = Tensor::borrow(memory.data(), output_.shape, type);
    const Tensor inputs[] = {input_, added};
    op.run(std::span(inputs).first(added.defined() ? 2 : 1), {&y, 1}, {.pool = &pool_, .workspace = workspace.data()});
    return y.clone();
  }

  /// The same images, nchw.
  void turn_to_planes() {
    const std::int64_t batch = input_.shape()[0], channels = input_.shape()[1],
                       pixels = input_.numel() / batch / channels;
    const Tensor before = input_.clone();
    const auto* from = static_cast<const std::uint8_t*>(before.raw());
    for (std::int64_t i = 0; i < input_.numel(); ++i) {
      const std::int64_t image = i / (channels * pixels), channel = i / pixels % channels, pixel = i % pixels;
      memory_.data()[i] = from[(image * pixels + pixel) * channels + channel];
    }
  }

 private:
  const View& output_;
  ThreadPool& pool_;
  cpu::Guarded<std::uint8_t> memory_;
  Tensor input_;
};

ConvProblem random_problem(const ConvGeometry& g) {
  ConvProblem problem = {.geometry = g};
  problem.eight.weight =
      random_codes({g.out_channels, g.group_in_channels(), g.kernel_height, g.kernel_width}, DType::i8, 1);
  problem.eight.scale = Tensor({g.out_channels});
  for (float& scale : problem.eight.scale.values<float>()) scale = 0.0013f;
  return problem;
}

View pixels(std::int64_t batch, int channels, int height, int width, DType type, Quantization codes) {
  return {.shape = {batch, channels, height, width}, .format = {type, Layout::nhwc}, .quantization = codes};
}

/// By every engine, and the model of AMX's.
void expect_bits(const Tensor& expected, const ConvProblem& problem, const Preparation& p, Runs& run,
                 const Tensor& added = {}) {
  const DType type = p.input().format.dtype;
  for (const auto& engines : {amx_models(), cpu::bf16::engines(type)}) {
    for (const cpu::bf16::Engine& engine : engines) {
      if (engine.operand != type) continue;
      const Tensor y = run(*cpu::int8::prepare_with(problem, p, engine), added);
      EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), y.bytes()), 0)
          << problem.geometry.in_channels << " to " << problem.geometry.out_channels << ", "
          << problem.geometry.kernel_height << ", " << type << " to " << p.output().format.dtype << ", " << engine.what
          << ' ' << name(engine.set) << ", " << name(p.device.instructions);
    }
  }
}

TEST(Int8Engines, HaveTheBitsOfThePlainLoops) {
  const ConvCase layers[] = {square(2, 64, 6, 7, 48, 1, 1, 0, 1, 1), square(2, 130, 5, 9, 33, 1, 1, 0, 1, 1),
                             square(2, 68, 4, 8, 32, 1, 1, 0, 1, 1), square(2, 3, 15, 16, 40, 7, 2, 3, 1, 1),
                             square(2, 36, 7, 6, 20, 3, 1, 1, 1, 1), square(2, 128, 9, 8, 64, 3, 2, 1, 1, 1),
                             square(2, 32, 9, 9, 32, 3, 1, 2, 2, 1), square(2, 48, 6, 6, 24, 3, 1, 1, 1, 3),
                             square(2, 5, 8, 4, 7, 5, 1, 2, 1, 1),   square(2, 256, 9, 9, 16, 1, 2, 0, 1, 1)};
  ThreadPool pool(2);
  for (const ConvCase& l : layers) {
    const ConvGeometry g = geometry_of(l);
    ConvProblem problem = random_problem(g);
    problem.epilogue.chain = {{Pointwise::relu}};
    for (const DType type : {DType::u8, DType::i8}) {
      const View input =
          pixels(2, g.in_channels, g.in_height, g.in_width, type, {0.02f, type == DType::u8 ? 119 : -11});
      for (const auto& [result, codes] :
           {std::pair(DType::u8, Quantization{0.3f, 9}), std::pair(DType::u8, Quantization{1e-12f, 130}),
            std::pair(DType::i8, Quantization{0.3f, -7}), std::pair(DType::f32, Quantization{})}) {
        const View output = pixels(2, g.out_channels, g.out_height, g.out_width, result, codes);
        const Preparation p = {
            .inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu()), .threads = 2};
        Runs run(input, output, pool);
        const Tensor expected = run(*cpu::int8::prepare_direct(problem, p));
        expect_bits(expected, problem, p, run);
        View planes = input;
        planes.format.layout = Layout::nchw;
        Preparation of_planes = p;
        of_planes.inputs = {&planes, 1};
        EXPECT_EQ(cpu::int8::takes(cpu::bf16::Unit::multiply_add, problem, of_planes), g.in_channels % 2 != 0);
        if (g.in_channels % 2 == 0) continue;
        run.turn_to_planes();
        expect_bits(expected, problem, of_planes, run);
      }
    }
  }
}

/// A sum in a product's end: of the plain loops' codes and the others, what the formula has for both.
TEST(Int8Engines, AddOtherCodes) {
  using enum DType;
  ThreadPool pool(2);
  for (const ConvCase& l : {square(2, 64, 6, 7, 48, 1, 1, 0, 1, 1), square(2, 36, 7, 6, 23, 3, 1, 1, 1, 1),
                            square(2, 5, 8, 4, 7, 5, 1, 2, 1, 1)}) {
    const ConvGeometry g = geometry_of(l);
    ConvProblem problem = random_problem(g);
    // The first scales have a line that gives all codes of the sum, of the last ones none does.
    using Scales = std::array<float, 3>;
    for (const auto& [own, other, result, scales] : {std::tuple(u8, u8, u8, Scales{0.031f, 0.043f, 0.027f}),
                                                     std::tuple(i8, u8, i8, Scales{0.031f, 0.043f, 0.027f}),
                                                     std::tuple(u8, i8, u8, Scales{0.031f, 0.043f, 0.027f}),
                                                     std::tuple(i8, u8, i8, Scales{0.016f, 0.014f, 0.02f})}) {
      const auto zero = [](DType type) { return type == u8 ? 121 : -13; };
      View output = pixels(2, g.out_channels, g.out_height, g.out_width, own, {scales[0], zero(own)});
      const View inputs[] = {pixels(2, g.in_channels, g.in_height, g.in_width, u8, {0.02f, 119}),
                             pixels(2, g.out_channels, g.out_height, g.out_width, other, {scales[1], zero(other)})};
      Preparation p = {.inputs = {inputs, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu()), .threads = 2};
      problem.epilogue = {};
      Tensor expected = Runs(inputs[0], output, pool)(*cpu::int8::prepare_direct(problem, p));
      problem.epilogue.chain = {to_codes(own, output.quantization), {.function = Pointwise::add, .operand = 1}};
      if (other == u8) problem.epilogue.chain.push_back({.function = Pointwise::clip, .a = -0.7, .b = 2.9});
      output = pixels(2, g.out_channels, g.out_height, g.out_width, result, {scales[2], zero(result)}),
      p.inputs = inputs;
      Runs run(inputs[0], output, pool);
      const Tensor added = random_codes(output.shape, other, 3);
      const std::vector<std::uint8_t> table = detail::table_of_sums(problem, p);
      auto* const codes = static_cast<std::uint8_t*>(expected.raw());
      for (std::size_t i = 0; i < expected.bytes(); ++i) {
        codes[i] = table[std::size_t{256} * codes[i] + static_cast<const std::uint8_t*>(added.raw())[i]];
      }
      for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2, InstructionSet::scalar}) {
        p.device.instructions = set;
        ASSERT_TRUE(cpu::int8::takes(cpu::bf16::Unit::multiply_add, problem, p));
        expect_bits(expected, problem, p, run, added);
      }
    }
  }
}

/// Codes that nobody reads as such: what the formula has for those of the plain loops.
TEST(Int8Engines, WriteWhatTheirCodesStandFor) {
  ThreadPool pool(2);
  for (const ConvCase& l : {square(2, 64, 6, 7, 48, 1, 1, 0, 1, 1), square(2, 36, 7, 6, 23, 3, 1, 1, 1, 1),
                            square(2, 5, 8, 4, 7, 5, 1, 2, 1, 1)}) {
    const ConvGeometry g = geometry_of(l);
    for (const DType type : {DType::u8, DType::i8}) {
      ConvProblem problem = random_problem(g);
      const Quantization codes = {0.031f, type == DType::u8 ? 121 : -13};
      const View input =
                     pixels(2, g.in_channels, g.in_height, g.in_width, type, {0.02f, type == DType::u8 ? 119 : -11}),
                 rounded = pixels(2, g.out_channels, g.out_height, g.out_width, type, codes),
                 output = pixels(2, g.out_channels, g.out_height, g.out_width, DType::f32, {});
      Preparation p = {
          .inputs = {&input, 1}, .outputs = {&rounded, 1}, .device = describe(Device::cpu()), .threads = 2};
      const Tensor alone = Runs(input, rounded, pool)(*cpu::int8::prepare_direct(problem, p)).to(DType::f32);
      Tensor expected(output.shape);
      std::ranges::transform(alone.values<float>(), expected.values<float>().begin(),
                             [&](float code) { return (code - static_cast<float>(codes.zero_point)) * codes.scale; });
      problem.epilogue.chain = {to_codes(type, codes)}, p.outputs = {&output, 1};
      Runs run(input, output, pool);
      for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2, InstructionSet::scalar}) {
        p.device.instructions = set;
        const Tensor plain = run(*cpu::int8::prepare_direct(problem, p));
        EXPECT_EQ(std::memcmp(plain.raw(), expected.raw(), plain.bytes()), 0) << name(set);
        expect_bits(expected, problem, p, run);
      }
    }
  }
}

/// By fours of rows where there is AVX512-VNNI, by multiply-adds of f32 elsewhere.
TEST(Int8Engines, DepthwiseLayersHaveTheBitsOfThePlainLoops) {
  ThreadPool pool(2);
  for (const int channels : {5, 32, 64, 96, 131}) {
    for (const auto& [kernel, stride, width] : {std::array{3, 1, 1}, std::array{3, 1, 14}, std::array{3, 2, 13},
                                                std::array{5, 1, 9}, std::array{5, 2, 15}, std::array{7, 1, 11}}) {
      ConvCase layer = square(2, channels, 7, width, channels, kernel, stride, kernel / 2, 1, channels);
      const ConvGeometry g = geometry_of(layer);
      const ConvProblem problem = random_problem(g);
      for (const DType type : {DType::u8, DType::i8}) {
        for (const float out_scale : {0.02f, 1e-5f}) {  // by a factor of more than a half, too
          const View input = pixels(2, channels, g.in_height, g.in_width, type, {0.02f, type == DType::u8 ? 119 : -11});
          const View output =
              pixels(2, channels, g.out_height, g.out_width, type, {out_scale, type == DType::u8 ? 9 : -5});
          Preparation p = {
              .inputs = {&input, 1}, .outputs = {&output, 1}, .device = describe(Device::cpu()), .threads = 2};
          Runs run(input, output, pool);
          const Tensor expected = run(*cpu::int8::prepare_direct(problem, p));
          for (const bool fours : {true, false}) {
            p.device.avx512_vnni &= fours;
            const Tensor y = run(*cpu::prepare_lanes(type, problem, p));
            EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), y.bytes()), 0)
                << channels << " channels, " << kernel << ", stride " << stride << ", " << width << " columns, "
                << type;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lamina::test::int8_test
