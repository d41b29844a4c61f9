// Runs the targets over inputs that are there, by no fuzzer: those of a corpus, each target's in a folder of its name.
//   fuzz_replay CORPUS...         all of them
//   fuzz_replay TARGET FILE...    these
//   fuzz_replay --threads FILE... these requests to the server, by eight threads at the same time

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "fuzz/target.h"

namespace {

std::string current;  // the input, to be named when a signal ends the program

extern "C" void name_input(int signal) {
  static_cast<void>(!::write(2, current.data(), current.size()));
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

namespace fs = std::filesystem;
using lamina::fuzz::Target;

bool replay(const Target& target, const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());  // of exactly its size
  try {
    target.run(input);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), error.what());
    return false;
  }
}

/// Every thread begins with another of the requests.
int by_threads(std::span<char* const> files) {
  const Target* http = lamina::fuzz::find_target("http");
  if (http == nullptr || files.empty()) return 1;
  std::atomic<int> failed = 0;
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < files.size(); ++i) failed += replay(*http, files[(i + 3 * t) % files.size()]) ? 0 : 1;
    });
  }
  threads.clear();
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTERM}) std::signal(signal, name_input);
  int failed = 0, count = 0;
  const auto run = [&](const Target& target, const fs::path& path) {
    current = "input: " + path.string() + '\n';
    failed += replay(target, path) ? 0 : 1;
    ++count;
  };
  if (argc > 1 && std::string_view(argv[1]) == "--threads") return by_threads({argv + 2, argv + argc});
  if (const Target* target = argc > 2 ? lamina::fuzz::find_target(argv[1]) : nullptr) {
    for (int i = 2; i < argc; ++i) run(*target, argv[i]);
  } else if (argc > 1) {
    for (const Target& each : lamina::fuzz::targets) {
      const int before = count;
      for (int i = 1; i < argc; ++i) {
        std::error_code none;  // not every folder has something for every target
        for (const auto& entry : fs::directory_iterator(fs::path(argv[i]) / each.name, none)) run(each, entry.path());
      }
      std::printf("%s: %d inputs\n", std::string(each.name).c_str(), count - before);
      if (count == before) ++failed;  // a corpus that is gone would test nothing
    }
  } else {
    std::fprintf(stderr, "usage: fuzz_replay CORPUS... | fuzz_replay TARGET FILE...\n");
    return 2;
  }
  return failed == 0 && count > 0 ? 0 : 1;
}
