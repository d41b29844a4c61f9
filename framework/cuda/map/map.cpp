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
#include "lamina/cuda/runtime/stream.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr const char* entry_name = "map";
constexpr std::size_t most_pointers = 32;  // of a kernel

MapAlignment alignment_of(const Preparation& p, std::size_t parameters) {
  MapAlignment result;
  for (const View& view : p.inputs) result.inputs.push_back(view.alignment);
  result.inputs.resize(result.inputs.size() + parameters, 16);  // which are of their own
  for (const View& view : p.outputs) result.outputs.push_back(view.alignment);
  return result;
}

}  // namespace

bool takes_map(const std::optional<MapOf>& of, const Preparation& p) {
  if (!of) return false;
  const MapProblem& map = of->map;
  double points = 1;
  for (const std::int64_t extent : map.extents) points *= static_cast<double>(extent);
  if (points > std::numeric_limits<std::int32_t>::max()) return false;  // points are counted in 31 bits
  const auto converts = [&](const MapView& view) { return Elements::converts(view.dtype, map.compute); };
  std::size_t pointers = p.inputs.size() + of->parameters.size() + p.outputs.size() + 2;
  for (const MapView& view : map.loads) pointers += view.tables.size();
  return pointers <= most_pointers && std::all_of(map.loads.begin(), map.loads.end(), converts) &&
         std::all_of(map.stores.begin(), map.stores.end(), [&](const auto& store) { return converts(store.view); });
}

std::unique_ptr<Operator> prepare_map(const MapOf& of, const Preparation& p) {
  const MapProblem map = simplified(of.map);
  const MapAlignment alignment = alignment_of(p, of.parameters.size());
  const MapSchedule how = schedule(map, alignment, p.device.multiprocessors);
  const int architecture = p.device.architecture;
  const PtxFunctions& functions = PtxFunctions::all();
  const MapKernel kernel = generate(map, how, alignment, functions, entry_name, architecture);
  const LoadedKernel loaded(ptx_header(architecture) + functions.definitions(kernel.called) + kernel.text, entry_name);
  Constants constants(index(p));
  std::vector<const void*> parameters, tables;
  for (const Tensor& parameter : of.parameters) parameters.push_back(constants.add(parameter));
  for (const MapView::Table* table : kernel.tables) {
    tables.push_back(constants.add(std::vector<std::int32_t>(table->entries->begin(), table->entries->end())));
  }
  const Launch launch = {.grid = dim3(static_cast<unsigned>(kernel.blocks), static_cast<unsigned>(kernel.parts)),
                         .block = dim3(static_cast<unsigned>(kernel.threads))};
  const std::int64_t counters_at = detail::round_up<std::int64_t>(kernel.workspace, 16), counters = kernel.counters;
  return make_on_device(index(p), "map (" + std::string(how.name) + ")",
                        {.workspace = static_cast<std::size_t>(counters == 0 ? 0 : counters_at + counters)},
                        [=, device = index(p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                          (void)constants;  // which it keeps
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
                          for (Tensor& output : outputs) add(output.raw());
                          for (const void* table : tables) add(table);
                          if (counters > 0) {
                            auto* const space = static_cast<std::byte*>(execution.workspace);
                            add(space), add(space + counters_at);
                            fill_bytes(device, space + counters_at, 0, static_cast<std::size_t>(counters),
                                       execution.stream);
                          }
                          launch_kernel(loaded.get(), launch, execution.stream, arguments.data());
                        });
}

}  // namespace lamina::cuda
