#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/error.h"

namespace lamina::test {

/// A fresh directory, removed with everything in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::temp_directory_path() /
            ("lamina-test-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
    std::filesystem::create_directory(path_);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// Names of what is in it, sorted.
  std::vector<std::string> listing() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.good()) << path;
}

inline std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// `value` as it lies in memory, for building files by hand.
template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// What the Error that `f` throws says.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// How often `what` is in `text`.
inline int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

inline std::uint64_t fnv1a(const void* data, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return hash;
}

/// Expects `f` to throw lamina::Error with every one of `words` in its message.
template <class F>
void expect_error(F&& f, const std::vector<std::string>& words, const std::string& what = {}) {
  try {
    f();
    ADD_FAILURE() << what << ": expected an Error";
  } catch (const Error& error) {
    for (const std::string& word : words) {
      EXPECT_NE(std::string_view(error.what()).find(word), std::string_view::npos)
          << what << ": expected \"" << word << "\" in \"" << error.what() << '"';
    }
  }
}

/// Damages `good` in many seeded ways (bytes changed, cut short, repeated) and expects `load` of every result to
/// return or to throw lamina::Error: anything else ends the test program, or a sanitizer does.
inline void fuzz(const std::string& good, const std::function<void(const std::filesystem::path&)>& load) {
  const TemporaryDirectory dir;
  std::mt19937 random(2024);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int refused = 0;
  constexpr int rounds = 3000;
  for (int round = 0; round < rounds; ++round) {
    std::string bytes = good;
    for (std::size_t change = 0, changes = 1 + below(4); change < changes && !bytes.empty(); ++change) {
      const std::size_t at = below(bytes.size());
      switch (below(5)) {
        case 0: bytes[at] = static_cast<char>(below(256)); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
        case 2: bytes[at] = "\0\x7f\x80\xff[]{}\"09"[below(11)]; break;
        case 3: bytes.resize(at); break;
        default: bytes.insert(at, bytes.substr(below(bytes.size()), 1 + below(16)));
      }
    }
    std::filesystem::remove(dir / "damaged");  // some file systems flush a file that is truncated and rewritten
    write_file(dir / "damaged", bytes);
    try {
      load(dir / "damaged");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, rounds / 10);  // the damage did reach the reader
}

}  // namespace lamina::test
