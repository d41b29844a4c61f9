#pragma once

#include <lamina/lamina.h>

#include <string>
#include <vector>

#include "shown_layer.h"

namespace lamina::app {

/// One number of a map, and what it was made of: the window's pixels times the filter's weights, added up.
struct WindowSum {
  int filter = 0, row = 0, column = 0;  ///< of the maps
  int top = 0, left = 0;  ///< the window's first pixel of what the network sees; it may lie in the padding
  Size2d kernel = 1, dilation = 1;
  std::vector<double> products;  ///< [KH, KW]: for each pixel of the window, of all its colours
  double sum = 0;                ///< of them, in double precision
  float bias = 0;                ///< what the filter adds everywhere
  float value = 0;               ///< the map's, as the network computed it
};

/// Of the place whose window has its middle nearest to (x, y), in pixels of what the network sees. `filter` -1: the one
/// that answers the most there. Throws Error unless the layer's filters see three colours and `filter` is one of them.
WindowSum explain(const ShownLayer& layer, const Tensor& seen,  // [1, 3, H, W], as the network sees it
                  const Tensor& maps,                           // [1, OC, OH, OW]
                  double x, double y, int filter);

struct WindowPicture {
  std::string title, subtitle;
  Image input;         ///< as the network sees it
  ShownLayer layer;    ///< with filters
  ChannelOrder order;  ///< of the filters' channels
  Tensor maps;         ///< [1, OC, OH, OW]
  WindowSum window;
};

/// The photograph with the window on it and the map with its number marked; below them the window enlarged, the filter,
/// the products, and the number in words.
Image draw(const WindowPicture& picture);

}  // namespace lamina::app
