#pragma once

#include <lamina/lamina.h>

#include <string>

namespace lamina::app {

/// The layer whose feature maps are shown, and the filters that made them where they can be looked at.
struct ShownLayer {
  std::string name;  ///< of the node
  Tensor filters;    ///< [OC, 1 or 3, KH, KW] of a convolution whose inputs are colours; undefined elsewhere
};

/// The node called `name`; if that is empty, the first convolution with the ReLU right after it. `source` is what
/// errors call the model. Throws Error if there is no such layer, naming those that are called almost so.
ShownLayer shown_layer(const Graph& graph, const std::string& name, const std::string& source);

}  // namespace lamina::app
