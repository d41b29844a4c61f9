// The matrix of kernels and devices: every row of every table of a GPU, on the GPU as it is and as if it were of
// compute capability 8.0, meets its reference at regular and odd extents, puts NaN and Inf where they belong, and has
// the same bits in every run. A row that is added to a table is a cell here, and fails until there is a problem that it
// takes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "cuda/tables/rows.h"
#include "lamina/cuda/runtime/cublas.h"
#include "lamina/tensor/device_memory.h"
#include "support/devices.h"

namespace lamina::test {
namespace {

struct Cell {
  TableRow row;
  bool before_hopper = false;

  DeviceDescription device() const {
    const DeviceDescription here = describe(Device::cuda());
    return before_hopper ? as_ampere(here) : here;
  }
  std::string name() const {
    std::string text = row.problem + "_" + row.kernel + (before_hopper ? "_as_sm80" : "_here");
    std::ranges::replace_if(
        text, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return text;
  }
};

std::vector<Cell> cells() {
  std::vector<TableRow> rows;
  add_layer_rows(rows);
  add_activation_rows(rows);
  add_array_rows(rows);
  add_lookup_rows(rows);
  std::vector<Cell> result;
  for (const bool before_hopper : {false, true}) {
    for (const TableRow& row : rows) result.push_back({row, before_hopper});
  }
  return result;
}

/// Made of wgmma.
bool is_of_hopper(const TableRow& row) {
  return row.kernel == "first_layer" || row.kernel == "channels_last" || row.kernel == "stream";
}

bool has_cublas() {
  try {
    return cuda::Cublas::on_device(0) != nullptr;
  } catch (const Error&) {
    return false;
  }
}

class EveryRow : public testing::TestWithParam<Cell> {};

TEST_P(EveryRow, IsRightOnWhatItTakes) {
  if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  const auto& [row, before_hopper] = GetParam();
  const DeviceDescription device = GetParam().device();
  if (before_hopper && describe(Device::cuda()).architecture <= 80) GTEST_SKIP() << "the other cell says it";
  if ((row.kernel == "cublas" || row.kernel == "im2col") && !has_cublas()) GTEST_SKIP() << "there is no cuBLAS here";
  const Taken taken = row.run(row.kernel, device);
  if (is_of_hopper(row) && !device.wgmma) {
    EXPECT_EQ(taken.regular + taken.odd, 0) << "it needs wgmma";
  } else {
    EXPECT_GT(taken.regular, 0) << "no problem of its own here";
    EXPECT_GT(taken.odd, 0) << "no odd problem of its own here";
  }
  RecordProperty("problems", taken.regular + taken.odd);
}

INSTANTIATE_TEST_SUITE_P(Tables, EveryRow, testing::ValuesIn(cells()),
                         [](const auto& cell) { return cell.param.name(); });

}  // namespace
}  // namespace lamina::test
