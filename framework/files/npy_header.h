#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::detail {

/// The dict literal of a .npy file, e.g. {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

/// Parses exactly that kind of literal and nothing more of Python. `path` is for messages. Throws Error for other
/// keys, missing or repeated ones, record dtypes, negative or overflowing extents, text after the dict.
NpyHeader parse_npy_header(std::string_view text, const std::string& path);

/// The literal for a C-order array.
std::string format_npy_header(std::string_view descr, const std::vector<std::int64_t>& shape);

}  // namespace lamina::detail
