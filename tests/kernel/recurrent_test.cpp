// Steps of recurrent layers on every device.

#include "kernel/recurrent_reference.h"

#include "lamina/base/error.h"
#include "lamina/cpu/recurrent/recurrent.h"

namespace lamina::test::recurrent_test {
namespace {

void check(const RecurrentCase& c, Device device, DType type = DType::f32, RunOptions options = {}) {
  const RecurrentProblem& p = c.problem;
  const std::string what = detail::concat(
      "cell ", static_cast<int>(p.cell), ", directions ", p.directions, ", reverse ", p.reverse, ", units ", p.hidden,
      ", steps ", c.steps, ", images ", c.images, ", reset after ", p.reset_after, ", initial ", p.initial,
      ", lengths ", p.lengths, ", threads ", options.threads, ", ", type, " on ", device);
  RecurrentCase stored = c;
  for (Tensor& input : stored.inputs) {
    if (is_float(input.dtype())) input = input.to(type);
  }
  const bool rounds = options.precision == Precision::bf16;
  if (rounds) stored.problem.weight = stored.problem.weight.to(DType::bf16).to(DType::f32);
  const ProblemRun<RecurrentProblem> run(c.problem, stored.inputs, c.output(), type, device, options);
  ASSERT_TRUE(run.taken()) << what;
  std::vector<Truth> truth;
  // A step's h is what is stored: its rounding goes on with it.
  const double share = c.problem.scale.defined() ? 2e-2 : type == DType::f32 ? 1e-5 : 16 * rounding(type);
  for (const double value : recurrent_reference(stored)) truth.push_back({value, share * (1 + std::abs(value))});
  const Tensor found = run.run();
  expect_near(found, truth, what);
  EXPECT_EQ(std::memcmp(found.raw(), run.run().raw(), found.bytes()), 0) << what << ": other bits";
}

std::vector<RecurrentProblem> every_cell() {
  std::vector<RecurrentProblem> cells = {{.cell = Cell::lstm}, {.cell = Cell::gru}, {.cell = Cell::rnn}};
  cells.push_back({.cell = Cell::gru, .reset_after = true});
  return cells;
}

TEST(Recurrent, EveryCellAndDirection) {
  for (const Device device : devices_here()) {
    for (RecurrentProblem problem : every_cell()) {
      for (const int direction : {0, 1, 2}) {
        problem.directions = direction == 2 ? 2 : 1, problem.reverse = direction == 1;
        for (const std::int64_t hidden : {1, 7, 16, 33, 64}) {
          problem.hidden = hidden, problem.initial = hidden % 2 != 0;
          for (const DType type : float_types(device)) {
            check(draw_recurrent(problem, 5, 3, 1), device, type);
            check(draw_recurrent(problem, 3, 1, 2), device, type);
            check(draw_recurrent(problem, 4, 5, 3, {4, 0, 1, 3, 2}), device, type);
          }
        }
      }
    }
  }
}

TEST(Recurrent, LargeOnesAreSharedOut) {
  for (const Device device : devices_here()) {
    for (RecurrentProblem problem : every_cell()) {
      problem.hidden = 400, problem.initial = true;
      for (const int threads : {1, 3}) {
        check(draw_recurrent(problem, 3, 1, 1), device, DType::f32, {.threads = threads});
        check(draw_recurrent(problem, 3, 9, 2), device, DType::f32, {.threads = threads});
      }
    }
    check(draw_recurrent({.cell = Cell::lstm, .directions = 2, .hidden = 1030}, 2, 2, 1), device);
    check(draw_recurrent({.cell = Cell::lstm, .hidden = 32}, 300, 2, 1), device);
  }
}

TEST(Recurrent, FunctionsClipsAndPeepholes) {
  const auto f = [](Pointwise function, double a = 0, double b = 0) {
    return PointwiseStep{.function = function, .a = a, .b = b};
  };
  for (const Device device : devices_here()) {
    RecurrentProblem problem = {.cell = Cell::lstm, .directions = 2, .hidden = 19, .input_forget = true, .clip = 0.7f};
    problem.peepholes = draw_floats({2, 57}, 9);
    problem.functions = {
        f(Pointwise::hard_sigmoid, 0.2, 0.5), f(Pointwise::tanh), f(Pointwise::relu), f(Pointwise::sigmoid),
        f(Pointwise::hard_sigmoid, 0.4, 0.3), f(Pointwise::tanh)};
    check(draw_recurrent(problem, 4, 2, 1), device);
    problem.input_forget = false;
    check(draw_recurrent(problem, 4, 2, 2), device);
    RecurrentProblem gru = {.cell = Cell::gru, .hidden = 19, .clip = 0.5f};
    gru.functions = {f(Pointwise::hard_sigmoid, 0.2, 0.5), f(Pointwise::relu)};
    check(draw_recurrent(gru, 4, 2, 3), device);
    gru.reset_after = true;
    check(draw_recurrent(gru, 4, 2, 4), device);
  }
}

/// Codes of h that lie between two are the other one in double precision now and then.
TEST(Recurrent, WeightsAndStatesInCodes) {
  for (const Device device : devices_here()) {
    for (const std::int64_t hidden : {1, 20, 70, 400}) {
      const RecurrentProblem problem = {.cell = Cell::lstm, .directions = 2, .hidden = hidden, .initial = true};
      for (const DType type : float_types(device)) {
        check(draw_recurrent(problem, 4, 1, 1, {}, true), device, type, {.threads = 3});
        check(draw_recurrent(problem, 4, 5, 2, {4, 0, 1, 3, 2}, true), device, type);
      }
    }
  }
}

/// A GPU without clusters launches each step by itself.
TEST(Recurrent, StepByStepOnOlderGpus) {
  for (const Device device : devices_here()) {
    if (device.is_cpu()) continue;
    for (RecurrentProblem problem : every_cell()) {
      problem.hidden = 37, problem.directions = 2;
      check(draw_recurrent(problem, 4, 5, 1, {4, 0, 1, 3, 2}), device, DType::f16,
            {.description = detail::limited_to(80, describe(device))});
    }
  }
}

/// An image's bits are its own, whichever others run with it, and by whichever threads.
TEST(Recurrent, BitsOfAnImageDoNotDependOnOthers) {
  for (RecurrentProblem problem : every_cell()) {
    problem.hidden = 200, problem.directions = 2;
    RecurrentCase one = draw_recurrent(problem, 3, 1, 1), many = draw_recurrent(problem, 3, 7, 1);
    many.problem = one.problem;
    const std::int64_t row = one.inputs[0].numel() / 3;
    for (std::int64_t i = 0; i < 21; ++i) {
      std::copy_n(one.inputs[0].values<float>().data() + i / 7 * row, row,
                  many.inputs[0].values<float>().data() + i * row);
    }
    const Tensor alone = run_problem(one.problem, one.inputs, one.output(), DType::f32, Device::cpu(), {.threads = 3});
    const Tensor beside = run_problem(many.problem, many.inputs, many.output(), DType::f32, Device::cpu());
    const std::int64_t units = 2 * problem.hidden, rows = many.output()[0] * 7;
    for (std::int64_t i = 0; i < rows; ++i) {
      ASSERT_EQ(std::memcmp(alone.values<float>().data() + i / 7 * units, beside.values<float>().data() + i * units,
                            static_cast<std::size_t>(units) * sizeof(float)),
                0)
          << "image " << i % 7 << ", row " << i / 7 << ", cell " << static_cast<int>(problem.cell);
    }
  }
}

TEST(Recurrent, EveryInstructionSet) {
  for (const cpu::RecurrentKernel& kernel : cpu::recurrent_kernels()) {
    DeviceDescription description = describe(Device::cpu());
    description.instructions = kernel.set;
    for (RecurrentProblem problem : every_cell()) {
      problem.hidden = 37, problem.directions = 2;
      check(draw_recurrent(problem, 3, 5, 1), Device::cpu(), DType::f32, {.description = description});
      check(draw_recurrent(problem, 3, 1, 1), Device::cpu(), DType::f32,
            {.precision = Precision::bf16, .description = description});
    }
  }
}

TEST(Recurrent, NothingToCompute) {
  for (const Device device : devices_here()) {
    for (RecurrentProblem problem : every_cell()) {
      problem.hidden = 5;
      check(draw_recurrent(problem, 0, 2, 1), device);
      check(draw_recurrent(problem, 3, 0, 1), device);
    }
  }
}

/// NaN stays with its image and direction, from its step on.
TEST(Recurrent, NanStaysWithItsImage) {
  for (const Device device : devices_here()) {
    for (RecurrentProblem problem : every_cell()) {
      problem.hidden = 9;
      RecurrentCase c = draw_recurrent(problem, 3, 2, 1);
      for (std::int64_t gate = 0; gate < problem.gates() * 9; ++gate)  // of image 1 at step 1
        c.inputs[0].values<float>()[static_cast<std::size_t>(3 * problem.gates() * 9 + gate)] = NAN;
      const std::vector<double> found = doubles(run_problem(c.problem, c.inputs, c.output(), DType::f32, device));
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_EQ(std::isnan(found[i]), i / 9 % 2 == 1 && i / 18 >= 1) << "element " << i << " on " << device;
    }
  }
}

TEST(Recurrent, LengthsOutsideAreErrors) {
  for (const std::int64_t wrong : {-1, 4, 1 << 30}) {
    const RecurrentCase c = draw_recurrent({.cell = Cell::gru, .hidden = 4}, 3, 2, 1, {2, wrong});
    try {
      (void)run_problem(c.problem, c.inputs, c.output(), DType::f32, Device::cpu());
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                detail::concat("a sequence of length ", wrong, ": expected 0 to 3, as many as there are steps"));
    }
  }
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  const RecurrentCase c = draw_recurrent({.cell = Cell::lstm, .hidden = 4, .initial = true}, 3, 2, 1, {2, 3});
  for (const Device device : devices_here()) {
    const auto taken = [&](std::vector<Tensor> inputs, const Shape& output, DType type = DType::f32) {
      return ProblemRun<RecurrentProblem>(c.problem, inputs, output, type, device).taken();
    };
    EXPECT_TRUE(taken(c.inputs, c.output()));
    EXPECT_FALSE(taken(c.inputs, {4, 2, 4}));
    EXPECT_FALSE(taken(c.inputs, c.output(), DType::f64));
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      std::vector<Tensor> fewer = c.inputs, other = c.inputs, wide = c.inputs;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      other[i] = Tensor({1, 1, 1});
      wide[i] = wide[i].to(DType::f64);
      EXPECT_FALSE(taken(fewer, c.output())) << i;
      EXPECT_FALSE(taken(other, c.output())) << i;
      EXPECT_FALSE(taken(wide, c.output())) << i;
    }
  }
}

}  // namespace
}  // namespace lamina::test::recurrent_test
