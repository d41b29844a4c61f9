#include "lamina/files/torch/pth.h"

#include "files/torch/pickle_writer.h"
#include "lamina/base/crc32.h"
#include "lamina/files/weights.h"
#include "support/file_test.h"

namespace lamina::test::pth_test {
namespace {

using Names = std::vector<std::string>;
using namespace pickle;

std::vector<float> values(const Tensor& tensor) {
  const auto span = tensor.values<float>();
  return {span.begin(), span.end()};
}

TEST(Pth, HonoursStridesAndOffsets) {
  EXPECT_EQ(values(open_pth(one_tensor(0, {2, 3}, {3, 1})).at("t")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values(open_pth(one_tensor(0, {3, 2}, {1, 3})).at("t")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(open_pth(one_tensor(1, {2, 2}, {3, 1})).at("t")), (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(values(open_pth(one_tensor(5, {}, {})).at("t")), std::vector<float>{5});
  EXPECT_EQ(values(open_pth(one_tensor(2, {3, 2}, {0, 1})).at("t")), (std::vector<float>{2, 3, 2, 3, 2, 3}));
  EXPECT_EQ(values(open_pth(one_tensor(4, {1, 2}, {1LL << 62, 1})).at("t")),
            (std::vector<float>{4, 5}));  // never stepped along
  EXPECT_EQ(open_pth(one_tensor(1LL << 62, {0, 2}, {2, 1})).at("t").shape(), (Shape{0, 2}));
}

TEST(Pth, AnExpandedTensorMayNotExhaustTheMachine) {
  const Weights weights = open_pth(one_tensor(0, {1LL << 40}, {0}));
  EXPECT_EQ(weights.info("t")->shape, std::vector<std::int64_t>{1LL << 40});
  expect_error([&] { weights.at("t"); }, {"\"t\"", "cannot be used", "4398046511104 bytes"});
}

// Each alone is allowed.
TEST(Pth, NorMayManyExpandedTensors) {
  std::vector<std::pair<std::string, std::string>> items;
  for (int i = 0; i < 10; ++i) items.emplace_back(std::to_string(i), tensor(storage("0", 6), 0, {1 << 22}, {0}));
  const Weights weights = open_pth(pth(dict(items), {{"0", floats(6)}}));
  EXPECT_EQ(weights.at("0").numel(), 1 << 22);
  EXPECT_EQ(weights.at("3").numel(), 1 << 22);
  expect_error([&] { weights.at("4"); }, {"\"4\"", "cannot be used", "83886080 bytes, more than 4 times"});
}

TEST(Pth, ChecksumsMustMatch) {
  const std::string pickle = whole(good_object), data = floats(6);
  const auto file = [&](std::uint32_t pickle_crc, std::uint32_t data_crc) {
    std::vector<ZipEntry> entries = {{"net/data.pkl", pickle}, {"net/data/0", data}};
    entries[0].crc = pickle_crc;
    entries[1].crc = data_crc;
    return zip(entries);
  };
  const std::uint32_t good = detail::crc32(as_bytes(data));
  EXPECT_EQ(values(open_pth(file(detail::crc32(as_bytes(pickle)), good)).at("t"))[5], 5);
  expect_error([&] { open_pth(file(1, good)); }, {"x.pth", "damaged", "\"net/data.pkl\"", "checksum"});
  const Weights weights = open_pth(file(0, 1));
  expect_error([&] { weights.at("t"); }, {"x.pth", "damaged", "\"net/data/0\"", "checksum"});
  expect_error([&] { weights.at("t"); }, {"checksum"});  // the second time too
}

TEST(Pth, LocalNamesMustBeTheDirectorys) {
  std::vector<ZipEntry> entries = {{"net/data.pkl", whole(good_object)}, {"net/data/0", floats(6)}};
  entries[1].local_name = "net/data/1";
  expect_error([&] { open_pth(zip(entries)); }, {"\"net/data/0\"", "\"net/data/1\" in its local header"});
}

TEST(Pth, LegacyFilesEndWithTheirLastStorage) {
  const std::string object = dict({{"a", tensor(storage("0", 6, "FloatStorage", "N"), 0, {6}, {1})}});
  const std::string good = legacy_pth(object, {{"0", floats(6)}}, 6);
  EXPECT_EQ(open_pth(good).size(), 1u);
  expect_error([&] { open_pth(good + "thirteen more"); }, {"after its last storage, got 13 bytes more"});
}

TEST(Pth, UnwrapsTrainersCheckpoints) {
  const std::vector<std::pair<std::string, std::string>> data = {{"0", floats(6)}};
  const auto names = [&](const std::string& object) { return open_pth(pth(object, data)).names(); };
  const std::string weights = dict({{"a", good_tensor}});
  for (const char* key : {"model", "model_state_dict", "params", "params_ema", "ema", "state_dict", "net"}) {
    EXPECT_EQ(names(dict({{"epoch", "K\1"}, {key, weights}})), Names{"a"}) << key;
  }
  EXPECT_EQ(names(dict({{"model", dict({{"state_dict", weights}})}})), Names{"a"});
  EXPECT_EQ(names(dict({{"ema", dict({{"b", good_tensor}})}, {"model", weights}})), Names{"a"});
  EXPECT_EQ(names(dict({{"b", good_tensor}, {"model", weights}})), Names{"b"});  // not beside tensors
  const std::string options = global("argparse", "Namespace") + ")\x81" + dict({{"lr", "K\1"}}) + 'b';
  EXPECT_EQ(names(dict({{"args", options}, {"model", weights}})), Names{"a"});
  EXPECT_EQ(names(dict({{"_orig_mod.a", good_tensor}})), Names{"a"});
  EXPECT_EQ(names(dict({{"module._orig_mod.a", good_tensor}})), Names{"a"});
  EXPECT_EQ(names(dict({{"model.a", good_tensor}})), Names{"model.a"});  // may be the module's own name
}

TEST(Pth, ContiguousTensorsAreViewsAndStridedOnesCopies) {
  const std::string object = dict({{"a", tensor(storage("0", 6), 0, {6}, {1})},
                                   {"b", tensor(storage("0", 6), 2, {2}, {1})},
                                   {"c", tensor(storage("0", 6), 0, {3, 2}, {1, 3})}});
  for (std::size_t shift = 0; shift < 4; ++shift) {  // whatever the alignment
    const Weights weights = open_pth(zip(
        {{std::string(shift, 'n') + "/data.pkl", whole(object)}, {std::string(shift, 'n') + "/data/0", floats(6)}}));
    const Tensor a = weights.at("a");
    const Tensor b = weights.at("b");
    EXPECT_EQ(values(a), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(values(b), (std::vector<float>{2, 3}));
    EXPECT_EQ(values(weights.at("c")), (std::vector<float>{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.raw()) % alignof(float), 0u);
    if (a.raw() == weights.at("a").raw()) {  // a view
      EXPECT_EQ(b.raw(), static_cast<const float*>(a.raw()) + 2);
    }
  }
}

TEST(Pth, HonoursBigEndianFiles) {
  const Weights weights =
      open_pth(zip({{"net/data.pkl", whole(dict({{"t", tensor(storage("0", 2, "ShortStorage"), 0, {2}, {1})}}))},
                    {"net/byteorder", "big"},
                    {"net/data/0", "\x01\x02\x03\x04"}}));
  EXPECT_EQ(weights.at("t").values<std::int16_t>()[0], 0x0102);
  EXPECT_EQ(weights.at("t").values<std::int16_t>()[1], 0x0304);
}

TEST(Pth, ReadsZip64AndComments) {
  std::vector<ZipEntry> entries = {{"net/data.pkl", whole(good_object)}, {"net/data/0", floats(6)}};
  const ZipParts parts = zip_parts(entries);
  EXPECT_EQ(values(open_pth(parts.join64()).at("t"))[5], 5);
  EXPECT_EQ(values(open_pth(parts.entries + parts.directory + parts.end(7) + "comment").at("t"))[5], 5);
  entries[0].zip64 = entries[1].zip64 = true;
  EXPECT_EQ(values(open_pth(zip(entries)).at("t"))[5], 5);
  EXPECT_EQ(values(open_pth(zip_parts(entries).join64()).at("t"))[5], 5);
}

TEST(Pth, ReadsAnyStemOrNone) {
  for (const char* stem : {"", "archive/", "a/b/c/"}) {
    const std::string folder = stem;
    EXPECT_EQ(open_pth(zip({{folder + "data.pkl", whole(good_object)}, {folder + "data/0", floats(6)}})).size(), 1u);
  }
}

TEST(Pth, UnwrapsAndStripsPrefixes) {
  const std::vector<std::pair<std::string, std::string>> data = {{"0", floats(6)}};
  const auto names = [&](const std::string& object) { return open_pth(pth(object, data)).names(); };
  EXPECT_EQ(names(dict({{"module.b", good_tensor}, {"module.a", good_tensor}})), (Names{"b", "a"}));
  EXPECT_EQ(names(dict({{"module.b", good_tensor}, {"a", good_tensor}})), (Names{"module.b", "a"}));
  EXPECT_EQ(names(dict({{"epoch", "K\1"}, {"module.a", good_tensor}})), Names{"a"});
  EXPECT_EQ(names(dict({{"state_dict", dict({{"a", good_tensor}})}, {"epoch", "K\1"}})), Names{"a"});
  EXPECT_EQ(names(dict({{"state_dict", good_tensor}})), Names{"state_dict"});  // a tensor of that name
  EXPECT_EQ(names(good_tensor), Names{"x"});                                   // the file's stem
  EXPECT_EQ(names(global("torch._utils", "_rebuild_parameter") + tuple({good_tensor, "\x88", ordered_dict}) + 'R'),
            Names{"x"});
  // Python 2's way to write an OrderedDict, and attributes set on one.
  EXPECT_EQ(names(global("collections", "OrderedDict") + "](](" + text("a") + good_tensor + "ee\x85R"), Names{"a"});
  EXPECT_EQ(names(ordered_dict + text("a") + good_tensor + 's' + dict({{"_metadata", ordered_dict}}) + 'b'),
            Names{"a"});
}

TEST(Pth, ReadsWhatOldPyTorchAndPython2Wrote) {
  const std::string old_tensor = global("torch._utils", "_rebuild_tensor") +
                                 tuple({storage("0", 6), integer(1), sizes({2, 2}), sizes({3, 1})}) + 'R';
  const std::string short_string = std::string("U\x01") + 'a', long_string = 'T' + raw(std::uint32_t{1}) + 'b';
  const std::string object = "}" + short_string + old_tensor + 's' + long_string + good_tensor + 's';
  const Weights weights = open_pth(legacy_pth(object, {{"0", floats(6)}}, 6));
  EXPECT_EQ(weights.names(), (Names{"a", "b"}));
  EXPECT_EQ(weights.at("a").shape(), (Shape{2, 2}));
  EXPECT_EQ(values(weights.at("a")), (std::vector<float>{1, 2, 4, 5}));
}

TEST(Pth, ReadsLegacyViews) {
  const std::string viewed = storage("0", 6, "FloatStorage", tuple({text("v"), integer(2), integer(4)}));
  const std::string plain = storage("0", 6, "FloatStorage", "N");
  const std::string object = dict({{"a", tensor(viewed, 1, {3}, {1})}, {"b", tensor(plain, 0, {2, 3}, {3, 1})}});
  const Weights weights = open_pth(legacy_pth(object, {{"0", floats(6)}}, 6));
  EXPECT_EQ(values(weights.at("a")), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(values(weights.at("b")), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(Pth, DamagedZipFilesLoadOrThrow) {
  const std::string object = dict(
      {{"a", tensor(storage("0", 6), 0, {3, 2}, {1, 3})}, {"b", tensor(storage("1", 3, "BoolStorage"), 0, {3}, {1})}});
  fuzz(pth(object, {{"0", floats(6)}, {"1", "\1\0\1"}}), [](const std::filesystem::path& path) {
    const Weights weights = Weights::open(path);
    for (const std::string& name : weights.names()) weights.find(name);
  });
}

TEST(Pth, DamagedLegacyFilesLoadOrThrow) {
  const std::string object = dict({{"a", tensor(storage("0", 6, "FloatStorage", "N"), 0, {3, 2}, {1, 3})}});
  fuzz(legacy_pth(object, {{"0", floats(6)}}, 6), [](const std::filesystem::path& path) {
    const Weights weights = Weights::open(path);
    for (const std::string& name : weights.names()) weights.find(name);
  });
}

}  // namespace
}  // namespace lamina::test::pth_test
