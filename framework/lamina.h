#pragma once

/// Everything an embedding program needs.

#include "lamina/graph/graph.h"
#include "lamina/graph/model.h"
#include "lamina/graph/plan.h"
#include "lamina/layers/conv2d.h"
#include "lamina/layers/relu.h"
#include "lamina/layers/views.h"
#include "lamina/tensor/device.h"
#include "lamina/tensor/error.h"
#include "lamina/tensor/image.h"
#include "lamina/tensor/preprocess.h"
#include "lamina/tensor/tensor.h"
#include "lamina/tensor/weights.h"
#include "lamina/version.h"
