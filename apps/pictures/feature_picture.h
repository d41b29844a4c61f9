#pragma once

#include <lamina/lamina.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::app {

inline constexpr int max_drawn_maps = 256;  // the strongest: more would not be looked at

struct FeaturePicture {
  std::string title;     ///< of the photograph
  std::string subtitle;  ///< layer and shape
  Image input;           ///< as the network sees it
  Tensor filters;        ///< [OC, C, KH, KW]; drawn when C is 1 or 3
  ChannelOrder order;    ///< of the filters' channels
  Tensor maps;           ///< [1, OC, OH, OW]
};

/// One picture: the input, the strongest map over it, and the filters on the left; on the right the feature maps,
/// numbered alike and sharing one colour scale, which is drawn too, and the next strongest over the input. Those shown
/// over the input are framed.
Image draw(const FeaturePicture& picture);

/// The photograph and its strongest maps in one row, for a sheet of many.
Image draw_card(const FeaturePicture& picture);

/// Cards of one size below each other in columns, with a title.
Image draw_sheet(std::string_view title, std::span<const Image> cards);

}  // namespace lamina::app
