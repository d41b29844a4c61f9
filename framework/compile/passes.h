#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/compile/program.h"
#include "lamina/plan/arena.h"
#include "lamina/plan/plan_impl.h"
#include "lamina/tensor/constants.h"

namespace lamina::detail {

/// A kernel's text that a GPU's driver compiles for a plan, and the steps that run it.
struct KernelText {
  std::string text;
  std::vector<std::string> steps;
};

/// A Graph on its way to a Plan, with everything that the passes have made of it so far.
struct Compilation {
  const Graph& graph;
  Release release;  ///< is told which of the graph's modules are not needed any more
  PlanConstants constants = {};
  std::unique_ptr<Plan::Impl> plan = std::make_unique<Plan::Impl>();
  Program program = {};
  std::vector<int> buffers = {};        ///< by value
  std::vector<std::size_t> homed = {};  ///< buffers that live in the arena
  Arena arena = {};
  std::vector<KernelText>* texts = nullptr;  ///< in a dry run: where to put the texts, if they are wanted

  std::size_t buffer_of(int value) const { return static_cast<std::size_t>(buffers[static_cast<std::size_t>(value)]); }
};

/// One step of compiling. What it needs, gives and ends are facts about the Compilation, a bit each: passes.cpp.
struct Pass {
  std::string_view name;
  unsigned needs, gives, ends;
  void (*run)(Compilation&);
  bool fuses;             ///< left out where options ask for no fusion
  std::string_view says;  ///< what it does, for `lamina inspect --passes`
};

/// All of them, in order.
std::span<const Pass> passes();

/// Runs all passes; those that fuse are left out if the options say so. `after` is called after each one that ran.
void take_passes(Compilation& compilation, const std::function<void(const Pass&)>& after = {});

/// The table of passes as text; for a graph, also how many steps it has before and after each pass that runs.
LAMINA_API std::string describe_passes();
LAMINA_API std::string describe_passes(const Graph& graph, const CompileOptions& options);

/// The texts of the plan that a graph becomes, in the order of its steps; none on a CPU. No memory is taken on a GPU.
LAMINA_API std::vector<KernelText> kernel_texts(const Graph& graph, const CompileOptions& options);

/// Finds each value's buffer, and makes the Plan's buffers.
void assign_buffers(Compilation& compilation);
/// Makes each operation a step, with its operator.
void prepare_steps(Compilation& compilation);
/// Settles which steps may run at the same time as the step before them.
void settle_neighbours(Compilation& compilation);
/// Gives each buffer its place in the arena.
void place_buffers(Compilation& compilation);

}  // namespace lamina::detail
