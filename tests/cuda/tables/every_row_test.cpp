// The matrix of kernels and devices: every row of every table of a GPU, on the GPU as it is and as if it were older,
// meets its reference at regular and odd extents, puts NaN and Inf where they belong, and has the same bits in every
// run. A row that is added to a table is a cell here, and fails until there is a problem that it takes.

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
  int architecture = 0;  ///< compute capability, times ten; 0: the GPU's own

  DeviceDescription device() const {
    const DeviceDescription here = describe(Device::cuda());
    return architecture == 0 ? here : detail::limited_to(architecture, here);
  }
  std::string name() const {
    std::string text = row.problem + "_" + row.kernel + "_" +
                       (architecture == 0 ? std::string("here") : "as_" + std::to_string(architecture));
    std::ranges::replace_if(
        text, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return text;
  }
  /// The least compute capability that the kernel's instructions need.
  int least() const {
    const auto is = [&](std::string_view name) { return row.kernel == name; };
    if (is("first_layer") || is("channels_last") || is("stream")) return 90;
    return is("mma") || is("implicit_gemm") ? 80 : 0;
  }
};

std::vector<Cell> cells() {
  std::vector<TableRow> rows;
  add_layer_rows(rows);
  add_activation_rows(rows);
  add_array_rows(rows);
  add_lookup_rows(rows);
  std::vector<Cell> result;
  for (const int architecture : {0, 80, 75}) {
    for (const TableRow& row : rows) result.push_back({row, architecture});
  }
  return result;
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
  const Cell& cell = GetParam();
  const int own = describe(Device::cuda()).architecture;
  if (cell.architecture >= own) GTEST_SKIP() << "the GPU is of " << own;
  const std::string& kernel = cell.row.kernel;
  if ((kernel == "cublas" || kernel == "im2col") && !has_cublas()) GTEST_SKIP() << "there is no cuBLAS here";
  const DeviceDescription device = cell.device();
  const Taken taken = cell.row.run(kernel, device);
  const bool able = cell.least() == 90 ? device.wgmma : device.architecture >= cell.least();
  if (able) {
    EXPECT_GT(taken.regular, 0) << "no problem of its own here";
    EXPECT_GT(taken.odd, 0) << "no odd problem of its own here";
  } else {
    EXPECT_EQ(taken.regular + taken.odd, 0) << "it needs compute capability " << cell.least();
  }
  RecordProperty("problems", taken.regular + taken.odd);
}

INSTANTIATE_TEST_SUITE_P(Tables, EveryRow, testing::ValuesIn(cells()),
                         [](const auto& cell) { return cell.param.name(); });

}  // namespace
}  // namespace lamina::test
