// compare_bits MODEL...: whether quantised networks answer the same bits on every device that there is, as it is and
// with less, for every batch and number of threads; and a sum of these bits, to be compared with another machine's.
//
//   g++ -std=c++20 -O2 -Iinclude scripts/quantize/compare_bits.cpp build/release/lib/liblamina.a ... -o compare_bits
//
// (CONTRIBUTING.md says how a program links Lamina.) A row for each model: the sum, runs with these bits of all runs,
// and which differ. Models are such as scripts/race/networks.py's quantize() writes.

#include <lamina/lamina.h>

#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

using lamina::DeviceDescription;
using lamina::InstructionSet;
using lamina::Tensor;

struct Target {
  std::string name;
  DeviceDescription description;
};

std::vector<Target> targets() {
  const DeviceDescription cpu = lamina::describe(lamina::Device::cpu());
  std::vector<Target> result = {{"cpu", cpu}};
  DeviceDescription less = cpu;
  if (less.amx_int8) less.amx_int8 = less.amx_bf16 = false, result.push_back({"cpu without AMX", less});
  if (less.avx512_vnni) less.avx512_vnni = less.avx512_bf16 = false, result.push_back({"cpu without VNNI", less});
  if (less.instructions == InstructionSet::avx512)
    less.instructions = InstructionSet::avx2, result.push_back({"AVX2", less});
  if (less.neon_dot) less.neon_dot = false, result.push_back({"NEON without SDOT", less});
  less.instructions = InstructionSet::scalar, result.push_back({"scalar", less});
  if (!lamina::best_device().is_cpu()) {
    const DeviceDescription gpu = lamina::describe(lamina::best_device());
    result.push_back({"cuda", gpu});
    for (const int architecture : {80, 75}) {
      if (architecture < gpu.architecture)
        result.push_back({"cuda as of " + std::to_string(architecture), lamina::detail::limited_to(architecture, gpu)});
    }
  }
  return result;
}

/// The answers to that many images, of which the first are the same for each batch.
std::vector<char> answers(const lamina::Model& model, const Target& target, std::int64_t batch, int threads,
                          lamina::Precision precision) {
  const lamina::CompileOptions options = {.device = target.description.device,
                                          .batch = batch,
                                          .precision = precision,
                                          .threads = threads,
                                          .description = target.description};
  lamina::Plan plan = model.graph.compile(options);
  Tensor images(plan.input_shapes()[0]);
  std::mt19937 random(7);  // whose numbers the standard fixes, unlike those of its distributions
  for (float& value : images.values<float>()) value = static_cast<float>(random() >> 8) * 0x1p-22F - 2;
  const Tensor found = plan.run(images).to(lamina::Device::cpu());
  std::vector<char> result(found.bytes());
  std::memcpy(result.data(), found.raw(), result.size());
  return result;
}

}  // namespace

int main(int count, char** models) {
  int differ = 0;
  for (int i = 1; i < count; ++i) {
    const lamina::Model model = lamina::load_model(models[i]);
    std::vector<char> expected;
    int same = 0, all = 0;
    std::string others;
    const auto run = [&](const Target& target, std::int64_t batch, int threads, lamina::Precision precision) {
      const std::vector<char> found = answers(model, target, batch, threads, precision);
      if (expected.empty()) expected = found;
      const std::size_t shared = std::min(found.size(), expected.size());
      ++all;
      if (std::memcmp(found.data(), expected.data(), shared) == 0)
        ++same;
      else
        others += "; differs: " + target.name + ", batch " + std::to_string(batch);
    };
    for (const Target& target : targets()) {
      run(target, 2, 2, lamina::Precision::fp32);
      run(target, 1, 1, lamina::Precision::fp32);
      if (!target.description.device.is_cpu()) run(target, 5, 1, lamina::Precision::fp16);
    }
    std::uint64_t sum = 0xcbf29ce484222325;  // FNV-1a
    for (const char byte : expected) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    std::printf("%s: %016llx, %d of %d runs%s\n", models[i], static_cast<unsigned long long>(sum), same, all,
                others.c_str());
    std::fflush(stdout);
    differ += all - same;
  }
  return differ == 0 ? 0 : 1;
}
