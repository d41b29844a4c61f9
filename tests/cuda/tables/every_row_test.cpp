// The matrix of kernels and devices: every row of every table of a GPU, on the GPU as it is and as if it were older,
// meets its reference at regular and odd extents, puts NaN and Inf where they belong, and has the same bits in every
// run. A row that is added to a table is a cell here, and fails until there is a problem that it takes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "cuda/tables/rows.h"
#include "lamina/cuda/runtime/architectures.h"
#include "lamina/cuda/runtime/cublas.h"
#include "lamina/tensor/device_memory.h"
#include "support/devices.h"

namespace lamina::test::every_row_test {
namespace {

struct Cell {
  TableRow row;
  int architecture = 90;  ///< compute capability, times ten

  std::string name() const {
    std::string text = row.problem + "_" + row.kernel + "_sm" + std::to_string(architecture);
    std::ranges::replace_if(
        text, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return text;
  }
  /// The least compute capability of which the kernel has what it needs.
  int least() const {
    const auto is = [&](std::string_view name) { return row.kernel == name; };
    if (is("first_layer") || is("channels_last") || is("stream") || is("int8_wgmma")) return 90;  // wgmma
    if (is("narrow") || is("stem") || is("mma") || is("few") || is("split") || is("planes") || is("implicit_gemm"))
      return 80;  // mma.sync, cp.async
    if (is("int8_depthwise") || is("int8_stem") || is("int8_mma")) return 80;
    return is("online") ? 80 : 0;  // shared memory for its tiles
  }
  /// Whether the row has problems of its own on that device, of both kinds, exactly if it should.
  void expect(const Taken& taken, const DeviceDescription& device) const {
    if (least() == 90 ? device.wgmma : device.architecture >= least()) {
      EXPECT_GT(taken.regular, 0) << "no problem of its own here";
      EXPECT_GT(taken.odd, 0) << "no odd problem of its own here";
    } else {
      EXPECT_EQ(taken.regular + taken.odd, 0) << "it needs compute capability " << least();
    }
  }
  bool needs_cublas() const { return row.kernel == "cublas" || row.kernel == "im2col"; }
};

std::vector<Cell> cells() {
  std::vector<TableRow> rows;
  add_layer_rows(rows);
  add_activation_rows(rows);
  add_array_rows(rows);
  add_lookup_rows(rows);
  add_recurrent_rows(rows);
  add_product_rows(rows);
  std::vector<Cell> result;
  for (const int architecture : {90, 80, 75}) {
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

/// A GPU need not be there for that.
TEST_P(EveryRow, TakesItsProblems) {
  if (!cuda::compiled_for_90a()) GTEST_SKIP() << "this build has no sm_90a code";
  if (GetParam().row.kernel == "cublas") GTEST_SKIP() << "it takes what it does where cuBLAS is";
  const DeviceDescription device = detail::limited_to(GetParam().architecture, h200());
  GetParam().expect(GetParam().row.try_on(GetParam().row.kernel, device, false), device);
}

TEST_P(EveryRow, IsRightOnThem) {
  if (detail::cuda_device_count() == 0) GTEST_SKIP() << detail::cuda_unavailable_reason();
  const DeviceDescription here = describe(Device::cuda());
  if (GetParam().architecture > here.architecture) GTEST_SKIP() << "the GPU is of " << here.architecture;
  if (GetParam().needs_cublas() && !has_cublas()) GTEST_SKIP() << "there is no cuBLAS here";
  const DeviceDescription device = detail::limited_to(GetParam().architecture, here);
  const Taken taken = GetParam().row.try_on(GetParam().row.kernel, device, true);
  GetParam().expect(taken, device);
  RecordProperty("problems", taken.regular + taken.odd);
}

INSTANTIATE_TEST_SUITE_P(Tables, EveryRow, testing::ValuesIn(cells()),
                         [](const auto& cell) { return cell.param.name(); });

}  // namespace
}  // namespace lamina::test::every_row_test
