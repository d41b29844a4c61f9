// One Map in the place of several: what one Map writes only for another one is computed by its reader. Once formats and
// places are settled, the addresses of the elements between two Maps tell which point of the one belongs to which point
// of the other. So changes of layout, concatenations and changes of shape between them disappear too.

#include <algorithm>
#include <iterator>
#include <set>
#include <type_traits>

#include "lamina/compile/dataflow.h"
#include "lamina/kernel/map/compose.h"
#include "lamina/kernel/map/map_of.h"

namespace lamina::detail {
namespace {

constexpr std::size_t most_arrays = 8, most_nodes = 64;
constexpr std::int64_t few_points = 4;   // a reduction of up to so many points is written out as functions
constexpr std::int64_t small_part = 16;  // of the largest load's elements: a smaller load does not count
constexpr std::size_t cheap_nodes = 12;  // a Map of up to so many nodes may be computed again by each reader
constexpr int gone = 1 << 20;            // array number of the value between the two Maps, which disappears

/// How often each of a view's elements is read.
std::int64_t repeats_of(const MapProblem& map, const MapView& view) {
  std::int64_t repeats = 1;
  for (std::size_t a = 0; a < map.extents.size(); ++a) {
    const bool steps = view.strides[a] != 0 ||
                       std::ranges::any_of(view.tables, [a](const auto& table) { return table.strides[a] != 0; });
    repeats *= steps ? 1 : map.extents[a];
  }
  return repeats;
}

std::int64_t bytes_of(const MapProblem& map, const MapView& view) {
  return volume_of(map, view) * static_cast<std::int64_t>(size_of(view.dtype));
}

int dense_axis(const MapProblem& map, const MapView& view) {
  for (std::size_t a = 0; a < view.strides.size(); ++a) {
    if (view.strides[a] == 1 && map.extents[a] > 1) return static_cast<int>(a);
  }
  return -1;
}

class Joining : Dataflow {
 public:
  Joining(Program& program, const CompileOptions& options)
      : Dataflow(program, options), is_part_(program.values.size()) {
    for (std::size_t v = 0; v < program.values.size(); ++v) {
      if (const int whole = program.values[v].whole; whole != none) is_part_[v] = is_part_[index(whole)] = true;
    }
    for (const auto& [name, value] : program.kept) is_part_[index(value)] = true;
  }

  void join() {
    for (Operation& op : program_.operations) {
      if (op.module == nullptr || op.view) continue;
      for (bool longer = true; longer;) {
        const std::optional<MapProblem> map = map_of_operation(op);
        const std::vector<int> inputs = op.inputs;  // a copy: takes_in() changes them
        longer = map && std::ranges::any_of(inputs, [&](int value) { return takes_in(op, *map, value); });
      }
    }
    finish();
  }

 private:
  /// An operation as a Map whose arrays are the operation's inputs.
  std::optional<MapProblem> map_of_operation(const Operation& op) const {
    if (op.module == nullptr || op.view || op.second_output != none) return std::nullopt;
    std::optional<MapProblem> result = problem_of<MapProblem>(op);
    const auto ask = [&]<class Problem>(std::type_identity<Problem>) {
      if (const auto problem = result ? std::nullopt : problem_of<Problem>(op)) {
        const PreparedViews views(program_, op, options_);
        const Preparation& p = views.preparation;
        if (p.output().shape.numel() > 0 && (!p.has_codes() || std::is_same_v<Problem, MoveProblem>)) {
          result = map_of(*problem, p);
        }
      }
    };
    ask(std::type_identity<PointwiseProblem>()), ask(std::type_identity<AffineProblem>());
    ask(std::type_identity<ConversionProblem>()), ask(std::type_identity<MoveProblem>());
    ask(std::type_identity<ReduceProblem>()), ask(std::type_identity<NormProblem>());
    ask(std::type_identity<SoftmaxProblem>()), ask(std::type_identity<PoolProblem>());
    ask(std::type_identity<ConvProblem>()), ask(std::type_identity<LinearProblem>());
    return result;
  }

  /// Whether the operation is the only one that looks at the value.
  bool is_only_for(int value, const Operation& op) const {
    const auto mine = std::ranges::count(op.inputs, value);
    return readers(value).size() == static_cast<std::size_t>(mine) && !is_output(value) && !is_part_[index(value)] &&
           !program_.value(value).constant.defined() && !is_coded(value) && &operation(*readers(value).begin()) == &op;
  }

  /// The operation that writes a value, before any changes of shape; none if there is none, or if the value is only
  /// part of what it writes. `alone`: whether `op` is the only reader.
  int writer_of(int value, const Operation& op, bool& alone) const {
    alone = is_only_for(value, op);
    int from = producer(value);
    while (from != none && operation(from).view) {
      const Operation& view = operation(from);
      if (program_.value(view.output).whole != none) return none;  // its elements are counted from the whole's first
      alone = alone && is_only_for(view.inputs[0], view);
      from = producer(view.inputs[0]);
    }
    return from;
  }

  /// An operation as Maps: one Map or, of a concatenation, one for each part.
  std::vector<MapProblem> maps_of_operation(const Operation& op) const {
    if (const auto concat = op.second_output == none ? problem_of<ConcatProblem>(op) : std::nullopt) {
      return maps_of(*concat, PreparedViews(program_, op, options_).preparation);
    }
    const std::optional<MapProblem> map = map_of_operation(op);
    return map ? std::vector{*map} : std::vector<MapProblem>();
  }

  /// Makes the operation that computes `value` part of `op`, which is the Map `second`.
  bool takes_in(Operation& op, MapProblem second, int value) {
    bool alone = false;
    const int from = writer_of(value, op, alone);
    if (from == none) return false;
    Operation& before = operation(from);
    std::vector<MapProblem> first = maps_of_operation(before);
    const auto is_cheap = [&](const MapProblem& map) { return is_as_cheap_to_read(map, before.inputs); };
    if (first.empty() || (!alone && !std::ranges::all_of(first, is_cheap))) return false;

    Operation longer = op;
    longer.inputs.clear();
    for (const std::vector<int>* inputs : {&op.inputs, &before.inputs}) {
      for (const int input : *inputs) {
        if (input != value && std::ranges::find(longer.inputs, input) == longer.inputs.end()) {
          longer.inputs.push_back(input);
        }
      }
    }
    std::vector<Tensor> parameters;
    const auto renumber = [&](MapProblem& map, const std::vector<int>& inputs) {
      for (MapView& view : map.loads) {
        const auto array = index(view.array);
        if (array >= inputs.size()) {
          view.array = static_cast<int>(longer.inputs.size() + parameters.size() + array - inputs.size());
        } else {
          const auto found = std::ranges::find(longer.inputs, inputs[array]);
          view.array = inputs[array] == value ? gone : static_cast<int>(found - longer.inputs.begin());
        }
      }
      parameters.insert(parameters.end(), map.parameters.begin(), map.parameters.end());
      map.parameters.clear();
      map = unrolled(map, few_points);
    };
    renumber(second, op.inputs);
    for (MapProblem& map : first) renumber(map, before.inputs);
    std::optional<MapProblem> both = pays(first, second) ? composed(first, second, gone) : std::nullopt;
    if (!both || !pays(*both, longer.inputs)) return false;
    both->parameters = std::move(parameters);
    const DType dtype = program_.value(op.output).format.dtype;
    longer.module = std::make_shared<Fixed<MapProblem>>(*std::move(both), shape(op.output),
                                                        is_activation(dtype) ? DType::f32 : dtype);
    longer.answers = {};
    if (!PreparedViews(program_, longer, options_).pay()) return false;
    take_names(longer, before);
    replace(op, std::move(longer));
    return true;
  }

  /// Whether a view is of numbers that are known before a run: of a parameter, or of an operand that is one.
  bool is_known(const MapView& view, const std::vector<int>& inputs) const {
    const auto array = static_cast<std::size_t>(view.array);
    return array >= inputs.size() || program_.value(inputs[array]).constant.defined();
  }

  /// Whether a Map may also be joined with one of several readers: computing it again reads hardly more bytes than
  /// reading its result would. Known numbers do not count: all images share them.
  bool is_as_cheap_to_read(const MapProblem& map, const std::vector<int>& inputs) const {
    std::int64_t read = 0;
    for (const MapView& view : map.loads) read += is_known(view, inputs) ? 0 : bytes_of(map, view);
    const std::int64_t bytes = bytes_of(map, map.stores[0].view);
    return map.reduced == 0 && map.nodes.size() <= cheap_nodes && read <= bytes + bytes / small_part;
  }

  /// Whether joining does not repeat work: each element between the two Maps is computed once, or only moved, or cheap
  /// to compute again; and no thread does several reductions that several threads would otherwise do.
  static bool pays(const std::vector<MapProblem>& first, const MapProblem& second) {
    const auto places = std::ranges::count(second.loads, gone, &MapView::array);
    if (first[0].reduced != 0 && places > 1) return false;
    for (const MapView& view : second.loads) {
      if (view.array != gone) continue;
      const std::int64_t again = repeats_of(second, view);
      const bool cheap =
          first.size() == 1 && first[0].reduced == 0 && first[0].nodes.size() <= cheap_nodes && second.reduced == 0;
      const bool moved = first.size() == 1 && first[0].nodes.size() == 1;  // whose operand is read as often then
      if (again > 1 && !moved && !(cheap && again >= small_part)) return false;
    }
    return true;
  }

  /// Whether the large arrays that are read and written have their elements side by side along one and the same axis.
  /// If nothing is reduced, two axes will do: squares of both axes are turned in shared memory. Known numbers are none
  /// of them, however large they are beside one image: there may be many.
  bool lies_alike(const MapProblem& map, const std::vector<int>& inputs) const {
    std::vector<MapView> views;
    std::ranges::copy_if(map.loads, std::back_inserter(views), [&](const MapView& v) { return !is_known(v, inputs); });
    std::int64_t largest = 1;
    for (const MapView& view : views) largest = std::max(largest, volume_of(map, view));
    for (const MapProblem::Store& store : map.stores) views.push_back(store.view);
    std::set<int> axes;
    for (const MapView& view : views) {
      if (volume_of(map, view) * small_part > largest) axes.insert(dense_axis(map, view));
    }
    if (axes.contains(-1)) return axes.size() == 1;
    return axes.size() <= (map.reduced == 0 ? 2u : 1u);
  }

  bool pays(const MapProblem& both, const std::vector<int>& inputs) const {
    std::vector<int> arrays;
    for (const MapView& view : both.loads) {
      if (std::ranges::find(arrays, view.array) == arrays.end()) arrays.push_back(view.array);
    }
    return arrays.size() + both.stores.size() <= most_arrays && both.nodes.size() <= most_nodes &&
           lies_alike(both, inputs);
  }

  std::vector<bool> is_part_;  // by value: it is part of another value, or has parts, or is kept for the caller
};

}  // namespace

void join_maps(Program& program, const CompileOptions& options) {
  if (options.device.is_cuda()) Joining(program, options).join();
}

}  // namespace lamina::detail
