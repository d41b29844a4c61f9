// Weight files: opened, listed, and every tensor read to its last byte.

#include "lamina/files/weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/target.h"
#include "lamina/base/crc32.h"
#include "lamina/base/error.h"
#include "lamina/files/safetensors_header.h"
#include "lamina/files/torch/unpickler.h"

namespace lamina::fuzz {
namespace {

volatile std::uint64_t sink;  // so that nothing that is read is optimised away

void read_every_tensor(const Weights& weights) {
  std::uint64_t budget = std::uint64_t{1} << 20, sum = 0;
  for (const TensorInfo& info : weights.entries()) {
    if (info.bytes > budget) continue;
    budget -= info.bytes;
    try {
      const Tensor tensor = weights.at(info.name);
      if (tensor.bytes() != info.bytes) broken("a tensor has the bytes that its info says");
      const auto* bytes = static_cast<const std::uint8_t*>(tensor.raw());
      for (std::size_t i = 0; i < tensor.bytes(); ++i) {
        sum += bytes[i];
        if (tensor.dtype() == DType::boolean && bytes[i] > 1) broken("a bool is 0 or 1");
      }
      (void)tensor.to(DType::f32);
    } catch (const Error&) {
    }
  }
  sink = sum;
  try {
    (void)weights.at("no such tensor");
  } catch (const Error&) {
  }
}

void open(Bytes input) {
  set_input(input);
  try {
    read_every_tensor(Weights::open(input_path));
  } catch (const Error&) {
  }
}

void append(std::string& out, std::uint64_t value, int bytes) {
  for (; bytes > 0; --bytes, value >>= 8) out += static_cast<char>(value);
}

std::string zip(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string out, directory;
  const auto record = [](std::string& to, const std::string& name, const std::string& body, bool central) {
    append(to, 20, 2);
    if (central) append(to, 20, 2);
    append(to, 0, 8);  // flags, method, time
    append(to, detail::crc32(std::as_bytes(std::span(body))), 4);
    append(to, body.size(), 4);
    append(to, body.size(), 4);
    append(to, name.size(), 2);
    append(to, 0, 2);
  };
  for (const auto& [name, body] : files) {
    const std::size_t at = out.size();
    out += "PK\3\4";
    record(out, name, body, false);
    out += name + body;
    directory += "PK\1\2";
    record(directory, name, body, true);
    append(directory, 0, 10);  // comment, disk, attributes
    append(directory, at, 4);
    directory += name;
  }
  const std::size_t at = out.size();
  out += directory + "PK\5\6";
  append(out, 0, 4);
  append(out, files.size(), 2);
  append(out, files.size(), 2);
  append(out, directory.size(), 4);
  append(out, at, 4);
  append(out, 0, 2);
  return out;
}

}  // namespace

void safetensors(Bytes input) {
  open(input);
  std::uint64_t length = 0;
  if (input.size() < sizeof length) return;
  std::memcpy(&length, input.data(), sizeof length);
  const Bytes rest = input.subspan(sizeof length);
  const std::string header(rest.begin(),
                           rest.begin() + static_cast<std::ptrdiff_t>(std::min(length, std::uint64_t{rest.size()})));
  try {
    const std::string text = detail::format_safetensors_header(detail::parse_safetensors_header(header, "header"));
    const std::string again = detail::format_safetensors_header(detail::parse_safetensors_header(text, "header"));
    if (text != again) broken("a header that was written is read as it was");
  } catch (const Error&) {
  }
}

void npy(Bytes input) { open(input); }

void pth(Bytes input) { open(input); }

void pickle(Bytes input) {
  try {
    (void)detail::unpickle(std::as_bytes(input), "pickle");
  } catch (const Error&) {
    return;
  }
  const std::string archive = zip({{"a/data.pkl", std::string(input.begin(), input.end())},
                                   {"a/data/0", std::string(64, 'x')},
                                   {"a/data/1", std::string(64, 'y')},
                                   {"a/data/2", std::string(256, '\1')}});
  open({reinterpret_cast<const std::uint8_t*>(archive.data()), archive.size()});
}

}  // namespace lamina::fuzz
