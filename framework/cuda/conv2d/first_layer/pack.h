#pragma once

#include <cstdint>
#include <vector>

#include "lamina/cuda/conv2d/first_layer/plan.h"

namespace lamina::cuda::first_layer {

/// Weights as the kernel reads them.
struct Packed {
  /// [splits][steps][2][columns / 8][8][8] 16-bit operands: wgmma's core matrices of 8 columns x 8 K. Columns are the
  /// block's filters; with split operands the residuals follow as as many columns again.
  std::vector<std::uint16_t> operands;
  std::vector<float> scale;           // [splits * filters]: undoes the powers of two of the filter and of the input
  std::vector<float> bias;            // [splits * filters]
  std::vector<float> exact;           // [C * KH * KW, padded][splits * filters]: as the exact path multiplies them
  std::vector<std::uint8_t> inexact;  // [splits * filters]: 1 if the filter's operands are not close enough
  /// However these many values of a window are chosen, no filter has more than half of its sum |w| there.
  int tolerated = 0;
};

Packed pack(const Plan& plan, const Steps& steps, Precision precision,
            const float* weight,  // [OC, C, KH, KW]
            const float* bias);   // [OC] or null

}  // namespace lamina::cuda::first_layer
