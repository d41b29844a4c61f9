#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/preparation.h"

/// CompileOptions::batch_invariant: of what a kernel chooses, the order of its sums (what its result's bits depend on:
/// the instruction, the pieces that K is cut into) is one for all batches; tiles and grids may follow the batch.
namespace lamina::detail {

/// Numbers of images that a layer's one order is chosen for.
inline constexpr std::int64_t usual_images[] = {1, 8, 32, 256};

/// The same layer in a Plan of so many images.
inline ConvGeometry of_images(ConvGeometry geometry, const Preparation& p, std::int64_t images) {
  geometry.batch = ceil_div(std::max<std::int64_t>(geometry.batch, 1), std::max<std::int64_t>(p.images, 1)) * images;
  return geometry;
}

/// What `search(geometry, like)` finds: an optional of the fastest choice, with its expected `cycles`, among those that
/// add up in the order of the choice `like` if it is not null. Where batches must not matter, the order is that of the
/// usual batches' fastest which is the least behind the fastest at all of them together.
template <class Search>
auto choose_order(const ConvGeometry& geometry, const Preparation& p, Search&& search)
    -> decltype(search(geometry, nullptr)) {
  if (!p.batch_invariant) return search(geometry, nullptr);
  using Choice = typename decltype(search(geometry, nullptr))::value_type;
  std::vector<ConvGeometry> usual;
  std::vector<Choice> fastest;
  for (const std::int64_t images : usual_images) {
    const ConvGeometry g = of_images(geometry, p, images);
    if (const auto choice = search(g, nullptr)) usual.push_back(g), fastest.push_back(*choice);
  }
  const Choice* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const Choice& order : fastest) {
    double behind = 0;
    for (std::size_t i = 0; i < usual.size(); ++i) {
      const auto choice = search(usual[i], &order);
      behind += choice ? choice->cycles / fastest[i].cycles : std::numeric_limits<double>::infinity();
    }
    if (behind < least) least = behind, best = &order;
  }
  return best == nullptr ? decltype(search(geometry, nullptr))() : search(geometry, best);
}

}  // namespace lamina::detail
