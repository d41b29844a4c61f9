// The targets as one program for libFuzzer: lamina_fuzz TARGET [OPTION...] [CORPUS...].

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "fuzz/mutators.h"

namespace {

const lamina::fuzz::Target* target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr const char* variable = "LAMINA_FUZZ_TARGET";  // the processes that libFuzzer starts inherit it
  if (*argc > 1 && lamina::fuzz::find_target((*argv)[1]) != nullptr) {
    ::setenv(variable, (*argv)[1], 1);
    for (int i = 1; i + 1 < *argc; ++i) (*argv)[i] = (*argv)[i + 1];
    --*argc;
  }
  const char* name = std::getenv(variable);
  target = name == nullptr ? nullptr : lamina::fuzz::find_target(name);
  if (target == nullptr) {
    std::fprintf(stderr, "usage: lamina_fuzz TARGET [libFuzzer's options] [CORPUS...]\ntargets:");
    for (const auto& known : lamina::fuzz::targets) std::fprintf(stderr, " %s", std::string(known.name).c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size <= target->max_bytes) target->run({data, size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  return lamina::fuzz::mutate(target->name, data, size, most, seed);
}
