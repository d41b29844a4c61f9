// Ops of which only a run knows how many elements they give. Each finds places in a list that begins with their number.

#include <algorithm>
#include <limits>

#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

/// At most `most` rows of that many numbers: [capacity, width], and how many there are.
int found(Expansion& e, FindProblem problem, std::int64_t most, std::int64_t width, std::vector<int> inputs) {
  const std::int64_t capacity = std::max(least_capacity, most), end = 1 + capacity * width;
  const int list = e.solve(std::move(problem), {end}, DType::i64, std::move(inputs));
  const int count = e.check(e.slice(list, 0, 0, 1), {.most = capacity});
  return e.counted(e.reshape(e.slice(list, 0, 1, end), {capacity, width}), 0, count);
}

}  // namespace

int places_of_true(Expansion& e, int x) {
  const int truths = e.cast(e.with_zeros(x), DType::boolean);
  return e.once("places", {}, {truths}, [&] {
    const std::int64_t all = e.shape(x).numel();
    return found(e, {.kind = FindProblem::Kind::places}, all, 1, {e.reshape(truths, {all})});
  });
}

namespace {

int non_zero(Expansion& e) {
  const int x = e.rank(e.input(0)) > 0 ? e.input(0) : e.reshape(e.input(0), {1});
  const Shape shape = e.shape(x), row = {1, e.rank(x)};
  if (shape.numel() == 0) return e.constant_node(Tensor::zeros({e.rank(x), 0}, DType::i64));
  const auto numbers = [&](std::span<const std::int64_t> of) { return e.constant_node(Tensor::from(of, row)); };
  const int along = e.pointwise(Pointwise::div, {places_of_true(e, x), numbers(row_major_strides(shape))});
  return e.permute(e.pointwise(Pointwise::mod, {along, numbers(shape.extents())}), std::vector<int>{1, 0});
}

/// The elements, or slices of an axis, for which a condition holds.
int compress(Expansion& e) {
  int x = e.input(0);
  const int condition = e.input(1);
  const std::int64_t wanted = e.attributes().long_integer("axis", 0);
  if (!e.attributes().has("axis")) x = e.reshape(x, {e.shape(x).numel()});
  const int axis = e.axis_of(wanted, e.rank(x));
  if (e.rank(condition) != 1 || e.shape(condition)[0] > e.shape(x)[axis])
    e.refuse("the condition is longer than what it is for");
  if (e.shape(condition)[0] == 0) return e.slice(e.uncounted(x, axis), axis, 0, 0);
  const int places = places_of_true(e, condition);
  return take(e, x, e.reshape(places, {e.shape(places)[0]}), axis);
}

int non_max_suppression(Expansion& e) {
  int boxes = e.cast(e.input(0), DType::f32), scores = e.cast(e.input(1), DType::f32);
  if (e.rank(scores) == 3 && e.rank(boxes) == 3) {  // behind the count there is no score
    scores = e.sized(scores, 2, e.count_of(boxes, 1));
    scores = e.filled(scores, 2, e.scalar(std::numeric_limits<double>::quiet_NaN(), DType::f32));
    boxes = e.uncounted(boxes, 1);
  }
  const Shape from = e.shape(boxes), of = e.shape(scores);
  if (from.rank() != 3 || of.rank() != 3 || from[2] != 4 || from[0] != of[0] || from[1] != of[2])
    e.refuse("expected boxes [B, N, 4] and scores [B, C, N], got ", from, " and ", of);
  const bool centred = e.attributes().integer("center_point_box", 0) != 0;
  const auto number = [&](int i, double otherwise) {
    return e.has(i) ? e.cast(e.reshape(e.input(i), {1}), DType::f64) : e.reshape(e.scalar(otherwise, DType::f64), {1});
  };
  const double none = -std::numeric_limits<double>::infinity();
  const int settings = e.join({number(2, 0), number(3, 0), number(4, none)}, 0);
  std::int64_t most = from[1];
  if (!e.has(2) || e.known(e.input(2)).defined())
    most = std::clamp<std::int64_t>(e.has(2) ? e.integers(2).at(0) : 0, 0, most);
  return found(e, {.kind = FindProblem::Kind::boxes, .centred = centred}, of[0] * of[1] * most, 3,
               {boxes, scores, settings});
}

/// The mean, or the largest, of pixels between pixels in each of the bins of boxes.
int roi_align(Expansion& e) {
  const int x = as_f32(e, e.input(0));
  int given = e.input(1);
  if (e.rank(given) != 2 || e.rank(e.input(2)) != 1)
    e.refuse("expected boxes [R, 4] and images [R], got ", e.shape(given), " and ", e.shape(e.input(2)));
  given = e.sized(given, 0, e.count_of(e.input(2), 0));
  const int count = e.count_of(given, 0);
  const int boxes = as_f32(e, e.with_zeros(given)), images = e.cast(e.with_zeros(e.input(2)), DType::i64);
  const Shape from = e.shape(x), of = e.shape(boxes);
  const auto size = [&](std::string_view name) { return e.attributes().long_integer(name, 1); };
  const Shape to = {of[0], from.rank() > 1 ? from[1] : 0, size("output_height"), size("output_width")};
  if (from.rank() != 4 || of[1] != 4 || e.shape(images) != Shape{of[0]} || from.numel() == 0)
    e.refuse("expected operands [N, C, H, W], [R, 4] and [R], got ", from, ", ", of, " and ", e.shape(images));
  const Bins how = {.max = choice<bool>(e, "mode", e.attributes().text("mode", "avg"), {{"avg", false}, {"max", true}}),
                    .half_pixel = choice<bool>(e, "coordinate_transformation_mode",
                                               e.attributes().text("coordinate_transformation_mode", "half_pixel"),
                                               {{"half_pixel", true}, {"output_half_pixel", false}}),
                    .sampling_ratio = e.attributes().integer("sampling_ratio", 0),
                    .spatial_scale = static_cast<float>(e.attributes().number("spatial_scale", 1))};
  if (to[2] < 1 || to[3] < 1 || to.numel() / std::max<std::int64_t>(to[0], 1) > longest_list ||
      how.sampling_ratio < 0 || how.sampling_ratio > 1'000)
    e.refuse("cannot have an output of ", to, " by a sampling_ratio of ", how.sampling_ratio);
  const int y = e.solve(GridSampleProblem{.bins = how}, to, DType::f32, {x, boxes, images, e.length(given, 0)});
  return e.counted(e.cast(y, e.dtype(e.input(0))), 0, count);
}

/// Slices of an axis, or elements, that are there once or more. "output" says which of Y, its places, those of all
/// slices in Y, and how often each is there.
int unique(Expansion& e) {
  int x = e.input(0);
  const bool whole = !e.attributes().has("axis"), sorted = e.attributes().boolean("sorted", true);
  const std::int64_t wanted = e.attributes().long_integer("axis", 0), output = e.attributes().long_integer("output", 0);
  if (whole) x = e.reshape(x, {e.shape(x).numel()});
  const int axis = e.axis_of(wanted, e.rank(x)), count = e.count_of(x, axis);
  const std::int64_t extent = e.shape(x)[axis], room = std::max(extent, least_capacity);
  if (e.shape(x).numel() == 0) e.refuse("there is nothing in an operand ", e.shape(e.input(0)));
  if (output < 0 || output > 3) e.refuse("there is no output ", output);
  const int all = e.once([&] {
    std::vector<int> order = {axis};
    for (int d = 0; d < e.rank(x); ++d) {
      if (d != axis) order.push_back(d);
    }
    const int rows = e.reshape(e.permute(e.uncounted(x, axis), order), {extent, e.shape(x).numel() / extent});
    return e.solve(FindProblem{.kind = FindProblem::Kind::unique, .sorted = sorted}, {1 + 3 * room}, DType::i64,
                   {e.cast(rows, is_float(e.dtype(x)) ? DType::f64 : DType::i64), e.length(x, axis)});
  });
  if (output == 2) return e.counted(e.slice(all, 0, 1 + room, 1 + room + extent), 0, count);
  const std::int64_t first = output == 3 ? 1 + 2 * room : 1;
  const int times = e.check(e.slice(all, 0, 0, 1), {.most = room});
  const int found = e.counted(e.slice(all, 0, first, first + room), 0, times);
  return output == 0 ? take(e, e.uncounted(x, axis), found, axis) : found;
}

constexpr OpRow count_rows[] = {{"Compress", compress},
                                {"NonMaxSuppression", non_max_suppression},
                                {"NonZero", non_zero},
                                {"RoiAlign", roi_align},
                                {"Unique", unique}};

}  // namespace

std::span<const OpRow> count_ops() { return count_rows; }

}  // namespace lamina::detail
