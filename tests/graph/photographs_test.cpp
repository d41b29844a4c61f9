// Inputs that take pictures in other forms than f32 [N, 3, H, W].

#include "lamina/graph/photographs.h"

#include "lamina/ops/op.h"
#include "support/file_test.h"

namespace lamina::test::photographs_test {
namespace {

struct Case {
  Shape shape;
  DType dtype;
  std::optional<PictureInput> form;
  std::vector<float> seen;  // of two pixels (10, 20, 30) and (40, 50, 60) side by side
};

// L = 0.299 R + 0.587 G + 0.114 B, rounded where the type is one of whole numbers.
const Case cases[] = {
    {{batch, 3, 1, 2}, DType::f32, PictureInput{false, 3, 1, 2}, {10, 40, 20, 50, 30, 60}},
    {{batch, 1, 2, 3}, DType::f32, PictureInput{true, 3, 1, 2}, {10, 20, 30, 40, 50, 60}},  // an image of one row
    {{1, open, open, 3}, DType::f32, PictureInput{true, 3, open, open}, {10, 20, 30, 40, 50, 60}},
    {{batch, open, open, open}, DType::f32, PictureInput{false, 3, open, open}, {10, 40, 20, 50, 30, 60}},
    {{batch, 1, 1, 2}, DType::f32, PictureInput{false, 1, 1, 2}, {18.15f, 48.15f}},
    {{batch, 5, 7, 1}, DType::f32, PictureInput{true, 1, 5, 7}, {}},
    {{batch, 7, 5, 3}, DType::u8, PictureInput{true, 3, 7, 5}, {}},
    {{batch, 1, 1, 2}, DType::u8, PictureInput{false, 1, 1, 2}, {18, 48}},
    {{batch, 3, 1, 2}, DType::f16, PictureInput{false, 3, 1, 2}, {10, 40, 20, 50, 30, 60}},
    {{3, 1, 2}, DType::f32, PictureInput{false, 3, 1, 2}, {10, 40, 20, 50, 30, 60}},  // one picture
    {{3, open, open}, DType::f32, PictureInput{false, 3, open, open}, {10, 40, 20, 50, 30, 60}},
    {{4, 8, 8}, DType::f32, std::nullopt, {}},
    {{batch, 4, 8, 8}, DType::f32, std::nullopt, {}},
    {{batch, 3}, DType::f32, std::nullopt, {}},
};

TEST(Photographs, BecomeTheInputThatTheModelTakes) {
  const Tensor pixels = Tensor::from(std::vector<float>{10, 40, 20, 50, 30, 60}, {1, 3, 1, 2});
  for (const Case& c : cases) {
    SCOPED_TRACE(c.shape.to_string() + " " + std::string(name(c.dtype)));
    const auto form = picture_input(c.shape);
    ASSERT_EQ(form.has_value(), c.form.has_value());
    if (!form) continue;
    EXPECT_EQ(form->channels_last, c.form->channels_last);
    EXPECT_EQ(form->channels, c.form->channels);
    EXPECT_EQ(form->height, c.form->height);
    EXPECT_EQ(form->width, c.form->width);
    Graph graph;
    graph.output(graph.add("y", Op("Identity"), graph.input("x", c.shape, c.dtype)));
    if (c.seen.empty()) continue;
    const Tensor seen = as_input(pixels, graph).to(DType::f32);
    EXPECT_EQ(as_input(pixels, graph).dtype(), c.dtype);
    ASSERT_EQ(static_cast<std::size_t>(seen.numel()), c.seen.size());
    for (std::size_t i = 0; i < c.seen.size(); ++i) EXPECT_FLOAT_EQ(seen.values<float>()[i], c.seen[i]) << i;
    take_photographs(graph);
    const Graph::Node& input = graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])];
    EXPECT_EQ(input.name, "x");
    EXPECT_EQ(input.dtype, DType::f32);
    CompileOptions options{.threads = 1};
    options.input_shapes["x"] = pixels.shape();
    const Tensor found = graph.compile(options).run(pixels).to(DType::f32).clone();
    for (std::size_t i = 0; i < c.seen.size(); ++i) EXPECT_EQ(found.values<float>()[i], seen.values<float>()[i]) << i;
  }
}

TEST(Photographs, AreLevelsWhereTheModelTakesWholeNumbers) {
  const auto with_input = [](DType dtype) {
    Graph graph;
    graph.output(graph.add("y", Op("Identity"), graph.input("x", {batch, 3, 1, 2}, dtype)));
    return graph;
  };
  const Preprocess levels{.divisor = 1}, from_half{.mean = {128, 128, 128}, .divisor = 1}, shares{},
      named = torchvision_imagenet();
  const Tensor numbers = Tensor::from(std::vector<float>{0, 0.2f, 0.4f, 0.6f, 0.8f, 1}, {1, 3, 1, 2});
  for (const DType dtype : {DType::u8, DType::i8, DType::i32, DType::f16}) {
    SCOPED_TRACE(std::string(name(dtype)));
    const Graph graph = with_input(dtype);
    const bool floats = is_float(dtype);
    for (const auto& [settings, fits] :
         {std::pair{levels, dtype != DType::i8}, {from_half, dtype != DType::u8}, {shares, floats}, {named, floats}}) {
      if (fits) {
        EXPECT_NO_THROW(require_levels(graph, settings));
      } else {
        expect_error([&, &settings = settings] { require_levels(graph, settings); },
                     {"\"x\" takes whole numbers, " + std::string(name(dtype)), "expected a divisor of 1"});
      }
    }
    if (floats) {
      EXPECT_NO_THROW((void)as_input(numbers, graph));
    } else {
      expect_error([&] { (void)as_input(numbers, graph); }, {"takes whole numbers", "got 0.2 of a level"});
    }
  }
}

TEST(Photographs, OfAUsualWayHaveTheSizeThatTheModelFixes) {
  const auto named = [](const Shape& shape, std::string_view name) {
    Graph graph;
    graph.output(graph.add("y", Op("Identity"), graph.input("x", shape)));
    return named_preprocess(name, graph);
  };
  EXPECT_EQ(named({batch, 3, 224, 224}, "imagenet"), torchvision_imagenet());
  EXPECT_EQ(named({batch, 3, open, open}, "imagenet"), torchvision_imagenet());
  EXPECT_EQ(named({batch, 3, 320, 320}, "yolo"), letterbox(320));
  const Preprocess small = named({batch, 3, 32, 32}, "imagenet"), wide = named({batch, 48, 320, 3}, "caffe");
  EXPECT_EQ(std::tuple(small.resize, small.crop, small.width()), std::tuple(37, 32, 32));
  EXPECT_EQ(small.mean, torchvision_imagenet().mean);
  EXPECT_EQ(std::tuple(wide.resize, wide.crop, wide.width()), std::tuple(54, 48, 320));  // 48 * 256 / 227
  expect_error([&] { (void)named({batch, 3, 32, 32}, "imagnet"); }, {"expected one of imagenet"});
  expect_error([&] { (void)named({batch, 7}, "imagenet"); }, {"the model's input \"x\" [N, 7] is no photograph"});
}

}  // namespace
}  // namespace lamina::test::photographs_test
