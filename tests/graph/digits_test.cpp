#include <gtest/gtest.h>

#include "lamina/files/weights.h"
#include "lamina/graph/model.h"
#include "lamina/graph/scores.h"
#include "lamina/images/image.h"

namespace lamina::digits_test {
namespace {

// The accuracy that weights/README.md states, by the way a photograph takes.
TEST(Digits, ReadsTheTestSetAsWellAsIsClaimed) {
  const Model model = load_model(LAMINA_SOURCE_DIR "/weights/digits.safetensors");
  const Weights test = Weights::open(LAMINA_SOURCE_DIR "/weights/digits/test.safetensors");
  const Tensor pictures = test.at("images");  // [360, 8, 8]
  const Tensor targets = test.at("targets");  // [360]
  const std::int64_t count = pictures.shape()[0];
  ASSERT_EQ(pictures.shape(), (Shape{360, 8, 8}));
  ASSERT_EQ(targets.shape(), (Shape{360}));
  ASSERT_EQ(model.labels.size(), 10u);

  Tensor input({count, 3, model.preprocess->crop, model.preprocess->crop});
  for (std::int64_t i = 0; i < count; ++i) {
    Image picture{8, 8, {}};
    for (const std::uint8_t level : pictures.slice(i, i + 1).values<std::uint8_t>()) {
      picture.rgb.insert(picture.rgb.end(), 3, level);
    }
    Tensor slot = input.slice(i, i + 1);
    normalize_into(resize_and_crop(picture, *model.preprocess), *model.preprocess, slot.values<float>());
  }
  Plan plan = model.graph.compile({.batch = count});
  const Tensor scores = plan.run(input);
  int right = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    right += top_k(scores.slice(i, i + 1), 1)[0].index == targets.values<std::uint8_t>()[static_cast<std::size_t>(i)];
  }
  EXPECT_EQ(right, 355);
}

}  // namespace
}  // namespace lamina::digits_test
