// Pictures seen through a grid, and grids.

#include <algorithm>

#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/products.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

int grid_sample(Expansion& e) {
  using M = GridMode;
  using P = GridPadding;
  const std::string mode = e.attributes().text("mode", "linear"),
                    padding = e.attributes().text("padding_mode", "zeros");
  const int x = as_f32(e, e.input(0)), grid = as_f32(e, e.input(1));
  const Shape from = e.shape(x), at = e.shape(grid);
  const std::size_t rank = from.rank();
  if ((rank != 4 && rank != 5) || at.rank() != rank || at[-1] != static_cast<int>(rank) - 2 || at[0] != from[0])
    e.refuse("expected operands [N, C, H, W] and [N, OH, OW, 2], or [N, C, D, H, W] and [N, OD, OH, OW, 3], got ", from,
             " and ", at);
  if (std::ranges::any_of(from.extents().subspan(2), [](auto n) { return n < 1; }))
    e.refuse("there is nothing in an operand ", from);
  std::vector<std::int64_t> to = {from[0], from[1]};
  to.insert(to.end(), at.begin() + 1, at.end() - 1);
  const GridSampleProblem problem = {
      .mode = choice<M>(e, "mode", mode,
                        {{"linear", M::linear},
                         {"bilinear", M::linear},
                         {"nearest", M::nearest},
                         {"cubic", M::cubic},
                         {"bicubic", M::cubic}}),
      .padding = choice<P>(e, "padding_mode", padding,
                           {{"zeros", P::zeros}, {"border", P::border}, {"reflection", P::reflection}}),
      .align_corners = e.attributes().boolean("align_corners", false)};
  if (problem.mode == GridMode::cubic && rank == 5) e.refuse("cubic is for pictures, got ", from);
  return e.cast(e.solve(problem, to_shape(to), DType::f32, {x, grid}), e.dtype(e.input(0)));
}

/// Coordinates of the pixels' centres, with a 1 behind them, times the rows of theta.
int affine_grid(Expansion& e) {
  const int theta = as_f32(e, e.input(0));
  const std::vector<std::int64_t> size = e.integers(1);
  const bool corners = e.attributes().boolean("align_corners", false);
  if ((size.size() != 4 && size.size() != 5) || std::ranges::any_of(size, [](auto n) { return n < 1; }))
    e.refuse("expected a size [N, C, H, W] or [N, C, D, H, W]");
  const std::size_t count = size.size() - 2;
  const auto columns = static_cast<std::int64_t>(count) + 1;
  if (e.shape(theta) != Shape{size[0], columns - 1, columns})
    e.refuse("theta ", e.shape(theta), " is not for ", count, " dimensions and a batch of ", size[0]);
  std::vector<std::int64_t> to(size.begin() + 2, size.end());
  const std::int64_t pixels = to_shape(to).numel();
  if (pixels > longest_list) e.refuse("its grid is too large");
  std::vector<double> places;
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
    std::int64_t rest = pixel;
    for (std::size_t d = count; d-- > 0; rest /= to[d]) {  // x first
      const auto i = static_cast<double>(rest % to[d]), extent = static_cast<double>(to[d]);
      places.push_back(!corners ? (2 * i + 1) / extent - 1 : extent == 1 ? 0 : 2 * i / (extent - 1) - 1);
    }
    places.push_back(1);
  }
  const int base = constant_of(e, places, {1, pixels, columns}, DType::f32);
  const int grid = multiply(e, base, theta, {.transpose_b = true});
  to.insert(to.begin(), size[0]);
  to.push_back(columns - 1);
  return e.cast(e.reshape(grid, to_shape(to)), e.dtype(e.input(0)));
}

constexpr OpRow grid_rows[] = {{"AffineGrid", affine_grid}, {"GridSample", grid_sample}};

}  // namespace

std::span<const OpRow> grid_ops() { return grid_rows; }

}  // namespace lamina::detail
