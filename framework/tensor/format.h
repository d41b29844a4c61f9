#pragma once

#include "lamina/tensor/dtype.h"

namespace lamina {

/// How the elements of an activation [N, C, H, W] follow each other.
enum class Layout { nchw, nhwc, blocked };

struct Format {
  DType dtype = DType::f32;
  Layout layout = Layout::nchw;
};

}  // namespace lamina
