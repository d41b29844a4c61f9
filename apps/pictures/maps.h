#pragma once

#include <lamina/lamina.h>

#include <charconv>
#include <span>
#include <string>
#include <vector>

#include "pictures/canvas.h"

/// Feature maps: which of them are the strongest, and how they are drawn.
namespace lamina::app {

inline int extent(const Tensor& tensor, int dimension) { return static_cast<int>(tensor.shape()[dimension]); }

std::string written(double value, std::chars_format format, int digits);

/// Of one map: the mean of its values, the largest of them, and the part of its places above 0.
struct Strength {
  int map = 0;
  double mean = 0;
  float largest = 0;
  double share = 0;
};

/// The `count` maps of [1, C, H, W] with the highest means, the strongest first; those with NaN last.
std::vector<Strength> strongest(const Tensor& maps, int count);

/// How the values of maps become colours: inferno from 0 to `largest`, and, where there are negative ones, cold colours
/// as far the other way. The square root of a value's share opens up the dark end, where most activations are; 0 itself
/// is dark, but not black: what is silent is seen to be there.
struct ColourScale {
  float largest = 1;
  bool negative = false;
  static constexpr float silent = 0.13f;  // of inferno: 0

  /// All but the 1 % of the values that lie farthest from 0 fit into it.
  static ColourScale of(const Tensor& maps);
  static ColourScale of(std::span<const float> values);

  /// From -1 to 1: where on the scale a value stands.
  float place(float value) const;
  Color at(float place) const;
};

/// One map, [height, width].
struct FeatureMap {
  std::span<const float> values;
  int height = 0;
  int width = 0;

  static FeatureMap of(const Tensor& maps, int index);
};

/// The map in a box of out_width x out_height pixels: repeated where it is smaller, averaged where it is larger.
void draw_map(Canvas& canvas, int x, int y, int out_width, int out_height, const FeatureMap& map,
              const ColourScale& scale);

/// Pixels across and down.
struct Sides {
  int width = 0, height = 0;
};

/// Those of a photograph whose longer side is drawn in `size` pixels.
Sides drawn_sides(const Image& photo, int size);

/// The map as light on the photograph, the photograph grey and dark, its longer side of `size` pixels.
void draw_over_photo(Canvas& canvas, int x, int y, int size, const Image& photo, const FeatureMap& map,
                     const ColourScale& scale);

/// One filter [1, 1 or 3, KH, KW] around mid-grey, as bright as its largest weight allows, `zoom` pixels for each.
void draw_filter(Canvas& canvas, int x, int y, const Tensor& filter, ChannelOrder order, int zoom);

/// The scale's colours, `width` pixels from its lower to its upper end, with numbers below.
void draw_scale(Canvas& canvas, int x, int y, int width, const ColourScale& scale);

/// The picture, its longer side of `size` pixels: pixels as squares where they are large, smoothed where they are not.
void draw_photo(Canvas& canvas, int x, int y, int size, const Image& photo);

}  // namespace lamina::app
