#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/operator.h"
#include "lamina/plan/arena.h"
#include "lamina/plan/plan.h"

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
    double flops = 0;
    std::size_t bytes = 0;  ///< bytes that the step reads and writes at least: operands, result, parameters
    Shape output_shape;
    std::size_t output_buffer = 0;
    bool beside = false;  ///< may run at the same time as the step before it
    std::unique_ptr<Operator> op;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
  };

  /// A tensor inside a step that looks at a buffer.
  struct Use {
    std::size_t step;
    int slot;  ///< input number, or -1 for the output, -2 for a second one
    Shape shape;
    DType dtype;
    std::size_t offset = 0;  ///< bytes
  };

  struct Buffer {
    detail::Lifetime life;
    bool input = false;                 ///< bound to the caller's memory at each run
    std::optional<std::size_t> offset;  ///< in the arena
    Tensor constant;                    ///< u8 bytes that are the same in every run, on the Plan's device
    Tensor home;                        ///< u8 bytes in the arena; undefined for a CPU plan's inputs
    Tensor bound;                       ///< where the buffer is now: home or the caller's memory, as u8 bytes
    std::vector<Use> uses;
  };

  /// An input or output of the graph.
  struct Port {
    std::string name = {};
    Shape shape;  ///< as the caller has it
    DType dtype = DType::f32;
    std::size_t buffer = 0;
    bool batched = false;          ///< the first extent is the batch: fewer images may be given, and come back
    bool bindable = false;         ///< an output that may be computed straight into the caller's memory
    Tensor padded = {};            ///< of an input, on the CPU: where fewer images lie; made when they first come
    std::vector<int> counts = {};  ///< of an output: by axis, the port whose number says how many there are; -1: all
    Tensor staging = {};           ///< on a GPU: pinned host memory that results for a host caller land in
    Tensor packed = {};            ///< of an output with counts: where what is there stands together
    Tensor number = {};            ///< of a count: on the host, after a run

    bool counted() const { return !counts.empty(); }
  };

  struct NodeOutput {
    std::string name;
    Shape shape;
    DType dtype = DType::f32;
    std::size_t buffer = 0;
  };

  /// A captured run on a GPU. Kernels get addresses by value, so the captured graph is good for these addresses alone.
  struct Recording {
    std::vector<const void*> addresses;  ///< where the inputs and outputs were bound
    std::optional<cuda::CapturedGraph> graph;
    std::uint64_t used = 0;  ///< number of the latest run; 0: free
  };

  /// Holds the Plan for one call. Throws Error if another call has it.
  class Busy {
   public:
    explicit Busy(Impl& plan);
    ~Busy() { plan_.busy.store(false, std::memory_order_release); }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    Impl& plan_;
  };

  std::atomic<bool> busy = false;
  CompileOptions options;
  std::shared_ptr<ThreadPool> pool;  ///< its own, or that of the options
  Tensor arena;
  Tensor workspace;               ///< of memory.workspace bytes; the last of them are
  std::size_t counter_bytes = 0;  ///< the counters, all 0 between steps
  Tensor faults;                  ///< on a GPU: pinned, a Fault for each step
  std::vector<Buffer> buffers;
  std::vector<Step> steps;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<Port> counts;                                   ///< of outputs: i64 [1]
  std::vector<NodeOutput> kept;                               ///< with keep_all: every node
  PlanMemory memory;                                          ///< without what other Plans share
  std::vector<std::shared_ptr<const std::size_t>> constants;  ///< PlanConstants::in_use
  std::vector<std::shared_ptr<const void>> derived;           ///< PlanConstants::kept_derived
  /// A caller that feeds a pipeline rotates a few buffers; callers that bring new memory every time are not captured,
  /// because only the second run at the same addresses is.
  std::array<Recording, 8> recordings;
  std::uint64_t runs = 0;
  Limits limits;  ///< limits of the run that is under way
  bool limited = false;
  std::chrono::steady_clock::time_point began;  ///< set if the run's time is limited

  // For the accessors that return spans, and the results of the last run.
  std::vector<std::string> input_names, output_names;
  std::vector<Shape> input_shapes, output_shapes;
  std::vector<DType> input_dtypes, output_dtypes;
  std::vector<Tensor> results;
  std::vector<Tensor> named_inputs;

  std::string summary() const;
  PlanMemory memory_now() const;
  /// The Execution that steps get on that stream.
  Execution execution(void* stream) const;
  /// Points every use of a buffer at `target`, which is as large as the buffer.
  void bind(std::size_t buffer, const Tensor& target);
  /// The activation of that shape in a buffer, wherever the buffer is bound now; of a slice, from its first element on
  /// (there are enough behind it).
  Tensor view(std::size_t buffer, const Shape& shape, DType dtype = DType::f32, std::size_t offset = 0) const;
  /// The work of `Plan::run` and `run_into`, once they hold the Plan.
  std::span<const Tensor> run(std::span<const Tensor> tensors, void* stream, const Limits& asked);
  void run_into(std::span<const Tensor> tensors, std::span<Tensor> targets, void* stream, const Limits& asked);
  /// How many images these inputs are for. Throws Error if they do not fit.
  std::int64_t images_of(std::span<const Tensor> tensors) const;
  void bind_inputs(std::span<const Tensor> tensors, std::int64_t images, void* stream);
  /// An output as the caller sees it: its part for the first `images` images.
  Tensor result(const Port& output, std::int64_t images) const;
  /// The elements that are there of an output with counts, packed on the host. `all` has room for more.
  Tensor counted_result(const Port& output, const Tensor& all) const;
  /// Sets the limits of the run that begins now.
  void begin(const Limits& asked);
  /// Throws Stopped where a limit is reached.
  void heed_limits() const;
  /// Runs the steps; on a GPU from a captured graph, if there was a run at these addresses before.
  void enqueue(void* stream);
  void run_steps(void* stream);
  /// To be called once the enqueued work is done. Throws what steps on the host threw, and Error for an index out of
  /// range.
  void check_run();

 private:
  bool bound_as(const Recording& recording) const;
  /// The recording for the current addresses. If there is none, a new one takes the place of the recording that was
  /// used longest ago.
  Recording& recording();
};

}  // namespace lamina
