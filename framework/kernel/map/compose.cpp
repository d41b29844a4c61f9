// An array between two Maps has an address for each point of the writer, and one for each point of the reader. Axes of
// both are split until each of the reader's that steps through the array steps along one of the writer's: then the
// writer's coordinates are sums of the reader's and of numbers, and its loads become loads at the reader's points.

#include "lamina/kernel/map/compose.h"

#include <algorithm>
#include <bit>

#include "lamina/base/error.h"
#include "lamina/kernel/map/axes.h"

namespace lamina {
namespace {

constexpr std::size_t most_axes = 8;

/// A writer's axes, for a load of the reader: the reader's axis or -1, and the coordinate where that is 0.
struct Meeting {
  /// Of the load, whose entries are coordinates of one of the writer's axes times its stride.
  struct Table {
    std::size_t axis;
    const MapView::Table* table;
  };
  std::vector<int> axis;
  MapAxes first;
  std::vector<Table> tables = {};
};

bool is_move(const MapProblem& problem) {
  return !is_float(problem.compute) && std::all_of(problem.nodes.begin(), problem.nodes.end(), [](const MapNode& node) {
    return node.kind == MapNode::Kind::load;
  });
}

/// The number that a word of a type stands for.
double number_of(double word, DType dtype) {
  const auto bits = static_cast<std::uint32_t>(word);
  if (dtype == DType::f16) return to_float(half{static_cast<std::uint16_t>(bits)});
  if (dtype == DType::bf16) return to_float(bfloat16{static_cast<std::uint16_t>(bits)});
  if (dtype == DType::f32) return std::bit_cast<float>(bits);
  detail::fail("expected words of f32, f16 or bf16, got ", dtype);
}

/// A move of words of that size is one of such floats.
bool become_floats(MapProblem& move, DType dtype) {
  if (!is_activation(dtype) || !is_move(move)) return false;
  const auto fits = [&](const MapView& view) { return size_of(view.dtype) == size_of(dtype); };
  for (MapView& view : move.loads) {
    if (!fits(view)) return false;
    view.dtype = dtype;
    view.fill = number_of(view.fill, dtype);
  }
  for (MapProblem::Store& store : move.stores) {
    if (!fits(store.view)) return false;
    store.view.dtype = dtype;
  }
  move.compute = DType::f32;
  return true;
}

/// Whether what is written is the number that was computed, but for a rounding of floats that may be left out.
bool is_kept(const MapProblem& writer, DType written) {
  const MapNode& stored = writer.nodes[static_cast<std::size_t>(writer.stores[0].node)];
  if (written == DType::boolean) return stored.kind == MapNode::Kind::function && describe(stored.function).truth;
  return written == writer.compute || is_move(writer) || (writer.compute == DType::f32 && is_activation(written));
}

/// Whether numbers of one may be used by the other as they are.
bool agree(MapProblem& writer, MapProblem& reader, int between) {
  const auto load = std::find_if(reader.loads.begin(), reader.loads.end(),
                                 [&](const MapView& view) { return view.array == between; });
  const DType written = writer.stores[0].view.dtype, read = load->dtype;
  if (writer.compute == reader.compute) return written == read && is_kept(writer, written);
  return (is_float(reader.compute) ? become_floats(writer, read) : become_floats(reader, written)) &&
         writer.compute == reader.compute;
}

/// Splits axes of both until each of the reader's that the load steps along is one of the writer's, or part of one.
/// False if that cannot be.
bool refine(MapProblem& writer, MapProblem& reader, std::size_t load) {
  for (std::size_t a = 0; a < reader.extents.size(); ++a) {
    const std::int64_t stride = reader.loads[load].strides[a], extent = reader.extents[a];
    if (stride == 0 || extent == 1) continue;
    if (stride < 0) return false;
    const MapAxes& written = writer.stores[0].view.strides;
    std::size_t b = 0;
    while (b < written.size() && !(written[b] > 0 && written[b] <= stride && stride < written[b] * writer.extents[b]))
      ++b;
    if (b == written.size() || stride % written[b] != 0) return false;
    const std::int64_t size = writer.extents[b];
    if (const std::int64_t inner = stride / written[b]; inner > 1) {
      if (size % inner != 0) return false;
      split_axis(writer, b, inner);
    } else if (extent > size) {
      if (extent % size != 0) return false;
      split_axis(reader, a, size);
    } else {
      const MapAxes& strides = reader.loads[load].strides;
      const bool goes_on = std::find(strides.begin(), strides.end(), stride * extent) != strides.end();
      if (extent == size || size % extent != 0 || !goes_on) continue;
      split_axis(writer, b, extent);
    }
    if (std::max(writer.extents.size(), reader.extents.size()) > 2 * most_axes) return false;
    return refine(writer, reader, load);
  }
  return true;
}

/// Of refined axes.
std::optional<Meeting> meet(const MapProblem& writer, const MapProblem& reader, std::size_t load) {
  const MapView &from = reader.loads[load], &to = writer.stores[0].view;
  std::vector<std::size_t> order(writer.extents.size());
  for (std::size_t b = 0; b < order.size(); ++b) order[b] = b;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return to.strides[a] > to.strides[b]; });
  Meeting result{std::vector<int>(writer.extents.size(), -1), MapAxes(writer.extents.size())};
  std::int64_t rest = from.offset - to.offset;
  if (rest < 0) return std::nullopt;
  for (const std::size_t b : order) {
    if (to.strides[b] <= 0) continue;
    result.first[b] = std::min(rest / to.strides[b], writer.extents[b] - 1);
    rest -= result.first[b] * to.strides[b];
  }
  if (rest != 0) return std::nullopt;
  for (std::size_t a = 0; a < reader.extents.size(); ++a) {
    if (from.strides[a] == 0 || reader.extents[a] == 1) continue;
    std::size_t b = 0;
    while (b < order.size() && !(to.strides[b] == from.strides[a] && writer.extents[b] > 1)) ++b;
    if (b == order.size() || result.axis[b] >= 0 || result.first[b] + reader.extents[a] > writer.extents[b])
      return std::nullopt;
    result.axis[b] = static_cast<int>(a);
  }
  MapAxes reached = result.first;  // by all tables of an axis together
  for (const MapView::Table& table : from.tables) {
    const auto ends = std::minmax_element(table.entries->begin(), table.entries->end());
    const std::int64_t least = *ends.first, most = *ends.second;
    const auto follows = [&](std::size_t b) {
      const std::int64_t stride = to.strides[b];
      return stride > 0 && result.axis[b] < 0 && !writer.reduces(b) && reached[b] + most / stride < writer.extents[b] &&
             std::all_of(table.entries->begin(), table.entries->end(), [&](auto entry) { return entry % stride == 0; });
    };
    const auto b = std::find_if(order.begin(), order.end(), follows);
    if (least < 0 || b == order.end()) return std::nullopt;
    reached[*b] += most / to.strides[*b];
    result.tables.push_back({*b, &table});
  }
  return result;
}

/// Puts nodes of several Maps together; equal ones are one.
class Composition {
 public:
  explicit Composition(const MapProblem& reader) : reader_(reader) {
    result_.extents = reader.extents, result_.reduced = reader.reduced, result_.compute = reader.compute;
  }

  /// The number that the reader's load has, computed as the writer does. False if what is reduced does not agree.
  bool enter(const MapProblem& writer, const Meeting& meeting, int& node) {
    unsigned reduced = 0;
    std::vector<int> axis = meeting.axis;
    for (std::size_t b = 0; b < axis.size(); ++b) {
      if (!writer.reduces(b) || writer.extents[b] == 1) continue;
      if (writer.stores[0].view.strides[b] == 0) {  // an axis of the sum's own
        if (reader_.reduced != 0) return false;
        axis[b] = own_axis(b, writer.extents[b]);
      } else if (axis[b] < 0 || result_.extents[static_cast<std::size_t>(axis[b])] != writer.extents[b]) {
        return false;
      }
      reduced |= 1u << axis[b];
    }
    if (reduced != 0) {
      if (reader_.reduced != 0 && reader_.reduced != reduced) return false;
      if (reduced_ != 0 && reduced_ != reduced) return false;
      reduced_ = reduced;
    }
    std::vector<int> nodes;
    const auto moved = [&](const MapAxes& strides, std::int64_t& offset) {
      MapAxes along(result_.extents.size());
      for (std::size_t b = 0; b < strides.size(); ++b) {
        offset += meeting.first[b] * strides[b];
        if (axis[b] >= 0) along[static_cast<std::size_t>(axis[b])] = strides[b];
      }
      return along;
    };
    for (const MapNode& old : writer.nodes) {
      MapView view;
      if (old.kind == MapNode::Kind::load) {
        view = writer.loads[static_cast<std::size_t>(old.view)];
        if (!meeting.tables.empty() && !view.is_dense()) return false;
        const MapAxes strides = view.strides;
        view.strides = moved(strides, view.offset);
        for (auto& guard : view.guards) guard.strides = moved(guard.strides, guard.offset);
        for (auto& table : view.tables) table.strides = moved(table.strides, table.offset);
        for (const auto& [b, table] : meeting.tables) {
          if (strides[b] != 0) view.tables.push_back(scaled(*table, strides[b], writer.stores[0].view.strides[b]));
        }
      }
      nodes.push_back(add(old, nodes, view));
    }
    node = nodes[static_cast<std::size_t>(writer.stores[0].node)];
    return true;
  }

  /// The reader's other nodes; `entered`: those that are known already, by number.
  MapProblem finish(const std::vector<int>& entered) {
    std::vector<int> nodes;
    for (std::size_t i = 0; i < reader_.nodes.size(); ++i) {
      const MapNode& old = reader_.nodes[i];
      nodes.push_back(
          entered[i] >= 0
              ? entered[i]
              : add(old, nodes,
                    old.kind == MapNode::Kind::load ? reader_.loads[static_cast<std::size_t>(old.view)] : MapView()));
    }
    for (const auto& [node, view] : reader_.stores) result_.store(nodes[static_cast<std::size_t>(node)], view);
    result_.reduced |= reduced_;
    detail::each_strides(result_, [&](MapAxes& strides) { strides.resize(result_.extents.size()); });
    return std::move(result_);
  }

 private:
  /// A table of places that are `from` apart for those that are `to` apart.
  static MapView::Table scaled(MapView::Table table, std::int64_t to, std::int64_t from) {
    if (to == from) return table;
    auto entries = std::make_shared<std::vector<std::int64_t>>(*table.entries);
    for (std::int64_t& entry : *entries) entry = entry / from * to;
    table.entries = std::move(entries);
    return table;
  }

  int own_axis(std::size_t of, std::int64_t extent) {
    if (own_.size() <= of) own_.resize(of + 1, -1);
    if (own_[of] < 0 || result_.extents[static_cast<std::size_t>(own_[of])] != extent) {
      own_[of] = static_cast<int>(result_.extents.size());
      result_.extents.push_back(extent);
    }
    return own_[of];
  }

  int add(MapNode node, const std::vector<int>& numbers, MapView view) {
    for (int& from : node.from) from = from < 0 ? from : numbers[static_cast<std::size_t>(from)];
    if (node.kind == MapNode::Kind::load) {
      view.strides.resize(result_.extents.size());
      for (auto& guard : view.guards) guard.strides.resize(result_.extents.size());
      for (auto& table : view.tables) table.strides.resize(result_.extents.size());
      for (MapView& known : result_.loads) known.strides.resize(result_.extents.size());
      auto found = std::find(result_.loads.begin(), result_.loads.end(), view);
      if (found == result_.loads.end()) found = result_.loads.insert(found, std::move(view));
      node.view = static_cast<int>(found - result_.loads.begin());
    }
    auto found = std::find(result_.nodes.begin(), result_.nodes.end(), node);
    if (found == result_.nodes.end()) found = result_.nodes.insert(found, node);
    return static_cast<int>(found - result_.nodes.begin());
  }

  const MapProblem& reader_;
  MapProblem result_;
  unsigned reduced_ = 0;
  std::vector<int> own_;  // by the writer's axis
};

}  // namespace

std::optional<MapProblem> composed(std::span<const MapProblem> writers, const MapProblem& reader, int between) {
  MapProblem to = reader;
  std::vector<MapProblem> from(writers.begin(), writers.end());
  for (MapProblem& writer : from) {
    if (writer.stores.size() != 1 || !agree(writer, to, between)) return std::nullopt;
  }
  // Which writer a load meets, in the end; to split the reader for one load may concern those before it.
  std::vector<std::size_t> met(to.loads.size());
  for (std::size_t l = 0, settled = 0; settled < to.loads.size(); l = (l + 1) % to.loads.size(), ++settled) {
    if (to.loads[l].array != between) continue;
    if (!to.loads[l].guards.empty()) return std::nullopt;
    bool found = false;
    for (std::size_t w = 0; w < from.size() && !found; ++w) {
      MapProblem writer = from[w], finer = to;
      if (!refine(writer, finer, l) || !meet(writer, finer, l)) continue;
      found = true, met[l] = w;
      if (finer.extents.size() != to.extents.size()) settled = 0;
      to = std::move(finer);
    }
    if (!found) return std::nullopt;
  }
  Composition composition(to);
  std::vector<int> entered(to.nodes.size(), -1);
  for (std::size_t i = 0; i < to.nodes.size(); ++i) {
    if (to.nodes[i].kind != MapNode::Kind::load) continue;
    const auto l = static_cast<std::size_t>(to.nodes[i].view);
    if (to.loads[l].array != between) continue;
    MapProblem writer = from[met[l]];
    (void)refine(writer, to, l);
    if (!composition.enter(writer, *meet(writer, to, l), entered[i])) return std::nullopt;
  }
  MapProblem result = simplified(composition.finish(entered));
  if (result.extents.size() > most_axes) return std::nullopt;
  return result;
}

}  // namespace lamina
