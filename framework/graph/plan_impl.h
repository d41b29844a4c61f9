#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lamina/cpu/thread_pool.h"
#include "lamina/graph/memory_planner.h"
#include "lamina/graph/plan.h"
#include "lamina/layers/operator.h"

namespace lamina {

/// What `Graph::compile` decides and `Plan::run` follows.
///
/// Every activation belongs to a buffer; views and in-place results share the buffer of their source. Before a run,
/// each input's buffer is bound to the caller's memory, and in `run_into` each output's buffer too where possible, so
/// that nothing is copied; all other buffers live in the arena for good.
struct Plan::Impl {
  /// One operator and the activations it touches.
  struct Step {
    std::string name;   ///< of the node whose module runs
    std::string fused;  ///< of the nodes folded into it, or empty
    Format input_format;
    Format output_format;
    std::unique_ptr<Operator> op;
    std::vector<Tensor> inputs;
    Tensor output;
  };

  /// A tensor inside a step that looks at a buffer.
  struct Use {
    std::size_t step;
    int slot;  ///< input number, or -1 for the output
    Shape shape;
    DType dtype;
  };

  struct Buffer {
    detail::Lifetime life;
    bool input = false;  ///< bound to the caller's memory at each run
    Tensor home;         ///< u8 bytes in the arena; undefined for a CPU plan's inputs
    Tensor bound;        ///< where the buffer is now: home or the caller's memory, as u8 bytes
    std::vector<Use> uses;
  };

  /// An input or output of the graph.
  struct Port {
    std::string name;
    Shape shape;
    std::size_t buffer = 0;
    bool bindable = false;  ///< an output that may be computed straight into the caller's memory
    Tensor staging;         ///< on a GPU: pinned host memory that results for a host caller land in
  };

  struct NodeOutput {
    std::string name;
    Shape shape;
    std::size_t buffer = 0;
  };

  CompileOptions options;
  std::unique_ptr<cpu::ThreadPool> pool;
  Tensor arena;
  Tensor workspace;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<NodeOutput> kept;  ///< with keep_all: every node
  PlanMemory memory;

  // For the accessors that return spans, and the results of the last run.
  std::vector<std::string> input_names, output_names;
  std::vector<Shape> input_shapes, output_shapes;
  std::vector<Tensor> results;
  std::vector<Tensor> named_inputs;

  /// Points every use of a buffer at `target`, which is as large as the buffer.
  void bind(std::size_t buffer, const Tensor& target);
  /// The activation of that shape in a buffer, wherever the buffer is bound now. What Layout::blocked adds to the
  /// shape's elements lies behind them.
  Tensor view(std::size_t buffer, const Shape& shape, DType dtype = DType::f32) const;
  void bind_inputs(std::span<const Tensor> tensors, void* stream);
  void run_steps(void* stream);
};

}  // namespace lamina
