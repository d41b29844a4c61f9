#pragma once

#include "cuda/conv2d/family.h"
#include "lamina/cuda/conv2d/mma/gathered/choice.h"

/// What the tests of the implicit GEMM share: cases, and its tiles.
namespace lamina::test {

/// f32 nchw in, which is staged, f32 nhwc out.
inline KernelOptions implicit(Precision precision, bool relu = false, const Tuning& tuning = {}) {
  return {.kernel = "implicit_gemm",
          .precision = precision,
          .output = {DType::f32, Layout::nhwc},
          .relu = relu,
          .tuning = tuning};
}

/// As inner layers are stored: read in place, where channels fill units.
inline KernelOptions stored(Precision precision, bool relu = false, const Tuning& tuning = {}) {
  KernelOptions options = implicit(precision, relu, tuning);
  options.input = options.output = {storage_type(precision), Layout::nhwc};
  return options;
}

/// The tiles on offer here for one convolution, as Tuning::tile counts them.
inline std::vector<int> tiles_for(const ConvGeometry& g, Precision precision) {
  namespace family = cuda::mma::gathered;
  const family::KernelSet set = family::kernels_of(precision);
  family::Fold fold;  // of fewer channels than units have; with four, pixels are read in place
  const ConvGeometry multiplied = g.in_channels < family::Fold::channels ? family::folded(g, precision, fold) : g;
  const int unit_bytes = family::make_layout(multiplied, precision).unit_bytes;
  std::vector<int> result;
  for (std::size_t i = 0; i < set.tiles.size(); ++i) {
    if (set.tiles[i].unit_bytes == unit_bytes) result.push_back(static_cast<int>(i));
  }
  return result;
}

// Around tiles of 64, 96 and 128 filters, 64 and 128 pixels, and steps of 32 and 64 terms.
inline const std::vector<Case> gathered_cases = {
    {},
    conv("3x5x7 -> 2, k 3"),
    conv("n2 1x28x28 -> 6, k 5, p 2"),
    conv("1x17x13 -> 1, k 3x5, s 2x3, p 1x2"),
    conv("2x9x9 -> 5, k 2"),
    conv("3x63x63 -> 96, k 11, s 4, p 2"),
    conv("n3 3x35x35 -> 95, k 11, s 4, p 2"),
    conv("3x39x31 -> 97, k 7, s 2, p 3"),
    conv("4x23x23 -> 64, k 7, s 2, p 3"),
    conv("n2 64x9x11 -> 192, k 5, p 2"),
    conv("192x9x8 -> 384, k 3, p 1"),
    conv("n2 384x4x5 -> 256, k 3, p 1"),
    conv("16x8x8 -> 63"),
    conv("16x8x8 -> 64"),
    conv("16x8x8 -> 65"),
    conv("32x7x9 -> 127"),
    conv("32x16x8 -> 128"),
    conv("32x3x43 -> 129"),
    conv("31x11x11 -> 33"),
    conv("33x1x127 -> 17"),
    conv("63x1x128 -> 96"),
    conv("64x1x129 -> 95"),
    conv("65x65x1 -> 97"),
    conv("5x12x12 -> 8, k 3, p 1"),
    conv("6x12x10 -> 8, k 3x2, p 1x0"),
    conv("7x10x12 -> 9, k 1x3, p 0x1"),
    conv("9x12x12 -> 10, k 3, s 2x1"),
    conv("17x19x19 -> 23, k 3, s 5x7"),
    conv("8x20x20 -> 16, k 2, s 6"),
    conv("8x20x22 -> 16, k 3, p 2, d 2"),
    conv("8x25x19 -> 12, k 3x5, p 4x1, d 4x3"),
    conv("4x9x9 -> 4, k 3, s 2, p 7, d 3"),
    conv("3x2x2 -> 3, k 5, p 4"),
    conv("2x1x1 -> 130, k 3, p 1"),
    conv("n2 32x14x14 -> 32, k 3, p 1, g 32"),
    conv("n2 12x9x9 -> 24, k 3, p 1, g 12"),
    conv("12x11x9 -> 8, k 3, p 1, g 4"),
    conv("96x9x9 -> 256, k 5, p 2, g 2"),
    conv("n2 40x8x8 -> 130, k 3, p 1, g 2"),
    conv("1x1x300 -> 3, k 1x127"),
    conv("2x200x3 -> 3, k 127x2, s 3x1, p 60x0"),
    conv("1x1x40000 -> 4, k 1x16, s 1x4, p 0x5"),
    conv("n37 8x1x1 -> 11"),
    conv("n131 3x3x3 -> 7, k 3"),
    conv("n5 24x5x5 -> 40, k 3, p 1"),
    conv("n64 20x2x1 -> 21, k 2x1"),
    conv("1024x2x3 -> 70"),
    conv("512x4x4 -> 31, k 3, p 1"),
    conv("257x5x5 -> 67, k 2x3, s 1x2, p 1"),
    conv("3x32x32 -> 64, k 3, p 1"),
    conv("48x10x10 -> 96, s 3"),
    conv("100x12x11 -> 104, k 3, p 1"),
};

}  // namespace lamina::test
