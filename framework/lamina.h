#pragma once

/// Everything an embedding program needs, but for what a build can leave out: detectors, quantizing and writing .onnx
/// files have headers of their own (docs/embedding.md).

// One line in plain words, ahead of what an older standard makes of the headers.
#if __cplusplus < 202002L
#error "Lamina needs C++20: compile with -std=c++20, or target_compile_features(your_target PRIVATE cxx_std_20)"
#endif

#include "lamina/base/error.h"
#include "lamina/base/thread_pool.h"
#include "lamina/base/version.h"
#include "lamina/files/weights.h"
#include "lamina/graph/graph.h"
#include "lamina/graph/model.h"
#include "lamina/graph/networks.h"
#include "lamina/graph/photographs.h"
#include "lamina/graph/scores.h"
#include "lamina/images/image.h"
#include "lamina/images/preprocess.h"
#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/concat.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/elementwise.h"
#include "lamina/layers/linear.h"
#include "lamina/layers/local_response_norm.h"
#include "lamina/layers/pool2d.h"
#include "lamina/layers/softmax.h"
#include "lamina/layers/views.h"
#include "lamina/ops/op.h"
#include "lamina/ops/register_op.h"
#include "lamina/plan/plan.h"
#include "lamina/pool/plan_pool.h"
#include "lamina/tensor/device.h"
#include "lamina/tensor/parse_format.h"
#include "lamina/tensor/tensor.h"
