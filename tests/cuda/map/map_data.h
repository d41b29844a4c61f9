#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cuda/map/ptx_emulator.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/map/plain.h"
#include "lamina/cuda/map/generate.h"
#include "lamina/cuda/map/ptx_text.h"

/// Maps by the emulator, beside what plain loops make of them.
namespace lamina::test {

/// How many elements of an array a view reaches.
inline std::int64_t reach_of(const MapProblem& map, const MapView& view) {
  std::int64_t last = view.offset;
  for (std::size_t a = 0; a < map.extents.size(); ++a)
    last += (map.extents[a] - 1) * std::max<std::int64_t>(view.strides[a], 0);
  for (const MapView::Table& table : view.tables) last += *std::ranges::max_element(*table.entries);
  return last + 1;
}

/// A Map, operands drawn from a seed, and what became of them: bytes of each output.
struct MapRun {
  struct Array {
    DType dtype = DType::f32;
    std::int64_t count = 1;
    std::vector<std::byte> bytes;

    void set(const std::vector<double>& values) {
      bytes.resize(values.size() * size_of(dtype));
      cpu::store(dtype, values.data(), bytes.data(), static_cast<std::int64_t>(values.size()));
    }
    std::vector<double> doubles() const {
      std::vector<double> values(static_cast<std::size_t>(count));
      cpu::load(dtype, bytes.data(), values.data(), count);
      return values;
    }
  };
  MapProblem whole, map;  ///< as it was written, and simplified
  std::vector<Array> inputs, outputs;

  /// `guarded`: elements of input 0 where guards say how many there are; 0: those that the view reaches.
  explicit MapRun(const MapProblem& problem, unsigned seed = 1, std::int64_t guarded = 0)
      : whole(problem), map(simplified(problem)) {
    validate(whole);
    validate(map);
    const auto add = [&](std::vector<Array>& arrays, const MapView& view) {
      const auto at = static_cast<std::size_t>(view.array);
      if (arrays.size() <= at) arrays.resize(at + 1);
      arrays[at].dtype = view.dtype;
      arrays[at].count =
          std::max(arrays[at].count, view.guards.empty() || guarded == 0 ? reach_of(map, view) : guarded);
    };
    for (const MapView& view : map.loads) add(inputs, view);
    for (const auto& store : map.stores) add(outputs, store.view);
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (Array& array : inputs) {
      std::vector<double> values(static_cast<std::size_t>(array.count));
      for (double& v : values)
        v = is_float(array.dtype) ? normal(random)
                                  : static_cast<double>(random() % (array.dtype == DType::boolean ? 2 : 7));
      array.set(values);
    }
  }

  cuda::MapAlignment alignment() const {
    return {std::vector<std::size_t>(inputs.size(), 16), std::vector<std::size_t>(outputs.size(), 16)};
  }
  cuda::MapKernel kernel(int architecture, int processors = 132) const {
    const cuda::MapAlignment a = alignment();
    return cuda::generate(map, cuda::schedule(map, a, processors), a, cuda::PtxFunctions::all(), "map", architecture);
  }

  void plainly() {
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Array& input : inputs) from.push_back(input.bytes.data());
    for (Array& output : outputs)
      output.set(std::vector<double>(static_cast<std::size_t>(output.count))), to.push_back(output.bytes.data());
    cpu::evaluate(whole, from, to);
  }

  void emulated(int architecture, int processors = 132, bool backwards = false) {
    const cuda::MapKernel k = kernel(architecture, processors);
    std::vector<Range> parameters;
    for (Array& input : inputs) parameters.push_back({input.bytes.data(), input.bytes.size(), false});
    for (Array& output : outputs) {
      output.set(std::vector<double>(static_cast<std::size_t>(output.count)));
      parameters.push_back({output.bytes.data(), output.bytes.size(), true});
    }
    std::vector<std::vector<std::int32_t>> tables;
    for (const MapView::Table* table : k.tables) tables.emplace_back(table->entries->begin(), table->entries->end());
    for (auto& table : tables) parameters.push_back({table.data(), 4 * table.size(), false});
    std::vector<std::byte> workspace(static_cast<std::size_t>(k.workspace)),
        counters(static_cast<std::size_t>(k.counters));
    if (k.parts > 1) {
      parameters.push_back({workspace.data(), workspace.size(), true});
      parameters.push_back({counters.data(), counters.size(), true});
    } else {  // beside both neighbours
      parameters.push_back({reinterpret_cast<void*>(std::uintptr_t{3}), 0, false});
    }
    emulate(k, parameters, backwards);
    EXPECT_TRUE(std::ranges::all_of(counters, [](std::byte b) { return b == std::byte{}; }))
        << "counters are left behind";
  }
};

/// Relative to 1 and the value: what roundings on the way, and the last one, come to.
inline double tolerance_of(DType dtype) { return dtype == DType::bf16 ? 1e-2 : dtype == DType::f16 ? 1.3e-3 : 5e-6; }

/// The results of one are the other's.
inline void expect_same(const MapRun& got, const MapRun& want, const std::string& what) {
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    const std::vector<double> a = got.outputs[i].doubles(), b = want.outputs[i].doubles();
    for (std::size_t j = 0; j < a.size(); ++j) {
      const bool same = a[j] == b[j] || (std::isnan(a[j]) && std::isnan(b[j]));
      ASSERT_TRUE(same || std::abs(a[j] - b[j]) <= tolerance_of(got.outputs[i].dtype) * (1 + std::abs(b[j])))
          << what << ": element " << j << " of output " << i << " is " << a[j] << ", expected " << b[j];
    }
  }
}

/// The emulated kernel's results are the plain loops'.
inline void expect_right(const MapProblem& problem, int architecture, const std::string& what, std::int64_t guarded = 0,
                         unsigned seed = 1, int processors = 132) {
  MapRun want(problem, seed, guarded), got(problem, seed, guarded);
  want.plainly();
  ASSERT_NO_THROW(got.emulated(architecture, processors, seed % 2 == 0)) << what;
  expect_same(got, want, what + " for " + std::to_string(architecture));
}

}  // namespace lamina::test
