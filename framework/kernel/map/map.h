#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lamina/kernel/pointwise.h"
#include "lamina/tensor/dtype.h"
#include "lamina/tensor/tensor.h"

/// A Map: everything that is arithmetic and no product.
namespace lamina {

/// The extents of a space of up to `most_map_axes` axes, or a number for each of them.
using MapAxes = std::vector<std::int64_t>;
inline constexpr std::size_t most_map_axes = 12;

/// Where the element of an array lies that belongs to a point (i0, i1, ...) of a Map's space: at offset + the sum of
/// i[a] * strides[a] + what each table says of the point, in elements. A stride of 0 broadcasts.
struct MapView {
  /// The point's coordinate offset + the sum of i[a] * strides[a] must lie in [0, extent).
  struct Guard {
    MapAxes strides;
    std::int64_t offset = 0, extent = 0;
    friend bool operator==(const Guard&, const Guard&) = default;
  };
  /// Entry offset + the sum of i[a] * strides[a] is added to the place; -1: outside.
  struct Table {
    MapAxes strides;
    std::int64_t offset = 0;
    std::shared_ptr<const std::vector<std::int64_t>> entries;
    friend bool operator==(const Table&, const Table&) = default;
  };

  int array = 0;  ///< which input of the operation, or which output
  DType dtype = DType::f32;
  std::int64_t offset = 0;
  MapAxes strides = {};
  std::vector<Guard> guards = {};
  std::vector<Table> tables = {};
  double fill = 0;  ///< the element of a point that a guard or a table says is outside; of a load

  bool is_dense() const { return guards.empty() && tables.empty(); }
  friend bool operator==(const MapView&, const MapView&) = default;
};

enum class MapReduction : std::uint8_t {
  sum,
  product,
  max,
  min,
  spread  ///< the sum of the squares of the distances from the mean, in one pass; f32 or f64
};

/// A node computes a number for each point of the space from those before it.
struct MapNode {
  enum class Kind : std::uint8_t {
    load,      ///< the element of loads[view]
    number,    ///< the same everywhere
    function,  ///< function(from[0], from[1], from[2])
    reduce     ///< of from[0], over all points that differ in reduced axes only: the same for all of them
  };
  Kind kind = Kind::number;
  std::array<int, 3> from = {-1, -1, -1};
  int view = -1;
  double number = 0;
  Pointwise function = Pointwise::identity;
  MapReduction reduction = MapReduction::sum;

  bool is(Pointwise f) const { return kind == Kind::function && function == f; }
  bool is(MapReduction r) const { return kind == Kind::reduce && reduction == r; }
  friend bool operator==(const MapNode&, const MapNode&) = default;
};

/// The nodes are computed at each point of the space, in any order that gives every node what it reads; some are
/// stored. Elements are converted to `compute` (f32, f64, i64 or u64), and results to their array's type, as
/// PointwiseProblem says. What is only moved is whole numbers of its own size, u8 to u64, in u32 or u64: every bit
/// stays.
///
/// Elementwise functions, moves, conversions of layout and type have no reduced axis; a mean over pixels has one; a
/// softmax has two reductions over the same axis and stores at every point; a pooling reduces the taps of its windows.
struct MapProblem {
  static constexpr std::string_view what = "map";
  MapAxes extents = {};
  unsigned reduced = 0;  ///< bit a: axis a is reduced
  std::vector<MapView> loads = {};
  std::vector<MapNode> nodes = {};
  struct Store {
    int node = 0;
    MapView view;  ///< without guards and tables; one element of the array for each point at which the node differs
  };
  std::vector<Store> stores = {};
  DType compute = DType::f32;
  std::vector<Tensor> parameters = {};  ///< f32: the arrays behind the operation's inputs

  bool reduces(std::size_t axis) const { return ((reduced >> axis) & 1u) != 0; }

  /// For writing one; each returns the node's number.
  int load(MapView view);
  int number(double value);
  int function(Pointwise f, int a, int b = -1, int c = -1);
  int reduce(MapReduction r, int of);
  void store(int node, MapView view) { stores.push_back({node, std::move(view)}); }
};

/// For each node: bit a says that its value differs along axis a.
std::vector<unsigned> dependence(const MapProblem& problem);

/// Whether several points that differ in reduced axes alone are stored, be it all the same number.
bool stores_each(const MapProblem& problem, const MapProblem::Store& store);

/// How many points are reduced to one.
std::int64_t reduced_points(const MapProblem& problem);

/// How many elements a view has, each counted once.
std::int64_t volume_of(const MapProblem& problem, const MapView& view);

/// The same Map over fewer axes: those of extent 1 are gone, and neighbours are one where every view steps through them
/// as through one. Kept axes stand in the order of the first store's strides, the largest first, reduced ones behind
/// them in that of the largest load's.
MapProblem simplified(const MapProblem& problem);

/// Throws Error unless nodes read earlier ones, views have an axis for each of the space, a reduction's operand and
/// every stored node are there, and stores step along every axis along which their node differs.
void validate(const MapProblem& problem);

}  // namespace lamina
