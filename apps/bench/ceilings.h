#pragma once

#include <lamina/lamina.h>

namespace lamina::app {

/// What this device does at best, measured now.
struct Ceilings {
  double copy_gb_per_s = 0;  ///< bytes read plus bytes written by a large copy
  double gemm_tflop_per_s =
      0;  ///< a large fp32 matrix product: Eigen's on the CPU, cuBLAS's on a GPU; 0 if there is none
};

Ceilings measure_ceilings(Device device, int threads);

/// The product of im2col alone, its columns already unfolded: what a convolution by Eigen's product cannot beat.
/// Runs one product for each image and group, shared out over the pool.
void eigen_product_alone(const ConvGeometry& geometry, const float* weight, const float* columns, float* output,
                         ThreadPool& pool);

}  // namespace lamina::app
