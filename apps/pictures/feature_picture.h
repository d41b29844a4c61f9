#pragma once

#include <lamina/lamina.h>

#include <string>

namespace lamina::app {

struct FeaturePicture {
  std::string title;     ///< of the photograph
  std::string subtitle;  ///< layer and shape
  Image input;           ///< as the network sees it
  Tensor filters;        ///< [OC, C, KH, KW]; drawn when C is 1 or 3
  ChannelOrder order;    ///< of the filters' channels
  Tensor maps;           ///< [1, OC, OH, OW]
};

/// One picture: the input and the filters on the left, the feature maps on the right, numbered alike and sharing one
/// colour scale, which is drawn too.
Image draw(const FeaturePicture& picture);

}  // namespace lamina::app
