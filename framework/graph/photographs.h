#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "lamina/graph/graph.h"
#include "lamina/images/preprocess.h"

namespace lamina {

/// The form of an input that takes pictures: [N, C, H, W] or [N, H, W, C], with three channels or one grey channel; or
/// [3, H, W], one picture.
struct PictureInput {
  bool channels_last = false;
  int channels = 3;
  std::int64_t height = 0, width = 0;  ///< may be `lamina::open`
  int down = 2;                        ///< the axis of the height; that of the width is behind it
};

/// The form of an input with that shape; empty if it does not take pictures.
LAMINA_API std::optional<PictureInput> picture_input(const Shape& shape);

/// Changes the graph so that its one input takes pictures f32 [N, 3, H, W]. Nodes in front of the old input make them
/// grey, turn them to channels last, or round them to the input's type, as it needs. A graph that takes such pictures
/// already, or takes no pictures, stays as it is. A program can then prepare photographs alike for every classifier.
LAMINA_API void take_photographs(Graph& graph);

/// The usual way of that name for pictures of the size that the graph's one input fixes, with the same margin around
/// them. A graph that leaves its size open, or takes no pictures, changes nothing. Throws Error as without a graph.
LAMINA_API Preprocess named_preprocess(std::string_view name, const Graph& graph);

/// The same preprocessing for pictures of height x width, with the same margin around them.
LAMINA_API Preprocess resized_to(Preprocess settings, int height, int width);

/// Throws Error unless photographs prepared like this are numbers that the graph's one input takes: one of whole
/// numbers takes levels, of a mean of 0, a std of 1 and a divisor of 1.
LAMINA_API void require_levels(const Graph& graph, const Preprocess& preprocess);

/// What names of nodes hold that `take_photographs` put in front of a model's own.
inline constexpr std::string_view of_photographs = " of photographs.";

/// What red, green and blue are of grey: Pillow's "L", and torchvision's Grayscale.
inline constexpr std::array<float, 3> grey_shares = {0.299f, 0.587f, 0.114f};

/// Converts pictures instead of the graph: from f32 [N, 3, H, W] on the CPU to the form of the graph's one input.
/// Throws Error where that takes whole numbers of a kind that they are not.
LAMINA_API Tensor as_input(const Tensor& pictures, const Graph& graph);

}  // namespace lamina
