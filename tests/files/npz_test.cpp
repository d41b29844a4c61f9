#include "files/torch/pickle_writer.h"
#include "lamina/base/crc32.h"
#include "lamina/files/npy.h"
#include "support/file_test.h"

namespace lamina::test::npz_test {
namespace {

std::string npy(const Tensor& tensor) {
  const TemporaryDirectory dir;
  save_npy(dir / "a", tensor);
  return read_file(dir / "a");
}

Weights open_npz(const std::string& bytes) {
  const TemporaryDirectory dir;
  write_file(dir / "x.npz", bytes);
  return Weights::open(dir / "x.npz");
}

const std::string pair = npy(Tensor::from<float>({1.0f, 2.0f}, {2}));
const std::string whole = npy(Tensor::from<std::int64_t>({7}, {}));

TEST(Npz, ArraysAreTensorsOfTheirNames) {
  const Weights weights = open_npz(zip({{"conv1.weight.npy", pair}, {"bias.npy", whole}}));
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"conv1.weight", "bias"}));
  EXPECT_EQ(weights.at("conv1.weight").values<float>()[1], 2.0f);
  EXPECT_EQ(weights.at("bias").values<std::int64_t>()[0], 7);
  EXPECT_EQ(weights.at("bias").shape().rank(), 0);
}

TEST(Npz, ChecksumsMustMatch) {
  std::vector<ZipEntry> entries = {{"a.npy", pair}, {"b.npy", pair}};
  entries[0].crc = detail::crc32(as_bytes(pair));
  entries[1].crc = entries[0].crc + 1;
  const Weights weights = open_npz(zip(entries));
  EXPECT_EQ(weights.at("a").values<float>()[0], 1.0f);
  expect_error([&] { weights.at("b"); }, {"x.npz", "damaged", "\"b.npy\"", "checksum"});
}

TEST(Npz, MalformedOnesAreRefused) {
  const auto expect = [](const std::vector<ZipEntry>& entries, const std::vector<std::string>& words) {
    expect_error([&] { open_npz(zip(entries)); }, words, entries.back().name);
  };
  expect({{"a.npy", ""}}, {"x.npz: entry \"a.npy\"", "expected a .npy file"});
  expect({{"a.npy", pair}, {"b.txt", pair}}, {"entry \"b.txt\"", "expected a .npy file"});
  expect({{"a.npy", pair.substr(0, pair.size() - 1)}}, {"entry \"a.npy\"", "expected 8 bytes of data"});
  expect({{"a.npy", pair, 8}}, {"\"a.npy\" is compressed", "numpy.savez_compressed"});
  expect({{"a.npy", pair}, {"a.npy", pair}}, {"two entries are named \"a.npy\""});
}

TEST(Npz, DamagedOnesLoadOrThrow) {
  fuzz(zip({{"a.npy", pair}, {"b.npy", whole}}), [](const std::filesystem::path& path) {
    const Weights weights = Weights::open(path);
    for (const std::string& name : weights.names()) weights.find(name);
  });
}

}  // namespace
}  // namespace lamina::test::npz_test
