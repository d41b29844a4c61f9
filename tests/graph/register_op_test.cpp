// Modules of a program's own: saved, loaded, run.

#include "lamina/ops/register_op.h"

#include "lamina/graph/graph.h"
#include "lamina/graph/model.h"
#include "lamina/layers/conv2d.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::test::register_op_test {
namespace {

/// y = by · x + offset of each channel, in rows that threads share out.
class Shift final : public Module {
 public:
  explicit Shift(std::int64_t channels, double by = 1, std::string name = "test.shift") : by_(by), name_(name) {
    add_parameter("offset", {channels});
  }
  std::string_view op() const override { return name_; }
  Attributes attributes() const override { return {{"by", by_}}; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation& p) const override { return p.is_plain(); }
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override {
    struct Shifting : Operator {
      Tensor offset;
      double by = 1;
      int threads = 1;
      std::string description() const override { return "shifts"; }
      void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
        const std::int64_t channels = offset.numel(), plane = inputs[0].numel() / channels / inputs[0].shape()[0];
        execution.parallel_for(inputs[0].shape()[0] * channels, [&](std::int64_t row, int worker) {
          EXPECT_LT(worker, threads);
          const float* x = inputs[0].values<float>().data() + row * plane;
          float* y = outputs[0].values<float>().data() + row * plane;
          const float add = offset.values<float>()[static_cast<std::size_t>(row % channels)];
          for (std::int64_t i = 0; i < plane; ++i) y[i] = static_cast<float>(by) * x[i] + add;
        });
      }
    };
    require_parameters();
    auto made = std::make_unique<Shifting>();
    made->offset = parameter("offset");
    made->by = by_;
    made->threads = preparation.threads;
    return made;
  }

 private:
  double by_;
  std::string name_;
};

std::shared_ptr<Module> make_shift(const NodeSpec& node) {
  AttributeReader attributes(node.attributes);
  const double by = attributes.number("by", 1);
  attributes.finish();
  const auto offset = node.parameter_shape("offset");
  if (!offset) throw Error("test.shift: the file has no tensor \"offset\" for this node");
  return std::make_shared<Shift>((*offset)[0], by);
}

Graph shifting(const std::string& op = "test.shift") {
  Graph graph;
  Value x = graph.input("x", {batch, 3, 4, 5});
  auto shift = std::make_shared<Shift>(3, 2.5, op);
  shift->set_parameter("offset", Tensor::from<float>({1, 2, 3}, {3}));
  x = graph.add("shift", shift, {&x, 1});
  graph.output(x);
  return graph;
}

/// Once for the program: the names stay.
void register_shift() {
  static const bool once = [] {
    register_op("test.shift", make_shift);
    return true;
  }();
  EXPECT_TRUE(once);
}

TEST(RegisterOp, AModuleThatIsSavedIsLoadedAndRuns) {
  const TemporaryDirectory dir;
  shifting().save(dir / "m");
  const auto load = [&] { return Graph::load(dir / "m"); };
  register_shift();
  const Graph graph = load();
  for (const int threads : {1, 3}) {
    Plan plan = graph.compile({.batch = 2, .threads = threads});
    Tensor x({2, 3, 4, 5});
    for (std::int64_t i = 0; i < x.numel(); ++i) x.values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
    const Tensor y = plan.run(x);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      ASSERT_EQ(y.values<float>()[static_cast<std::size_t>(i)],
                2.5f * static_cast<float>(i) + static_cast<float>(i / 20 % 3 + 1));
    }
  }
  EXPECT_EQ(read_file(dir / "m"), [&] {
    graph.save(dir / "again");
    return read_file(dir / "again");
  }());
}

TEST(RegisterOp, ALayerThatPreparesNothingIsNamed) {
  struct Unprepared : Module {
    std::string_view op() const override { return "test.unprepared"; }
    Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
    bool takes(const Preparation& p) const override { return p.is_plain(); }
    std::unique_ptr<Operator> prepare(const Preparation&) const override { return nullptr; }
  };
  Graph g;
  g.output(g.add("none", Unprepared(), g.input("input", {batch, 2})));
  expect_error([&] { (void)g.compile(); }, {"none: test.unprepared: ", "expected an operator", "got null"});
}

TEST(RegisterOp, WhatALayerThrowsIsAnErrorInItsNode) {
  auto meddler = std::make_shared<Meddler>();
  Graph g;
  const Value x = g.input("input", {batch, 2});
  g.output(g.add("mine", meddler, {&x, 1}));
  Plan plan = g.compile({.threads = 1});
  const auto kind_of_run = [&] {
    try {
      (void)plan.run(Tensor::zeros({1, 2}));
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).substr(0, 6), "mine: ") << error.what();
      return error.kind();
    }
    return ErrorKind::stopped;
  };
  meddler->meanwhile = [](const Tensor&) { (void)std::vector<int>().at(1); };
  EXPECT_EQ(kind_of_run(), ErrorKind::failed);
  try {
    (void)plan.profile(std::vector<Tensor>{Tensor::zeros({1, 2})}, 1);
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
  meddler->meanwhile = [](const Tensor&) { throw std::bad_alloc(); };
  EXPECT_EQ(kind_of_run(), ErrorKind::out_of_memory);

  struct Picky : Meddler {
    bool takes(const Preparation&) const override { throw std::logic_error("picky"); }
  };
  struct Broken : Meddler {
    std::unique_ptr<Operator> prepare(const Preparation&) const override { throw std::logic_error("broken"); }
  };
  for (const bool picky : {false, true}) {
    Graph other;
    const Value y = other.input("input", {batch, 2});
    other.output(picky ? other.add("mine", Picky(), y) : other.add("mine", Broken(), y));
    expect_error([&] { (void)other.compile(); }, {picky ? "mine: picky" : "mine: broken"});
  }
}

TEST(RegisterOp, WhatIsNotRegisteredIsNamed) {
  const TemporaryDirectory dir;
  shifting("test.unknown").save(dir / "m");
  expect_error([&] { Graph::load(dir / "m"); }, {"shift: ", "unknown op \"test.unknown\"",
                                                 "register_op, before the model is loaded", "docs/custom_layers.md"});
}

TEST(RegisterOp, NamesAreTakenOnce) {
  register_shift();
  expect_error([&] { register_op("test.shift", make_shift); }, {"there is an op \"test.shift\" already"});
  for (const char* name : {"", "mine", "conv2d", "Constant", "HardSwish"}) {
    expect_error([&] { register_op(name, make_shift); }, {"expected a name with a dot", name});
  }
  expect_error([] { register_op("test.null", nullptr); }, {"\"test.null\"", "null"});
}

TEST(RegisterOp, WhatItMakesMustBeReadableAgain) {
  const TemporaryDirectory dir;
  shifting("test.nothing").save(dir / "nothing");
  shifting("test.other").save(dir / "other");
  register_op("test.nothing", [](const NodeSpec&) { return nullptr; });
  register_op("test.other", make_shift);
  expect_error([&] { Graph::load(dir / "nothing"); }, {"shift: ", "\"test.nothing\"", "got null"});
  expect_error([&] { Graph::load(dir / "other"); }, {"shift: ", "\"test.other\"", "op() is \"test.shift\""});
}

TEST(RegisterOp, AttributesAndParametersAreChecked) {
  register_shift();
  const TemporaryDirectory dir;
  shifting().save(dir / "m");
  const Weights good = Weights::open(dir / "m");
  const auto changed = [&](const std::string& from, const std::string& to) {
    Weights weights = good;
    std::string& graph = weights.metadata()["lamina.graph"];
    graph.replace(graph.find(from), from.size(), to);
    weights.save(dir / "changed");
    return [&dir] { Graph::load(dir / "changed"); };
  };
  expect_error(changed("\"by\"", "\"bye\""), {"shift: ", "bye"});
  expect_error(changed("2.5", "\"2.5\""), {"shift: ", "by"});
  Weights without;
  without.metadata() = good.metadata();
  expect_error([&] { (void)model_from(without); }, {"shift: ", "\"offset\""});
}

TEST(RegisterOp, ThreadsMayRegisterAndLoadAtOnce) {
  register_shift();
  const TemporaryDirectory dir;
  shifting().save(dir / "m");
  std::atomic<int> loaded{0}, taken{0};
  in_threads(4, [&](std::size_t) {
    for (int i = 0; i < 20; ++i) {
      loaded += Graph::load(dir / "m").nodes().size() == 2;
      try {
        register_op("test.thread" + std::to_string(i), make_shift);
      } catch (const Error&) {
        ++taken;
      }
    }
  });
  EXPECT_EQ(loaded, 80);
  EXPECT_EQ(taken, 60);  // each name was free once
}

TEST(Execution, WithoutThreadsTheCallerDoesAll) {
  std::vector<int> done(5);
  Execution{}.parallel_for(
      5, [&](std::int64_t index, int worker) { done[static_cast<std::size_t>(index)] += 1 + worker; });
  EXPECT_EQ(done, std::vector<int>(5, 1));
}

}  // namespace
}  // namespace lamina::test::register_op_test
