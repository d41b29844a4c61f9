// Pictures of another size.

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "lamina/base/math.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/counts/places.h"
#include "lamina/ops/rows/taps.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

/// One dimension that is resized.
struct Side {
  int axis = 0;
  double scale = 1;
  std::int64_t out = 0;
  double roi_begin = 0, roi_end = 1;
  std::optional<Expansion::Number> made = {};  ///< the number of elements if a run makes it, in place of `out`
  int made_scale = -1;                         ///< then the scale, f64 [1]; -1: that of the extents
};

std::int64_t checked_extent(const Expansion& e, double extent) {
  if (!(extent >= 0 && extent <= static_cast<double>(longest_list))) e.refuse("cannot make an extent of ", extent);
  return static_cast<std::int64_t>(extent);
}

/// One scale that all sides keep, so that they fit inside the sizes or cover them.
void keep_aspect_ratio(Expansion& e, std::vector<Side>& sides, const Shape& from) {
  const std::string policy = e.attributes().text("keep_aspect_ratio_policy", "stretch");
  require_one_of(e, "keep_aspect_ratio_policy", policy, {"stretch", "not_larger", "not_smaller"});
  if (policy == "stretch" || sides.empty()) return;
  if (std::ranges::any_of(sides, [](const Side& side) { return side.made.has_value(); }))
    e.lacks("keep_aspect_ratio_policy ", policy, " of sizes that a run makes");
  double scale = sides[0].scale;
  for (const Side& side : sides)
    scale = policy == "not_larger" ? std::min(scale, side.scale) : std::max(scale, side.scale);
  for (Side& side : sides) {
    side.scale = scale;
    side.out = checked_extent(e, std::floor(scale * static_cast<double>(from[side.axis]) + 0.5));
  }
}

/// The length of an axis in a run times its scale, rounded down in f32 as in read_sides.
int scaled(Expansion& e, const Side& side) {
  const int length = e.cast(e.length(e.input(0), side.axis), DType::f32);
  const int product = e.pointwise(Pointwise::mul, {e.cast(side.made_scale, DType::f32), length});
  return e.cast(e.pointwise(Pointwise::floor, {product}), DType::i64);
}

/// What the operands roi, scales and sizes say; operand i and so on.
std::vector<Side> read_sides(Expansion& e, Shape from, int roi, int scales, int sizes) {
  const int rank = static_cast<int>(from.rank());
  std::vector<std::int64_t> all;
  for (int d = 0; d < rank; ++d) all.push_back(d);
  const std::vector<int> axes = axes_of(e, e.attributes().integers("axes", all), rank);
  const auto listed = [&](int i) { return i >= 0 && e.has(i) ? e.shape(e.input(i)).numel() : 0; };
  const std::int64_t factors = listed(scales), wanted = listed(sizes);
  if (std::max(factors, wanted) != std::ssize(axes) || (wanted > 0 && factors > 0))
    e.refuse("expected scales or sizes for ", axes.size(), " dimensions, got ", factors, " scales and ", wanted,
             " sizes");
  const std::vector<double> box = listed(roi) > 0 ? e.numbers(roi) : std::vector<double>();
  const std::vector<Expansion::Number> to = wanted > 0 ? e.whole_numbers(sizes) : std::vector<Expansion::Number>();
  const bool are_known = wanted > 0 || (factors > 0 && e.known(e.input(scales)).defined());
  const std::vector<double> by = wanted == 0 && are_known ? e.numbers(scales) : std::vector<double>();
  std::vector<Side> sides;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Side side = {.axis = axes[i]};
    const std::int64_t in = from[side.axis];
    const bool is_count = e.count_of(e.input(0), side.axis) >= 0;
    if (!are_known || (wanted > 0 && to[i].made >= 0) || (is_count && (wanted > 0 || by[i] != 1))) {
      const auto place = static_cast<std::int64_t>(i);
      if (wanted == 0) side.made_scale = e.cast(e.slice(e.input(scales), 0, place, place + 1), DType::f64);
      side.made = wanted > 0 ? to[i] : e.whole_number(scaled(e, side), scales);
      sides.push_back(side);
      continue;
    }
    if (in < 1 && (wanted > 0 ? to[i].most != 0 : by[i] != 1)) e.refuse("cannot resize ", from);
    if (wanted == 0) {
      side.scale = by[i];
      if (!(side.scale > 0)) e.refuse("cannot have a scale of ", side.scale);
      // In f32, as the frameworks that models come from do: 2.3 * 10 is 23.
      side.out = checked_extent(e, std::floor(static_cast<float>(side.scale) * static_cast<float>(in)));
    } else {
      side.out = checked_extent(e, static_cast<double>(to[i].most));
      side.scale = in == 0 ? 1 : static_cast<double>(side.out) / static_cast<double>(in);
    }
    if (!box.empty()) {
      if (box.size() != 2 * axes.size()) e.refuse("expected ", 2 * axes.size(), " numbers as roi, got ", box.size());
      side.roi_begin = box[i];
      side.roi_end = box[i + axes.size()];
    }
    sides.push_back(side);
  }
  if (wanted > 0) keep_aspect_ratio(e, sides, from);
  return sides;
}

/// Where each output element lies in the input.
std::vector<double> coordinates(Expansion& e, const std::string& mode, const Side& side, std::int64_t extent) {
  const auto in = static_cast<double>(extent);
  const double out = side.scale * in, scale = side.scale;
  std::vector<double> result;
  for (std::int64_t i = 0; i < side.out; ++i) {
    const auto x = static_cast<double>(i);
    if (mode == "half_pixel") {
      result.push_back((x + 0.5) / scale - 0.5);
    } else if (mode == "pytorch_half_pixel") {
      result.push_back(side.out == 1 ? 0 : (x + 0.5) / scale - 0.5);
    } else if (mode == "half_pixel_symmetric") {
      const double adjustment = static_cast<double>(side.out) / out;
      result.push_back(in / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5);
    } else if (mode == "align_corners") {
      result.push_back(out == 1 ? 0 : x * (in - 1) / (out - 1));
    } else if (mode == "asymmetric") {
      result.push_back(x / scale);
    } else if (mode == "tf_crop_and_resize") {
      const double length = (side.roi_end - side.roi_begin) * (in - 1);
      result.push_back(side.roi_begin * (in - 1) + (out == 1 ? length / 2 : x * length / (out - 1)));
    } else {
      require_one_of(e, "coordinate_transformation_mode", mode,
                     {"half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric",
                      "tf_crop_and_resize"});
    }
    // Beyond any input, and small enough to count with.
    if (!(std::abs(result.back()) <= 1e15)) e.refuse("its coordinates are too large");
  }
  return result;
}

/// The settings of both ops.
struct Settings {
  std::string mode, transformation, nearest;
  bool antialias = false, exclude_outside = false;
  double cubic_a = -0.75, extrapolation = 0;
};

int resize(Expansion& e, const Settings& settings, const std::vector<Side>& sides) {
  int operand = e.input(0);
  for (const Side& side : sides) {
    if (!side.made) continue;
    if (settings.antialias || settings.exclude_outside)
      e.lacks("antialias or exclude_outside of a size that a run makes");
    operand = counted_resize(e, operand, side.axis,
                             {.mode = settings.mode,
                              .transformation = settings.transformation,
                              .nearest = settings.nearest,
                              .cubic_a = settings.cubic_a,
                              .scale = side.made_scale,
                              .to = *side.made});
  }
  const Shape from = e.shape(operand);
  std::vector<Picks> picks, outside;
  ResampleProblem problem;
  Shape to = from;
  for (const Side& side : sides) {
    if (side.made) continue;
    const std::int64_t in = from[side.axis];
    to.set(side.axis, side.out);
    const bool whole = side.roi_begin == 0 && side.roi_end == 1;
    if (side.out == in && (in == 0 || (std::abs(side.scale - 1) <= 1e-9 && whole))) continue;
    const std::vector<double> places = coordinates(e, settings.transformation, side, in);
    Picks seen = {.axis = side.axis, .places = {}};
    bool all_seen = true;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const bool inside = settings.transformation != "tf_crop_and_resize" ||
                          (places[i] >= 0 && places[i] <= static_cast<double>(in - 1));
      all_seen &= inside;
      const auto itself = static_cast<std::int64_t>(i);
      seen.places.push_back(!inside                      ? -1
                            : settings.mode == "nearest" ? nearest(e, settings.nearest, places[i], in)
                                                         : itself);
    }
    if (settings.mode == "nearest") {
      picks.push_back(std::move(seen));
      continue;
    }
    if (!all_seen) outside.push_back(std::move(seen));
    const TapFilter filter = {.cubic = settings.mode == "cubic",
                              .a = settings.cubic_a,
                              .scale = settings.antialias ? std::min(side.scale, 1.0) : 1.0,
                              .exclude_outside = settings.exclude_outside};
    problem.axes.push_back(make_taps(e, filter, side.axis, places, in));
  }
  if (!picks.empty()) return pick(e, operand, picks, settings.extrapolation);
  if (problem.axes.empty()) return operand;
  const DType dtype = e.dtype(operand);
  int y = e.solve(std::move(problem), to, DType::f32, {e.cast(operand, DType::f32)});
  if (!outside.empty()) y = pick(e, y, outside, settings.extrapolation);
  return e.cast(is_float(dtype) ? y : e.pointwise(Pointwise::round, {y}), dtype);
}

void check_mode(const Expansion& e, const Settings& settings) {
  require_one_of(e, "mode", settings.mode, {"nearest", "linear", "cubic"});
  if (settings.mode == "nearest" && settings.antialias) e.refuse("antialias is not for the mode nearest");
}

int resize_op(Expansion& e) {
  AttributeReader& a = e.attributes();
  Settings settings;
  settings.mode = a.text("mode", "nearest");
  settings.transformation = a.text("coordinate_transformation_mode", "half_pixel");
  settings.nearest = a.text("nearest_mode", "round_prefer_floor");
  settings.antialias = a.boolean("antialias", false);
  settings.exclude_outside = a.boolean("exclude_outside", false);
  settings.cubic_a = a.number("cubic_coeff_a", -0.75);
  settings.extrapolation = a.number("extrapolation_value", 0);
  a.text("keep_aspect_ratio_policy", "stretch");
  check_mode(e, settings);
  const bool crop = settings.transformation == "tf_crop_and_resize";
  if (crop && !e.has(1)) e.refuse("tf_crop_and_resize needs a roi");
  return resize(e, settings, read_sides(e, e.shape(e.input(0)), crop ? 1 : -1, 2, 3));
}

int upsample(Expansion& e) {
  Settings settings = {
      .mode = e.attributes().text("mode", "nearest"), .transformation = "asymmetric", .nearest = "floor"};
  if (settings.mode == "bilinear") settings.mode = "linear";
  check_mode(e, settings);
  return resize(e, settings, read_sides(e, e.shape(e.input(0)), -1, 1, -1));
}

/// Channels that become blocks of pixels: the block's rows and columns stand before the other channels (DCR) or after
/// them.
int depth_to_space(Expansion& e) {
  const int x = e.input(0);
  const Shape from = e.shape(x);
  const std::int64_t block = e.attributes().long_integer("blocksize", 0);
  const std::string mode = e.attributes().text("mode", "DCR");
  const auto square = checked_mul(block, block);
  if (from.rank() != 4 || block < 1 || !square || from[1] % *square != 0) {
    e.refuse("expected an input [N, C, H, W] whose channels divide by ", block, " x ", block, ", got ", from);
  }
  const std::int64_t channels = from[1] / *square;
  const Shape split = mode == "CRD" ? Shape{from[0], channels, block, block, from[2], from[3]}
                                    : Shape{from[0], block, block, channels, from[2], from[3]};
  const std::array<int, 6> crd = {0, 1, 4, 2, 5, 3}, dcr = {0, 3, 4, 1, 5, 2};
  const int turned = e.permute(e.reshape(x, split), mode == "CRD" ? crd : dcr);
  return e.reshape(turned, {from[0], channels, from[2] * block, from[3] * block});
}

int space_to_depth(Expansion& e) {
  const int x = e.input(0);
  const Shape from = e.shape(x);
  const std::int64_t block = e.attributes().long_integer("blocksize", 0);
  if (from.rank() != 4 || block < 1 || from[2] % block != 0 || from[3] % block != 0) {
    e.refuse("expected an input [N, C, H, W] whose sides divide by ", block, ", got ", from);
  }
  const int split = e.reshape(x, {from[0], from[1], from[2] / block, block, from[3] / block, block});
  const std::array<int, 6> order = {0, 3, 5, 1, 2, 4};
  return e.reshape(e.permute(split, order), {from[0], from[1] * block * block, from[2] / block, from[3] / block});
}

constexpr OpRow resize_rows[] = {
    {"DepthToSpace", depth_to_space}, {"Resize", resize_op}, {"SpaceToDepth", space_to_depth}, {"Upsample", upsample}};

}  // namespace

std::span<const OpRow> resize_ops() { return resize_rows; }

}  // namespace lamina::detail
