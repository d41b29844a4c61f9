// Reading the tensors of an .onnx file: in the file, in typed fields, in files of their own.

#include "lamina/onnx/file/tensors.h"

#include "support/onnx_writer.h"

namespace lamina::test::onnx::tensors_test {
namespace {

/// A model of one initializer, in a directory of its own.
class OneTensor {
 public:
  explicit OneTensor(const Message& tensor) : OneTensor() { write(tensor); }
  OneTensor() { std::filesystem::create_directory(dir_ / "m"); }

  void write(const Message& tensor) { write_file(path(), onnx::model(Graph{.initializers = {tensor}})); }
  void file(const std::string& name, const std::string& bytes) { write_file(folder() / name, bytes); }
  std::filesystem::path folder() const { return dir_ / "m"; }
  std::filesystem::path above() const { return dir_.path(); }
  std::filesystem::path path() const { return folder() / "x.onnx"; }

  Tensor read() const {
    const detail::onnx::ModelProto model = detail::onnx::decode(detail::MappedFile::open(path()));
    return detail::onnx::Tensors(model.file).read(model.graph.initializers.at(0));
  }

 private:
  TemporaryDirectory dir_;
};

template <class T>
std::vector<T> values(const Tensor& tensor) {
  const auto span = tensor.values<T>();
  return {span.begin(), span.end()};
}

Tensor read(const Message& tensor) { return OneTensor(tensor).read(); }

void refused(const Message& tensor, std::vector<std::string> words) {
  words.push_back("x.onnx");
  words.push_back("\"t\"");
  expect_error([&] { read(tensor); }, words, words[0]);
}

TEST(OnnxTensors, RawData) {
  const Tensor t = read(floats("t", {2, 1}, {1.5f, -2}));
  EXPECT_EQ(t.description(), "f32 [2, 1] on cpu");
  EXPECT_EQ(values<float>(t), (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(values<std::int64_t>(read(ints("t", {1, -2}))), (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(values<bool>(read(header("t", BOOL, {3}).text(9, std::string("\0\1\7", 3)))),
            (std::vector<bool>{false, true, true}));
  EXPECT_EQ(read(floats("t", {}, {3})).shape(), Shape());
  EXPECT_EQ(read(floats("t", {0, 5}, {})).shape(), (Shape{0, 5}));
}

TEST(OnnxTensors, AlignedOrNot) {
  for (std::size_t shift = 0; shift < 8; ++shift) {  // the doc string moves the elements
    EXPECT_EQ(values<float>(read(Message().text(12, std::string(shift, '-')).append(floats("t", {2}, {1, 2}).bytes()))),
              (std::vector<float>{1, 2}));
  }
}

TEST(OnnxTensors, TypedFields) {
  const Message numbers = header("t", FLOAT, {2}).text(4, raw(1.5f) + raw(2.0f));
  EXPECT_EQ(values<float>(read(numbers)), (std::vector<float>{1.5f, 2}));
  const Message unpacked = header("t", FLOAT, {3}).number(4, 1.5f).text(4, raw(2.0f)).number(4, 3);
  EXPECT_EQ(values<float>(read(unpacked)), (std::vector<float>{1.5f, 2, 3}));
  EXPECT_EQ(values<double>(read(header("t", 11, {1}).text(10, raw(0.1)))), std::vector<double>{0.1});
  EXPECT_EQ(values<std::int64_t>(read(header("t", INT64, {2}).integer(7, INT64_MIN).packed(7, {5}))),
            (std::vector<std::int64_t>{INT64_MIN, 5}));
  EXPECT_EQ(values<std::uint64_t>(read(header("t", 13, {1}).packed(11, {-1}))), std::vector<std::uint64_t>{~0ull});
  EXPECT_EQ(values<std::uint32_t>(read(header("t", 12, {1}).packed(11, {0xffffffff}))),
            std::vector<std::uint32_t>{0xffffffff});
  EXPECT_EQ(values<std::int32_t>(read(header("t", INT32, {2}).packed(5, {-1, 7}))), (std::vector<std::int32_t>{-1, 7}));
  EXPECT_EQ(values<std::int16_t>(read(header("t", 5, {1}).packed(5, {-300}))), std::vector<std::int16_t>{-300});
  EXPECT_EQ(values<std::uint16_t>(read(header("t", 4, {1}).packed(5, {65535}))), std::vector<std::uint16_t>{65535});
  EXPECT_EQ(values<std::int8_t>(read(header("t", INT8, {1}).packed(5, {-128}))), std::vector<std::int8_t>{-128});
  EXPECT_EQ(values<std::uint8_t>(read(header("t", UINT8, {1}).packed(5, {255}))), std::vector<std::uint8_t>{255});
  EXPECT_EQ(values<bool>(read(header("t", BOOL, {2}).packed(5, {0, 2}))), (std::vector<bool>{false, true}));
  EXPECT_EQ(to_float(values<half>(read(header("t", FLOAT16, {1}).packed(5, {0x3c00})))[0]), 1.0f);
  EXPECT_EQ(to_float(values<bfloat16>(read(header("t", 16, {1}).packed(5, {0x3f80})))[0]), 1.0f);
  EXPECT_EQ(values<float>(read(Message(numbers).text(9, ""))),
            (std::vector<float>{1.5f, 2}));  // an empty field is none
}

TEST(OnnxTensors, WrongOnesAreRefused) {
  refused(header("t", FLOAT, {2}).text(9, "1234567"), {"expected 8 bytes of raw_data for FLOAT [2], got 7"});
  refused(header("t", FLOAT, {2}), {"expected 2 elements for [2], got 0"});
  refused(header("t", FLOAT, {1 << 20, 1 << 20}).text(9, "1234"), {"expected 4398046511104 bytes", "got 4"});
  refused(header("t", FLOAT, {1 << 20}).number(4, 1), {"expected 1048576 elements", "got 1"});
  refused(header("t", FLOAT, {-1}).text(9, "1234"), {"extents of 0 or more", "[-1]"});
  refused(header("t", FLOAT, {INT64_MIN, 2}).text(9, "1234"), {"extents of 0 or more"});
  refused(header("t", FLOAT, {INT64_MAX, 4}).text(9, "1234"), {"overflow"});
  refused(header("t", INT64, {INT64_MAX}).text(9, "1234"), {"overflow"});
  refused(header("t", FLOAT, {1}).packed(5, {1}), {"FLOAT in field 4", "got field 5"});
  refused(header("t", FLOAT, {1}).number(4, 1).text(9, "1234"), {"two fields, 4 and 9"});

  expect_error([] { read(header("t", FLOAT, {1}).text(4, "123")); },
               {"initializer 0: field 4", "whole number of elements"});
  refused(header("t", UINT8, {1}).packed(5, {256}), {"from 0 to 255, got 256"});
  refused(header("t", INT8, {1}).packed(5, {-129}), {"from -128 to 127, got -129"});
  refused(header("t", FLOAT16, {1}).packed(5, {-1}), {"from 0 to 65535, got -1"});
  refused(header("t", 99, {1}), {"data_type 99"});
  refused(header("t", -1, {1}), {"data_type -1"});
  refused(header("t", STRING, {1}).text(6, "text"), {"no element type STRING"});
  refused(header("t", 14, {1}).text(9, "12345678"), {"no element type COMPLEX64"});
  refused(header("t", 17, {1}).text(9, "1"), {"no element type FLOAT8E4M3FN"});
  refused(header("t", 22, {2}).text(9, "1"), {"no element type INT4"});
  refused(Message().text(8, "t").text(9, "1234"), {"no element type UNDEFINED"});
  refused(floats("t", {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1}), {"at most 8 dimensions, got 9"});
  refused(floats("t", {1}, {1}).message(3, Message().integer(1, 0)), {"segment"});
}

TEST(OnnxTensors, ExternalData) {
  OneTensor model(external("t", {2}, "w.bin", "4", "8"));
  model.file("w.bin", raw(9.0f) + raw(1.5f) + raw(2.0f));
  EXPECT_EQ(values<float>(model.read()), (std::vector<float>{1.5f, 2}));
  model.write(external("t", {3}, "w.bin"));  // offset 0, as long as the shape says
  EXPECT_EQ(values<float>(model.read()), (std::vector<float>{9, 1.5f, 2}));
  model.write(external("t", {2}, "./w.bin", "1"));  // misaligned
  EXPECT_EQ(model.read().numel(), 2);
  model.write(external("t", {0}, "missing.bin"));  // nothing to read
  EXPECT_EQ(model.read().numel(), 0);
  std::filesystem::create_directory(model.folder() / "data");
  model.file("data/w.bin", raw(3.0f));
  model.write(external("t", {1}, "data/w.bin"));
  EXPECT_EQ(values<float>(model.read()), std::vector<float>{3});
}

TEST(OnnxTensors, ExternalDataOutsideAreRefused) {
  OneTensor model;
  write_file(model.above() / "secret.bin", raw(1.0f));
  std::filesystem::create_symlink("../secret.bin", model.folder() / "link.bin");
  std::filesystem::create_directory_symlink("..", model.folder() / "up");
  model.file("w.bin", raw(1.0f));
  const auto refused = [&](const Message& tensor, std::vector<std::string> words) {
    words.push_back("x.onnx: tensor \"t\" cannot be used");
    model.write(tensor);
    expect_error([&] { model.read(); }, words, words[0]);
  };
  refused(external("t", {1}, "../secret.bin"), {"in the model's folder", "../secret.bin"});
  refused(external("t", {1}, "a/../../secret.bin"), {"in the model's folder"});
  refused(external("t", {1}, (model.above() / "secret.bin").string()), {"in the model's folder", "secret.bin"});
  refused(external("t", {1}, "link.bin"), {"a link that leaves the model's folder"});
  refused(external("t", {1}, "up/secret.bin"), {"a link that leaves the model's folder"});
  refused(external("t", {1}, std::string("w.bin\0x", 7)), {"in the model's folder"});
  refused(external("t", {1}, ""), {"in the model's folder", "\"\""});
  refused(external("t", {1}, "missing.bin"), {"missing.bin", "there is no such file"});
  refused(external("t", {2}, "w.bin"), {"expected 8 bytes at offset 0", "which has 4"});
  refused(external("t", {1}, "w.bin", "1"), {"at offset 1", "which has 4"});
  refused(external("t", {1}, "w.bin", "18446744073709551615"), {"at offset 18446744073709551615"});
  refused(external("t", {1}, "w.bin", "18446744073709551616"), {"in digits"});
  refused(external("t", {1}, "w.bin", "-4"), {"in digits", "-4"});
  refused(external("t", {1}, "w.bin", "0x0"), {"in digits"});
  refused(external("t", {1}, "w.bin", "0", "3"), {"expected 4 bytes", "length of 3"});
  refused(external("t", {INT64_MAX}, "w.bin"), {"overflow"});
  model.write(external("t", {1}, "up"));
  expect_error([&] { model.read(); }, {"leaves the model's folder"});
  std::filesystem::create_directory(model.folder() / "folder");
  model.write(external("t", {1}, "folder"));
  expect_error([&] { model.read(); }, {"folder", "this is a folder"});
}

// Hugging Face's cache: the names are links to where the files lie side by side.
TEST(OnnxTensors, ExternalDataBesideALinkedModel) {
  OneTensor model(external("t", {1}, "w.bin"));
  std::filesystem::create_directory(model.above() / "blobs");
  write_file(model.above() / "blobs/1", read_file(model.path()));
  write_file(model.above() / "blobs/2", raw(5.0f));
  std::filesystem::remove(model.path());
  std::filesystem::create_symlink("../blobs/1", model.path());
  std::filesystem::create_symlink("../blobs/2", model.folder() / "w.bin");
  EXPECT_EQ(values<float>(model.read()), std::vector<float>{5});
}

TEST(OnnxTensors, ManyCopiesOfTheSameDataAreRefused) {
  OneTensor model;
  model.file("w.bin", std::string((1 << 20) + 1, '\0'));
  model.write(external("t", {1 << 18}, "w.bin", "1"));
  const detail::onnx::ModelProto proto = detail::onnx::decode(detail::MappedFile::open(model.path()));
  detail::onnx::Tensors tensors(proto.file);
  expect_error(
      [&] {
        for (int i = 0; i < 65; ++i) tensors.read(proto.graph.initializers.at(0));
      },
      {"repeat elements"});
}

}  // namespace
}  // namespace lamina::test::onnx::tensors_test
