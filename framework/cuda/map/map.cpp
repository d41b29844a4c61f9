// From a Map to its operator: the schedule, the text, the driver's kernel, and what its parameters point to.

#include "lamina/cuda/map/map.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lamina/cuda/map/elements.h"
#include "lamina/cuda/map/generate.h"
#include "lamina/cuda/map/loaded.h"
#include "lamina/cuda/map/ptx_text.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr const char* entry_name = "map";
constexpr std::size_t most_pointers = 32;  // of a kernel

// What is worth compiling a kernel for, measured beside the kernels that are there. Of reductions, for which bits
// depend on the kernel, it depends on the extents of one image alone.
constexpr std::int64_t least_bytes = 1 << 16;
// Where blocks cannot share what is reduced, because points wait for it.
constexpr std::int64_t longest_row = 8192, longest_column = 1024;

MapAlignment alignment_of(const Preparation& p, std::size_t parameters) {
  MapAlignment result;
  for (const View& view : p.inputs) result.inputs.push_back(view.alignment);
  result.inputs.resize(result.inputs.size() + parameters, 16);  // which are of their own
  for (const View& view : p.outputs) result.outputs.push_back(view.alignment);
  return result;
}

/// Who does what of a problem.
struct Planned {
  Planned(const MapProblem& problem, const Preparation& p)
      : map(simplified(problem)),
        alignment(alignment_of(p, problem.parameters.size())),
        how(schedule(map, alignment, p.device.multiprocessors)) {}

  MapProblem map;
  MapAlignment alignment;
  MapSchedule how;
};

bool fits_blocks(const Planned& it) {
  return it.how.parts > 1 || reduced_points(it.map) <= (it.how.name == "rows" ? longest_row : longest_column);
}

/// The launch. Pointers stand in the order that MapKernel says.
struct MapRun {
  LoadedKernel kernel;
  Launch launch;
  Constants constants;              ///< what the others point to
  std::vector<const void*> others;  ///< parameters, the first of them, and tables
  std::size_t parameters = 0;

  void wait() const { (void)kernel.get(); }
  void operator()(Inputs inputs, Outputs outputs, const Execution& execution) const {
    std::array<const void*, most_pointers> pointers;
    std::array<void*, most_pointers> arguments;
    std::size_t count = 0;
    const auto add = [&](const void* pointer) {
      pointers[count] = pointer;
      arguments[count] = &pointers[count];
      ++count;
    };
    for (const Tensor& input : inputs) add(input.raw());
    for (std::size_t i = 0; i < parameters; ++i) add(others[i]);
    for (Tensor& output : outputs) add(output.raw());
    for (std::size_t i = parameters; i < others.size(); ++i) add(others[i]);
    add(execution.workspace), add(execution.counters);  // which a kernel without parts does not have
    launch_kernel(kernel.get(), launch, execution.stream, arguments.data());
  }
};

}  // namespace

bool takes_map(const std::optional<MapProblem>& of, const Preparation& p) {
  if (!of) return false;
  const MapProblem& map = *of;
  double points = 1;
  for (const std::int64_t extent : map.extents) points *= static_cast<double>(extent);
  if (points > std::numeric_limits<std::int32_t>::max()) return false;  // points are counted in 31 bits
  const auto converts = [&](const MapView& view) { return Elements::converts(view.dtype, map.compute); };
  std::size_t pointers = p.inputs.size() + map.parameters.size() + p.outputs.size() + 2;
  for (const MapView& view : map.loads) pointers += view.tables.size();
  return pointers <= most_pointers && std::all_of(map.loads.begin(), map.loads.end(), converts) &&
         std::all_of(map.stores.begin(), map.stores.end(), [&](const auto& store) { return converts(store.view); });
}

bool fits_blocks(const MapProblem& problem, const Preparation& p) { return fits_blocks(Planned(problem, p)); }

bool pays_map(const std::optional<MapProblem>& problem, const Preparation& p) {
  const Planned planned(*problem, p);
  const auto& [map, alignment, how] = planned;
  std::int64_t bytes = 0, largest = 0;
  bool lies_well = true;
  const auto look = [&](const MapView& view) {
    const std::int64_t size = volume_of(map, view) * static_cast<std::int64_t>(size_of(view.dtype));
    bytes += size, largest = std::max(largest, size);
    const std::int64_t stride = how.vector < 0 ? 1 : view.strides[static_cast<std::size_t>(how.vector)];
    lies_well = lies_well && (stride <= 1 || is_staged(view, how) || is_interleaved(view, how));
  };
  for (const MapView& view : map.loads) look(view);
  for (const auto& store : map.stores) look(store.view);
  const std::int64_t counted = map.reduced == 0 ? bytes : 2 * largest / std::max<std::int64_t>(p.images, 1);
  return lies_well && counted >= least_bytes && fits_blocks(planned) && driver_compiles(index(p));
}

std::unique_ptr<Operator> prepare_map(const MapProblem& problem, const Preparation& p) {
  const auto& [map, alignment, how] = Planned(problem, p);
  const int architecture = p.device.architecture;
  const PtxFunctions& functions = PtxFunctions::all();
  const MapKernel kernel = generate(map, how, alignment, functions, entry_name, architecture);
  const LoadedKernel loaded(index(p), architecture,
                            ptx_header(architecture) + functions.definitions(kernel.called) + kernel.text, entry_name);
  Constants constants(index(p));
  std::vector<const void*> others;
  for (const Tensor& parameter : problem.parameters) others.push_back(constants.add(parameter));
  const std::size_t parameters = others.size();
  for (const MapView::Table* table : kernel.tables) {
    others.push_back(constants.add(std::vector<std::int32_t>(table->entries->begin(), table->entries->end())));
  }
  const Launch launch = {.grid = dim3(static_cast<unsigned>(kernel.blocks), static_cast<unsigned>(kernel.parts)),
                         .block = dim3(static_cast<unsigned>(kernel.threads)),
                         .overlaps = architecture >= 90};  // as the text says that it waits
  return make_on_device(
      index(p), "map (" + std::string(how.name) + ")",
      {.workspace = static_cast<std::size_t>(kernel.workspace), .counters = static_cast<std::size_t>(kernel.counters)},
      MapRun{loaded, launch, constants, others, parameters});
}

}  // namespace lamina::cuda
