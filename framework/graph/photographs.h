#pragma once

#include <optional>

#include "lamina/graph/graph.h"

namespace lamina {

/// What an input that takes pictures is like: [N, C, H, W] or [N, H, W, C], of three channels or a grey one.
struct PictureInput {
  bool channels_last = false;
  int channels = 3;
  std::int64_t height = 0, width = 0;  ///< may be `lamina::open`
};

/// Of the shape of an input; nothing where it is no picture's.
LAMINA_API std::optional<PictureInput> picture_input(const Shape& shape);

/// Has the graph's one input take pictures f32 [N, 3, H, W], whatever form of them it takes: they are made grey, turned
/// to channels last, rounded to the input's type by nodes in front of it. A graph that takes them already, or takes no
/// pictures, stays as it is. What makes photographs of preprocessed pixels can then run any classifier.
LAMINA_API void take_photographs(Graph& graph);

/// The same of pictures in place of a graph: what the graph's one input takes, of f32 [N, 3, H, W] on the CPU.
LAMINA_API Tensor as_input(const Tensor& pictures, const Graph& graph);

}  // namespace lamina
