// From a Map to its operator: the schedule, the text, the driver's kernel, and what its parameters point to.

#include "lamina/cuda/map/map.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cuda/map/elements.h"
#include "lamina/cuda/map/generate.h"
#include "lamina/cuda/map/loaded.h"
#include "lamina/cuda/map/ptx_text.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/kernel/map/stages.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr const char* entry_name = "map";
constexpr std::size_t most_pointers = 32;  // of a kernel

// What is worth compiling a kernel for: nearly everything, since the one that walks through any Map takes 20
// microseconds for a norm of 64 elements. Of reductions, for which bits depend on the kernel, it depends on the extents
// of one image alone.
constexpr std::int64_t least_bytes = 32;
// What a block reads again and again where points wait for what is reduced; more is a launch for each reduction, of as
// many blocks as there is work for.
constexpr std::int64_t longest_row = 8192, longest_column = 1024;

MapAlignment alignment_of(const Preparation& p, std::size_t parameters) {
  MapAlignment result;
  for (const View& view : p.inputs) result.inputs.push_back(view.alignment);
  result.inputs.resize(result.inputs.size() + parameters, 16);  // parameters have buffers of their own
  for (const View& view : p.outputs) result.outputs.push_back(view.alignment);
  return result;
}

/// Who does what of a problem.
struct Planned {
  Planned(const MapProblem& problem, MapAlignment arrays, int processors)
      : map(simplified(problem)), alignment(std::move(arrays)), how(schedule(map, alignment, processors)) {}

  MapProblem map;
  MapAlignment alignment;
  MapSchedule how;
};

bool fits_blocks(const Planned& it) {
  const auto comes_back = [&](const MapProblem::Store& store) { return stores_each(it.map, store); };
  if (few_beside_next_row(it.map) != 0 && std::ranges::any_of(it.map.stores, comes_back)) return false;
  return it.how.parts > 1 || reduced_points(it.map) <= (it.how.name == "rows" ? longest_row : longest_column);
}

/// One launch. Pointers stand in the order that MapKernel says.
struct MapLaunch {
  LoadedKernel kernel;
  Launch launch;
  std::vector<const void*> tables = {};
  std::optional<std::size_t> to = {};  ///< which array between launches it writes; none: the outputs
  bool meets = false;                  ///< its blocks do
};

struct MapRun {
  explicit MapRun(int device) : constants(device) {}

  std::vector<MapLaunch> launches = {};
  Constants constants;                       ///< what the others point to
  std::vector<const void*> parameters = {};  ///< behind the inputs
  std::vector<std::size_t> between = {};     ///< where arrays between launches begin in the workspace
  std::size_t parts = 0;                     ///< where there is room for what blocks have found

  void wait() const {
    for (const MapLaunch& one : launches) (void)one.kernel.get();
  }
  void operator()(Inputs inputs, Outputs outputs, const Execution& execution) const {
    auto* const workspace = static_cast<unsigned char*>(execution.workspace);
    const std::uintptr_t beside =
        launches.size() > 1 ? 0 : (execution.neighbours.before ? 1u : 0u) | (execution.neighbours.after ? 2u : 0u);
    for (const MapLaunch& one : launches) {
      std::array<const void*, most_pointers> pointers;
      std::array<void*, most_pointers> arguments;
      std::size_t count = 0;
      const auto add = [&](const void* pointer) {
        pointers[count] = pointer;
        arguments[count] = &pointers[count];
        ++count;
      };
      for (const Tensor& input : inputs) add(input.raw());
      for (const void* parameter : parameters) add(parameter);
      for (const std::size_t begin : between) add(workspace + begin);
      if (one.to) {
        add(workspace + between[*one.to]);
      } else {
        for (Tensor& output : outputs) add(output.raw());
      }
      for (const void* table : one.tables) add(table);
      if (one.meets) {
        add(workspace + parts), add(execution.counters);
      } else {
        add(reinterpret_cast<const void*>(beside));
      }
      launch_kernel(one.kernel.get(), one.launch, execution.stream, arguments.data());
    }
  }
};

}  // namespace

bool takes_map(const std::optional<MapProblem>& of, const Preparation& p) {
  if (!of) return false;
  const MapProblem& map = *of;
  double points = 1;
  for (const std::int64_t extent : map.extents) points *= static_cast<double>(extent);
  // Points are counted in 31 bits.
  if (points == 0 || points > std::numeric_limits<std::int32_t>::max()) return false;
  if (map.extents.size() > most_map_axes && simplified(map).extents.size() > most_map_axes) return false;
  const auto converts = [&](const MapView& view) { return Elements::converts(view.dtype, map.compute); };
  std::size_t pointers = p.inputs.size() + map.parameters.size() + p.outputs.size() + 2;
  for (const MapView& view : map.loads) pointers += view.tables.size();
  for (const MapNode& node : map.nodes)
    pointers += node.kind == MapNode::Kind::reduce ? 1 : 0;  // arrays between launches
  return pointers <= most_pointers && std::all_of(map.loads.begin(), map.loads.end(), converts) &&
         std::all_of(map.stores.begin(), map.stores.end(), [&](const auto& store) { return converts(store.view); });
}

bool fits_blocks(const MapProblem& problem, const Preparation& p) {
  return fits_blocks(Planned(problem, alignment_of(p, problem.parameters.size()), p.device.multiprocessors));
}

bool pays_map(const std::optional<MapProblem>& problem, const Preparation& p) {
  const MapProblem map = simplified(*problem);
  std::int64_t bytes = 0, largest = 0;
  const auto look = [&](const MapView& view) {
    const std::int64_t size = volume_of(map, view) * static_cast<std::int64_t>(size_of(view.dtype));
    bytes += size, largest = std::max(largest, size);
  };
  for (const MapView& view : map.loads) look(view);
  for (const auto& store : map.stores) look(store.view);
  const std::int64_t counted = map.reduced == 0 ? bytes : 2 * largest / std::max<std::int64_t>(p.images, 1);
  return counted >= least_bytes && driver_compiles(index(p));
}

std::unique_ptr<Operator> prepare_map(const MapProblem& problem, const Preparation& p) {
  const int architecture = p.device.architecture;
  const PtxFunctions& functions = PtxFunctions::all();
  MapRun run(index(p));
  for (const Tensor& parameter : problem.parameters) run.parameters.push_back(run.constants.add(parameter));

  const MapAlignment arrays = alignment_of(p, problem.parameters.size());
  const Planned whole(problem, arrays, p.device.multiprocessors);
  MapStages stages = {{problem}, {}};
  if (whole.map.reduced != 0 && !fits_blocks(whole)) {
    stages = stages_of(whole.map, static_cast<int>(p.inputs.size() + problem.parameters.size()));
  }
  for (const std::int64_t elements : stages.elements) {
    run.between.push_back(run.parts);
    run.parts += detail::round_up<std::size_t>(static_cast<std::size_t>(elements) * size_of(problem.compute), 256);
  }
  std::size_t found = 0, counters = 0;
  for (std::size_t i = 0; i < stages.maps.size(); ++i) {
    const bool last = i + 1 == stages.maps.size();
    MapAlignment with = arrays;
    with.inputs.resize(with.inputs.size() + stages.elements.size(), 256);
    if (!last) with.outputs = {256};
    auto [map, alignment, how] = Planned(stages.maps[i], std::move(with), p.device.multiprocessors);
    how.early = how.early && stages.elements.empty();  // what is between is somebody's result
    const MapKernel kernel = generate(map, how, alignment, functions, entry_name, architecture);
    MapLaunch one = {.kernel = LoadedKernel(
                         index(p), architecture,
                         ptx_header(architecture) + functions.definitions(kernel.called) + kernel.text, entry_name),
                     .launch = {.grid = dim3(static_cast<unsigned>(kernel.blocks), static_cast<unsigned>(kernel.parts)),
                                .block = dim3(static_cast<unsigned>(kernel.threads)),
                                .overlaps = architecture >= 90},  // as the text says that it waits
                     .meets = kernel.parts > 1};
    if (!last) one.to = i;
    for (const MapView::Table* table : kernel.tables) {
      one.tables.push_back(
          run.constants.add(std::vector<std::int32_t>(table->entries->begin(), table->entries->end())));
    }
    found = std::max(found, static_cast<std::size_t>(kernel.workspace));
    counters = std::max(counters, static_cast<std::size_t>(kernel.counters));
    run.launches.push_back(std::move(one));
  }
  const std::size_t launches = run.launches.size();
  const std::string name = launches > 1 ? std::to_string(launches) + " launches" : std::string(whole.how.name);
  const bool beside = launches == 1 && !run.launches[0].meets;
  return make_on_device(index(p), "map (" + name + ")",
                        {.workspace = run.parts + found, .counters = counters, .heeds_neighbours = beside},
                        std::move(run));
}

}  // namespace lamina::cuda
