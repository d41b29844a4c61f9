#include "lamina/images/preprocess.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "lamina/base/error.h"
#include "lamina/images/named_preprocess.h"
#include "support/file_test.h"

namespace lamina::test::preprocess_test {
namespace {

/// One line of tests/golden/images.txt: see make_golden_images.py.
struct Golden {
  std::string picture;
  int resize = 0;
  int crop = 0;
  std::uint64_t decoded = 0;
  std::uint64_t cropped = 0;
  std::uint64_t tensor = 0;
};

std::vector<Golden> read_golden() {
  std::vector<Golden> cases;
  std::ifstream file(LAMINA_TEST_DATA "/golden/images.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Golden golden;
    std::istringstream fields(line);
    fields >> golden.picture >> golden.resize >> golden.crop >> std::hex >> golden.decoded >> golden.cropped >>
        golden.tensor;
    EXPECT_TRUE(fields) << line;
    cases.push_back(golden);
  }
  return cases;
}

Preprocess sizes(int resize, int crop) {
  Preprocess settings = torchvision_imagenet();
  settings.resize = resize;
  settings.crop = crop;
  return settings;
}

TEST(Preprocess, EqualsTorchvisionToTheBit) {
  const std::vector<Golden> cases = read_golden();
  ASSERT_GE(cases.size(), 50u);
  for (const Golden& golden : cases) {
    if (!detail::is_named_like_image(golden.picture)) continue;  // a .webp in a build without libwebp
    SCOPED_TRACE(golden.picture + ", resize " + std::to_string(golden.resize) + ", crop " +
                 std::to_string(golden.crop));
    const Preprocess settings = sizes(golden.resize, golden.crop);
    const Image image = read_image(LAMINA_SOURCE_DIR "/" + golden.picture);
    EXPECT_EQ(fnv1a(image.rgb.data(), image.rgb.size()), golden.decoded) << "the decoded pixels differ";
    const Image cropped = resize_and_crop(image, settings);
    EXPECT_EQ(fnv1a(cropped.rgb.data(), cropped.rgb.size()), golden.cropped) << "the cropped pixels differ";
    const Tensor tensor = preprocess(image, settings);
    ASSERT_EQ(tensor.shape(), (Shape{1, 3, golden.crop, golden.crop}));
    ASSERT_EQ(tensor.dtype(), DType::f32);
    EXPECT_EQ(fnv1a(tensor.raw(), tensor.bytes()), golden.tensor) << "the tensors differ";
  }
}

TEST(Preprocess, EqualsTwoOfTorchvisionsCropsPixelByPixel) {
  for (const std::string name : {"landscape", "tiny"}) {
    const std::string path = LAMINA_TEST_DATA "/golden/images/" + name;
    const Image ours = resize_and_crop(read_image(path + ".png"), torchvision_imagenet());
    const Image theirs = read_image(path + ".crop.png");
    ASSERT_EQ(ours.rgb.size(), theirs.rgb.size());
    for (std::size_t i = 0; i < ours.rgb.size(); ++i) {
      ASSERT_EQ(ours.rgb[i], theirs.rgb[i])
          << name << ": column " << i / 3 % 224 << ", row " << i / 3 / 224 << ", channel " << i % 3;
    }
  }
}

TEST(Preprocess, LoadImageReadsAndPreprocesses) {
  const std::string path = LAMINA_TEST_DATA "/golden/images/portrait.png";
  const Tensor loaded = load_image(path, torchvision_imagenet());
  const Tensor expected = preprocess(read_image(path), torchvision_imagenet());
  ASSERT_EQ(loaded.shape(), expected.shape());
  EXPECT_TRUE(
      std::equal(loaded.values<float>().begin(), loaded.values<float>().end(), expected.values<float>().begin()));
}

TEST(Preprocess, NormalizeSeparatesChannelsAndRoundsEachStep) {
  const Image image{2, 2, {0, 51, 102, 153, 204, 255, 1, 2, 3, 128, 127, 126}};
  const Preprocess settings{.resize = 2, .crop = 2, .mean = {0.1f, 0.2f, 0.3f}, .std = {0.5f, 0.25f, 2.0f}};
  std::vector<float> out(12, std::numeric_limits<float>::quiet_NaN());
  normalize_into(image, settings, out);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t i = 0; i < 4; ++i) {
      volatile float value = static_cast<float>(image.rgb[i * 3 + c]) / 255.0f;
      value = value - settings.mean[c];
      EXPECT_EQ(out[c * 4 + i], value / settings.std[c]);
    }
  }
}

TEST(Preprocess, CaffesNetworksTakeBlueFirstLessAMean) {
  const Image image{2, 1, {0, 51, 102, 255, 254, 1}};
  Preprocess settings = caffe_imagenet();
  settings.crop = 1;
  EXPECT_EQ(error_of([&] {
              std::vector<float> out(3);
              normalize_into(image, settings, out);
            }),
            "preprocess: expected an image of 1 x 1 pixels, got 2 x 1");
  const float expected[2][3] = {{102 - 104.00699f, 51 - 116.66877f, 0 - 122.67892f},
                                {1 - 104.00699f, 254 - 116.66877f, 255 - 122.67892f}};
  for (std::size_t pixel = 0; pixel < 2; ++pixel) {
    const auto rgb = image.rgb.begin() + static_cast<std::ptrdiff_t>(pixel * 3);
    std::vector<float> out(3, std::numeric_limits<float>::quiet_NaN());
    normalize_into({1, 1, {rgb, rgb + 3}}, settings, out);
    for (std::size_t c = 0; c < 3; ++c) EXPECT_EQ(out[c], expected[pixel][c]) << pixel << ' ' << c;
  }
}

TEST(Preprocess, StretchesWhereTheAspectIsIgnored) {
  // Columns and rows are of one level each, so the resized picture is that of its middle column and row.
  const Preprocess settings = {.resize = 8, .crop = 3, .aspect = Aspect::ignored};
  for (const auto& [width, height] : {std::pair(16, 4), std::pair(3, 40), std::pair(8, 8)}) {
    Image image{width, height, {}};
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        for (const int level : {x * 256 / width, y * 256 / height, 9}) {
          image.rgb.push_back(static_cast<std::uint8_t>(level));
        }
      }
    }
    const Image seen = resize_and_crop(image, settings);
    ASSERT_EQ(seen.width, 3);
    ASSERT_EQ(seen.height, 3);
    for (int y = 0; y < 3; ++y) {
      for (int x = 0; x < 3; ++x) {
        // Of 8 pixels the crop shows 2 to 4 (a margin of 5: Python rounds 2.5 to 2), each an eighth of the levels.
        const auto* pixel = seen.rgb.data() + (y * 3 + x) * 3;
        EXPECT_NEAR(pixel[0], (x + 2.5) * 32 - 128.0 / width, 3) << width << ": " << x << ", " << y;
        EXPECT_NEAR(pixel[1], (y + 2.5) * 32 - 128.0 / height, 3) << height << ": " << x << ", " << y;
        EXPECT_EQ(pixel[2], 9);
      }
    }
  }
  // A square has nothing to stretch.
  Image square{20, 20, std::vector<std::uint8_t>(1200)};
  for (std::size_t i = 0; i < 1200; ++i) square.rgb[i] = static_cast<std::uint8_t>(i * 37);
  EXPECT_EQ(resize_and_crop(square, settings), resize_and_crop(square, sizes(8, 3)));
}

TEST(Preprocess, APhotoOfOnePixelFillsThePicture) {
  const Image image = resize_and_crop(Image{1, 1, {10, 20, 30}}, torchvision_imagenet());
  ASSERT_EQ(image.rgb.size(), 224u * 224 * 3);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) ASSERT_EQ(image.rgb[i], 10 * (i % 3 + 1));
}

/// The rows of a letterboxed picture of one colour that are that colour.
std::pair<int, int> rows_seen(int width, int height, const Preprocess& settings) {
  const Image photo{width, height, std::vector<std::uint8_t>(static_cast<std::size_t>(width * height) * 3, 200)};
  const Image seen = resize_and_crop(photo, settings);
  int first = -1, count = 0;
  for (int row = 0; row < settings.crop; ++row) {
    const std::uint8_t level = seen.rgb[static_cast<std::size_t>(row * settings.crop) * 3];
    if (level != 200) {
      EXPECT_EQ(level, settings.fill[0]) << "row " << row;
      continue;
    }
    first = first < 0 ? row : first;
    ++count;
  }
  return {first, count};
}

TEST(Preprocess, LetterboxShowsAllOfThePictureAndItsColourBeside) {
  EXPECT_EQ(rows_seen(16, 8, letterbox(8)), std::pair(2, 4));
  EXPECT_EQ(rows_seen(10, 7, letterbox(8)), std::pair(1, 6));  // 5.6 rows
  Preprocess other = letterbox(8);
  other.rounding = Rounding::down;
  EXPECT_EQ(rows_seen(10, 7, other), std::pair(1, 5));
  other.placement = Placement::corner;
  EXPECT_EQ(rows_seen(10, 7, other), std::pair(0, 5));
  EXPECT_EQ(rows_seen(5000, 1, letterbox(8)), std::pair(3, 1));  // never nothing
  EXPECT_EQ(rows_seen(8, 8, letterbox(8)), std::pair(0, 8));
}

TEST(Preprocess, TheWindowSaysWhereThePictureLies) {
  const auto window = [](int width, int height, const Preprocess& settings) {
    const Window w = window_of(width, height, settings);
    return std::array{w.left, w.top, w.width, w.height};
  };
  EXPECT_EQ(window(16, 8, letterbox(8)), (std::array<double, 4>{0, -4, 16, 16}));
  EXPECT_EQ(window(8, 16, letterbox(4)), (std::array<double, 4>{-4, 0, 16, 16}));
  EXPECT_EQ(window(32, 16, {.resize = 8, .crop = 4}), (std::array<double, 4>{12, 4, 8, 8}));
  EXPECT_EQ(window(32, 16, {.resize = 8, .crop = 8, .aspect = Aspect::ignored}), (std::array<double, 4>{0, 0, 32, 16}));
}

TEST(Preprocess, AnExtremeAspectRatioCostsNoMoreThanTheCrop) {
  for (const bool tall : {false, true}) {
    Image image{tall ? 1 : 50'000'000, tall ? 50'000'000 : 1, {}};
    image.rgb.assign(150'000'000, 77);
    const Image seen = resize_and_crop(image, torchvision_imagenet());
    EXPECT_TRUE(std::all_of(seen.rgb.begin(), seen.rgb.end(), [](int value) { return value == 77; }));
  }
}

TEST(Preprocess, ALargerCropIsPaddedWithBlack) {
  const Image image{2, 1, std::vector<std::uint8_t>(6, 255)};  // resized to 4 x 2
  const Image seen = resize_and_crop(image, sizes(2, 5));
  for (int y = 0; y < 5; ++y) {
    for (int x = 0; x < 5; ++x) {
      const bool inside = x < 4 && y >= 1 && y < 3;
      EXPECT_EQ(seen.rgb[static_cast<std::size_t>(y * 5 + x) * 3], inside ? 255 : 0) << x << ", " << y;
    }
  }
}

TEST(Preprocess, RefusesImpossibleSettings) {
  const Image image{1, 1, {1, 2, 3}};
  const auto error = [&](const Preprocess& settings) { return error_of([&] { preprocess(image, settings); }); };
  EXPECT_EQ(error(sizes(0, 224)), "preprocess: expected resize of at least 1 pixel, got 0");
  EXPECT_EQ(error(sizes(-5, 224)), "preprocess: expected resize of at least 1 pixel, got -5");
  EXPECT_EQ(error(sizes(256, 0)), "preprocess: expected crop of 1 to 10000 pixels, got 0");
  EXPECT_EQ(error(sizes(256, -1)), "preprocess: expected crop of 1 to 10000 pixels, got -1");
  EXPECT_EQ(error(sizes(256, 10001)), "preprocess: expected crop of 1 to 10000 pixels, got 10001");
  EXPECT_EQ(error({.std = {1, 0, 1}}), "preprocess: expected a finite std other than 0, got 0");
  EXPECT_EQ(error({.std = {1, 1, NAN}}), "preprocess: expected a finite std other than 0, got nan");
  EXPECT_EQ(error({.mean = {0, INFINITY, 0}}), "preprocess: expected a finite mean, got inf");
  EXPECT_EQ(error({.divisor = 0}), "preprocess: expected a finite divisor other than 0, got 0");
  EXPECT_EQ(error({.divisor = NAN}), "preprocess: expected a finite divisor other than 0, got nan");
  EXPECT_EQ(error({.resize = 1, .crop = 1}), "no error");
  EXPECT_EQ(error({.resize = std::numeric_limits<int>::max(), .crop = 3}), "no error");
}

TEST(Preprocess, RefusesImagesAndMemoryOfTheWrongSize) {
  const Preprocess settings{.resize = 2, .crop = 2};
  std::vector<float> out(12);
  EXPECT_EQ(error_of([&] { preprocess(Image{}, settings); }),
            "image of 0 x 0 pixels holds 0 bytes: expected at least one pixel and three bytes for each");
  EXPECT_EQ(error_of([&] {
              preprocess(Image{2, 2, std::vector<std::uint8_t>(11)}, settings);
            }),
            "image of 2 x 2 pixels holds 11 bytes: expected at least one pixel and three bytes for each");
  EXPECT_EQ(error_of([&] {
              preprocess(Image{-1, -1, {1, 2, 3}}, settings);
            }),
            "image of -1 x -1 pixels holds 3 bytes: expected at least one pixel and three bytes for each");
  EXPECT_EQ(error_of([&] {
              normalize_into(Image{1, 2, std::vector<std::uint8_t>(6)}, settings, out);
            }),
            "preprocess: expected an image of 2 x 2 pixels, got 1 x 2");
  EXPECT_EQ(error_of([&] {
              normalize_into(Image{2, 2, std::vector<std::uint8_t>(12)}, settings, std::span(out).first(11));
            }),
            "preprocess: expected room for 12 values, got 11");
}

TEST(NamedPreprocess, IsEachByItsName) {
  for (const auto& [name, settings] : named_preprocesses()) EXPECT_EQ(named_preprocess(name), settings) << name;
  EXPECT_EQ(named_preprocess("imagenet"), torchvision_imagenet());
  EXPECT_EQ(named_preprocess("caffe"), caffe_imagenet());
  EXPECT_EQ(named_preprocess("yolo"), letterbox(640));
  Preprocess symmetric = torchvision_imagenet();
  symmetric.mean = symmetric.std = {0.5f, 0.5f, 0.5f};
  EXPECT_EQ(named_preprocess("symmetric"), symmetric);
  EXPECT_EQ(named_preprocess("yolox").placement, Placement::corner);
  EXPECT_EQ(named_preprocess("yolox").order, ChannelOrder::bgr);
}

TEST(NamedPreprocess, OfAnotherNameIsRefusedWithAll) {
  for (const auto& [name, nearest] :
       {std::pair("", "yolo"), {"Imagenet", "imagenet"}, {"yolo11", "yolo"}, {"{}", "yolo"}}) {
    try {
      (void)named_preprocess(name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "preprocess: expected one of imagenet, symmetric, caffe, yolo, yolox, got \"" +
                                  std::string(name) + "\"; nearest: \"" + nearest + '"');
    }
  }
}

}  // namespace
}  // namespace lamina::test::preprocess_test
