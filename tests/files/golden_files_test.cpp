// Reads what torch, numpy and safetensors themselves wrote: tests/golden/make_golden_files.py.

#include <cstring>
#include <sstream>

#include "lamina/files/npy.h"
#include "lamina/files/weights.h"
#include "support/file_test.h"

namespace lamina::test::golden_files_test {
namespace {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(LAMINA_TEST_DATA) / "golden" / "files" / name;
}

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor doubles = tensor.to(DType::f64);
  const auto span = doubles.values<double>();
  return {span.begin(), span.end()};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

TEST(GoldenFiles, SafetensorsOfEveryDtype) {
  const Weights weights = Weights::open(golden("dtypes.safetensors"));
  const std::vector<std::pair<const char*, DType>> dtypes = {
      {"uint8", DType::u8},    {"int8", DType::i8},     {"uint16", DType::u16},  {"int16", DType::i16},
      {"uint32", DType::u32},  {"int32", DType::i32},   {"uint64", DType::u64},  {"int64", DType::i64},
      {"float16", DType::f16}, {"float32", DType::f32}, {"float64", DType::f64}, {"bfloat16", DType::bf16},
      {"bool", DType::boolean}};
  ASSERT_EQ(weights.size(), dtypes.size() + 2);
  for (const auto& [name, dtype] : dtypes) {
    const Tensor tensor = weights.at(name);
    EXPECT_EQ(tensor.dtype(), dtype) << name;
    EXPECT_EQ(tensor.shape(), (Shape{2, 3})) << name;
    const bool boolean = dtype == DType::boolean;
    EXPECT_EQ(numbers(tensor),
              (boolean ? std::vector<double>{0, 1, 0, 1, 0, 1} : std::vector<double>{0, 1, 2, 3, 4, 5}))
        << name;
  }
  EXPECT_EQ(weights.at("scalar").shape(), Shape{});
  EXPECT_EQ(weights.at("empty").shape(), (Shape{3, 0}));
  EXPECT_EQ(weights.metadata().at("made by"), "safetensors");
  EXPECT_EQ(weights.metadata().at("é"), "ü\n");
}

TEST(GoldenFiles, UnsupportedDtypesAreListed) {
  const Weights safetensors = Weights::open(golden("listed.safetensors"));
  EXPECT_EQ(safetensors.info("f8_e4m3")->dtype, "f8_e4m3");
  EXPECT_EQ(safetensors.info("f8_e5m2")->bytes, 5u);
  EXPECT_EQ(safetensors.info("c64")->bytes, 16u);
  EXPECT_EQ(numbers(safetensors.at("f32")), std::vector<double>(4, 1));
  expect_error([&] { safetensors.at("f8_e4m3"); }, {"f8_e4m3", "cannot be used"});
  const Weights pth = Weights::open(golden("listed.pth"));
  EXPECT_EQ(pth.info("c64")->dtype, "c64");
  EXPECT_EQ(pth.info("c64")->bytes, 16u);
  EXPECT_EQ(numbers(pth.at("f32")), std::vector<double>(2, 1));
  expect_error([&] { pth.at("c64"); }, {"c64", "cannot be used"});
}

TEST(GoldenFiles, NpyInEveryLayout) {
  std::vector<double> counting(24);
  for (std::size_t i = 0; i < counting.size(); ++i) counting[i] = static_cast<double>(i);
  for (const char* name : {"c_u1", "c_i1", "c_u2", "c_i2", "c_u4", "c_i4", "c_u8", "c_i8", "c_f2", "c_f4", "c_f8",
                           "fortran_f4", "big_endian_i4", "big_endian_fortran_f8", "version2_f4", "version3_f4"}) {
    const Tensor tensor = load_npy(golden(std::string(name) + ".npy"));
    EXPECT_EQ(tensor.shape(), (Shape{2, 3, 4})) << name;
    EXPECT_EQ(numbers(tensor), counting) << name;
    EXPECT_EQ(Weights::open(golden(std::string(name) + ".npy")).names(), std::vector<std::string>{name});
  }
  for (double& value : counting) value = static_cast<int>(value) % 2;
  EXPECT_EQ(numbers(load_npy(golden("c_b1.npy"))), counting);
  EXPECT_EQ(numbers(load_npy(golden("scalar_f8.npy"))), std::vector<double>{1.5});
  EXPECT_EQ(load_npy(golden("empty_f4.npy")).shape(), (Shape{3, 0}));
}

TEST(GoldenFiles, NpyIsWrittenAsNumPyWritesIt) {
  const TemporaryDirectory dir;
  for (const char* name :
       {"c_u1.npy", "c_i8.npy", "c_f2.npy", "c_f4.npy", "c_f8.npy", "c_b1.npy", "scalar_f8.npy", "empty_f4.npy"}) {
    save_npy(dir / name, load_npy(golden(name)));
    EXPECT_EQ(read_file(dir / name), read_file(golden(name))) << name;
  }
}

TEST(GoldenFiles, ArraysAsNumPySavesThem) {
  const Weights weights = Weights::open(golden("arrays.npz"));
  EXPECT_EQ(weights.names(), std::vector<std::string>{"a"});
  const Tensor array = weights.at("a");
  EXPECT_EQ(array.shape(), (Shape{2, 3, 4}));
  std::int64_t expected = 0;
  for (const std::int64_t value : array.values<std::int64_t>()) EXPECT_EQ(value, expected++);
  EXPECT_EQ(expected, 24);
}

TEST(GoldenFiles, StateDictsAsTorchSavesThem) {
  const Weights expected = Weights::open(golden("expected.safetensors"));
  ASSERT_GE(expected.metadata().size(), 9u);
  for (const auto& [file, names] : expected.metadata()) {
    const Weights weights = Weights::open(golden(file));
    EXPECT_EQ(weights.names(), lines(names)) << file;
    for (const std::string& name : weights.names()) {
      const Tensor found = weights.at(name);
      const Tensor truth = expected.at(file + ':' + name);
      EXPECT_EQ(found.dtype(), truth.dtype()) << file << ' ' << name;
      ASSERT_EQ(found.shape(), truth.shape()) << file << ' ' << name;
      EXPECT_TRUE(truth.bytes() == 0 || std::memcmp(found.raw(), truth.raw(), truth.bytes()) == 0)
          << file << ' ' << name;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found.raw()) % size_of(found.dtype()), 0u) << file << ' ' << name;
    }
  }
}

TEST(GoldenFiles, AlignedTensorsOfAPthAreViews) {
  const Weights weights = Weights::open(golden("state_dict.pth"));
  const Tensor whole = weights.at("whole");
  EXPECT_EQ(whole.raw(), weights.at("whole").raw());
  EXPECT_EQ(weights.at("row").raw(), static_cast<const float*>(whole.raw()) + 4 * 8);
}

TEST(GoldenFiles, WhatIsNoStateDictIsRefusedWithAReason) {
  const std::vector<std::pair<const char*, std::vector<std::string>>> cases = {
      {"refused_object.npy", {"Python objects"}},
      {"refused_complex.npy", {"\"<c8\""}},
      {"refused_record.npy", {"record"}},
      {"refused_module.pth", {"torch.nn.modules.linear.Linear", "model.state_dict()", "nothing was executed"}},
      {"refused_float8.pth", {"torch._utils._rebuild_tensor_v3", "nothing was executed"}},
      {"refused_no_tensors.pth", {"without tensors", "\"epoch\"", "\"optimizer\""}},
      {"refused_list.pth", {"expected a state dict", "a list"}},
      {"refused_script.pt", {"TorchScript"}}};
  for (const auto& [name, words] : cases) {
    const std::filesystem::path path = golden(name);
    expect_error([&] { Weights::open(path); }, words, name);
  }
}

TEST(GoldenFiles, DamagedTorchFilesLoadOrThrow) {
  for (const char* name : {"wrapped.pth", "wrapped_legacy.pth"}) {
    fuzz(read_file(golden(name)), [](const std::filesystem::path& path) {
      const Weights weights = Weights::open(path);
      for (const std::string& key : weights.names()) weights.find(key);
    });
  }
}

}  // namespace
}  // namespace lamina::test::golden_files_test
