#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lamina/kernel/kernel.h"

/// Every row of every table of a GPU, each run on what it takes: cells of the matrix of kernels and devices.
namespace lamina::test {

/// How many problems a row took.
struct Taken {
  int regular = 0;
  int odd = 0;  ///< extents that fill no tile, vector or warp
};

/// A row, and what tries it on the problems of its table: which does it take? Where it is to be `run`, every result is
/// compared with a reference, its bits with those of a second run, and that once more with NaN and Inf among the
/// operands.
struct TableRow {
  using Try = Taken (*)(std::string_view kernel, const DeviceDescription& device, bool run);
  std::string problem, kernel;
  Try try_on;
};

template <class Problem>
void add_rows(std::vector<TableRow>& rows, TableRow::Try try_on) {
  for (const Kernel<Problem>& kernel : kernels<Problem>(DeviceType::cuda)) {
    rows.push_back({std::string(Problem::what), std::string(kernel.name), try_on});
  }
}

void add_layer_rows(std::vector<TableRow>& rows);       // convolutions and linear layers
void add_activation_rows(std::vector<TableRow>& rows);  // of cuda/kernels.cpp
void add_array_rows(std::vector<TableRow>& rows);       // of cuda/array
void add_lookup_rows(std::vector<TableRow>& rows);      // of cuda/lookup
void add_product_rows(std::vector<TableRow>& rows);     // of cuda/product
void add_recurrent_rows(std::vector<TableRow>& rows);   // of cuda/recurrent

}  // namespace lamina::test
