#include "lamina/cpu/linear/linear.h"

#include <gtest/gtest.h>

#include <memory>

#include "lamina/cpu/reference.h"
#include "support/conv_cases.h"
#include "support/guarded.h"

namespace lamina::cpu::linear_test {
namespace {

struct Case {
  std::int64_t rows, in, out;
  DType type = DType::f32;
  bool relu = false;
  bool bias = true;
};

/// The weights as the kernel reads them, in guarded memory, and what they are worth.
class StoredWeights {
 public:
  StoredWeights(std::vector<float> weights, DType type) : values(std::move(weights)) {
    const auto count = static_cast<std::int64_t>(values.size());
    if (type == DType::f32) {
      floats_ = std::make_unique<Guarded<float>>(values);
    } else {
      words_ = std::make_unique<Guarded<std::uint16_t>>(count);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const half h = to_half(values[i]);
        const bfloat16 b = to_bfloat16(values[i]);
        (*words_)[i] = type == DType::f16 ? h.bits : b.bits;
        values[i] = type == DType::f16 ? to_float(h) : to_float(b);
      }
    }
  }

  const void* data() const { return floats_ ? static_cast<const void*>(floats_->data()) : words_->data(); }

  std::vector<float> values;

 private:
  std::unique_ptr<Guarded<float>> floats_;
  std::unique_ptr<Guarded<std::uint16_t>> words_;
};

void check(const LinearKernel& kernel, const Case& c, test::Values values) {
  SCOPED_TRACE(std::string(name(kernel.set)) + ": " + std::to_string(c.rows) + " rows, " + std::to_string(c.in) +
               " -> " + std::to_string(c.out) + " as " + std::string(name(c.type)));
  Guarded<float> input(test::draw(c.rows * c.in, values, 1));
  const StoredWeights weight(test::draw(c.out * c.in, values, 2), c.type);
  Guarded<float> bias(test::draw(c.out, values, 3));
  Guarded<float> output(c.rows * c.out);
  Guarded<float> workspace(
      whole_lines(static_cast<std::int64_t>(linear_workspace(kernel, c.rows, c.in) / sizeof(float))));
  ThreadPool pool(2);
  linear(kernel, c.rows, c.in, c.out,
         {.input = input.data(),
          .weight = weight.data(),
          .bias = c.bias ? bias.data() : nullptr,
          .output = output.data(),
          .relu = c.relu,
          .weight_type = c.type},
         pool, workspace.data());
  for (std::int64_t r = 0; r < c.rows; ++r) {
    for (std::int64_t o = 0; o < c.out; ++o) {
      double sum = c.bias ? static_cast<double>(bias[static_cast<std::size_t>(o)]) : 0, scale = std::abs(sum);
      for (std::int64_t k = 0; k < c.in; ++k) {
        const double product = static_cast<double>(input[static_cast<std::size_t>(r * c.in + k)]) *
                               static_cast<double>(weight.values[static_cast<std::size_t>(o * c.in + k)]);
        sum += product;
        scale += std::abs(product);
      }
      if (c.relu) sum = std::max(sum, 0.0);
      const double found = static_cast<double>(output[static_cast<std::size_t>(r * c.out + o)]);
      ASSERT_LE(std::abs(found - sum), error_bound(Precision::fp32, c.in, scale)) << "row " << r << ", output " << o;
    }
  }
}

TEST(CpuLinear, EveryRemainderOfTermsOutputsAndRows) {
  for (const LinearKernel& kernel : linear_kernels()) {
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      for (std::int64_t in = 1; in <= 2 * kernel.lanes + 1; ++in) check(kernel, {3, in, 9, type}, test::Values::mixed);
      for (std::int64_t out = 1; out <= 27; ++out) check(kernel, {2, 19, out, type}, test::Values::mixed);
      for (std::int64_t rows = 1; rows <= 9; ++rows) check(kernel, {rows, 21, 13, type}, test::Values::mixed);
      // Past a block of terms, a task of outputs and a job of rows.
      check(kernel, {1, 1201, 60, type}, test::Values::mixed);
      check(kernel, {35, 530, 50, type, true}, test::Values::mixed);
      check(kernel, {65, 40, 30, type, true, false}, test::Values::mixed);
    }
  }
}

TEST(CpuLinear, KeepsTheContractOnFlatInputs) {
  for (const LinearKernel& kernel : linear_kernels()) {
    for (const test::Values values : {test::Values::positive, test::Values::equal}) {
      check(kernel, {1, 9216, 16}, values);
      check(kernel, {5, 25088, 8}, values);
      check(kernel, {5, 9216, 8, DType::bf16}, values);
    }
  }
}

TEST(CpuLinear, NanAndInfinityReachTheirRowOnly) {
  ThreadPool pool(1);
  for (const LinearKernel& kernel : linear_kernels()) {
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      constexpr std::int64_t rows = 6, in = 37, out = 11;
      std::vector<float> input = test::draw(rows * in, test::Values::positive, 1);
      input[2 * in + 36] = poison;
      const std::vector<float> weight = test::draw(out * in, test::Values::positive, 2);
      std::vector<float> output(rows * out);
      Guarded<float> workspace(
          whole_lines(static_cast<std::int64_t>(linear_workspace(kernel, rows, in) / sizeof(float))));
      linear(kernel, rows, in, out,
             {.input = input.data(), .weight = weight.data(), .output = output.data(), .relu = true}, pool,
             workspace.data());
      for (std::size_t i = 0; i < output.size(); ++i) EXPECT_EQ(std::isfinite(output[i]), i / out != 2) << i;
    }
  }
}

TEST(CpuLinear, ThreadsDoNotChangeABit) {
  ThreadPool single(1), several(3);
  const LinearKernel& kernel = linear_kernels().front();
  constexpr std::int64_t rows = 3, in = 700, out = 400;
  const std::vector<float> input = test::draw(rows * in, test::Values::mixed, 1);
  const std::vector<float> weight = test::draw(out * in, test::Values::mixed, 2);
  std::vector<float> one(rows * out), many(rows * out);
  Guarded<float> workspace(whole_lines(static_cast<std::int64_t>(linear_workspace(kernel, rows, in) / sizeof(float))));
  LinearPointers p = {.input = input.data(), .weight = weight.data(), .output = one.data()};
  linear(kernel, rows, in, out, p, single, workspace.data());
  p.output = many.data();
  linear(kernel, rows, in, out, p, several, workspace.data());
  EXPECT_EQ(one, many);
}

}  // namespace
}  // namespace lamina::cpu::linear_test
