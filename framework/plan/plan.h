#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/images/preprocess.h"
#include "lamina/kernel/device_description.h"
#include "lamina/kernel/precision.h"
#include "lamina/tensor/format.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

class Graph;

struct CompileOptions {
  Device device = Device::cpu();
  std::int64_t batch = 1;
  Precision precision = Precision::fp32;
  DType linear_weights = DType::f32;  ///< on the CPU: how fully connected layers keep theirs, or bf16, f16
  int threads = 0;                    ///< on the CPU; 0: those of `pool`, or as many as this process may run at once
  std::string algorithm = {};         ///< of every convolution, one of `conv_algorithms`; empty: the fastest, by rule
  /// On the CPU: threads that several plans share. They run one at a time then, each on all of them, in the order in
  /// which they were asked to. If not set, the Plan has threads of its own.
  std::shared_ptr<ThreadPool> pool = {};
  bool fuse = true;       ///< fold batch norms into convolutions, and ReLUs into what they follow
  bool keep_all = false;  ///< keep every node's output for `activation`; fuses nothing
  std::size_t workspace_limit = std::size_t{256} << 20;  ///< bytes, on a GPU
  /// An image's results have the same bits whichever batch it is in, and in every place of it: the order of every sum
  /// is a function of the layer alone. On a CPU they have anyway. On a GPU it costs some speed (docs/benchmarks.md),
  /// and bits are others than without. All Plans that are to agree are compiled so, for devices of one kind.
  bool batch_invariant = false;
  bool capture = true;  ///< on a GPU: the second run at the same addresses is captured and replayed from then on
  /// If set, every input [N, 3, H, W] of the graph is given as 8-bit pictures instead, u8 [N, H, W, 3] as `Image` holds
  /// them, and the Plan normalises them on its device, to the bits of `normalize_into`. Resizing and cropping remain
  /// the caller's (`resize_and_crop`). A model file's `preprocess` may be given as it is.
  std::optional<Preprocess> photos = {};
  /// How the caller stores all inputs and all outputs of f32, those that are photos aside: as f32, f16 or bf16, and
  /// images [N, C, H, W] as nchw or nhwc, of which `input_shapes` and `output_shapes` then say [N, H, W, C]. What the
  /// first and the last kernels read and write so is not converted.
  Format input_format = {}, output_format = {};
  /// What kernels are chosen for; if not set, `device` as it is. With that of another device, `Graph::plan_summary`
  /// says how the network would run there; with less than there is (an architecture of 80, AVX2), the plan makes do
  /// with it.
  std::optional<DeviceDescription> description = {};
  /// Shapes of inputs by name, for those that leave extents open; the batch may be part of them. An optional input that
  /// is named here becomes one of the Plan's (`Graph::optional_inputs`).
  std::map<std::string, Shape, std::less<>> input_shapes = {};
  /// Names of nodes that are the outputs, in this order; empty: those of the graph. Any node may be one: embeddings,
  /// maps.
  std::vector<std::string> outputs = {};
  /// Values of inputs by name, optional ones too, on the CPU. They are part of the Plan then and no longer its inputs.
  /// Shapes, axes and weights may depend on nothing else.
  std::map<std::string, Tensor, std::less<>> constants = {};
  /// Compiling throws Error soon after this is asked to stop.
  std::stop_token stop = {};
};

/// Bytes a Plan holds on its device.
struct PlanMemory {
  std::size_t activations = 0;  ///< the arena that all activations share
  std::size_t workspace = 0;    ///< scratch memory, one region used by all steps in turn
  std::size_t parameters = 0;   ///< packed copies of the weights, each once; weights used in place count nothing
  std::size_t shared = 0;       ///< of the parameters: what other Plans use too, now

  std::size_t total() const { return activations + workspace + parameters; }
};

/// What one step of a Plan took.
struct StepTime {
  std::string name;    ///< of the node
  std::string fused;   ///< names of the nodes computed with it
  std::string kernel;  ///< for people
  double milliseconds = 0;
  double flops = 0;       ///< multiplications and additions
  std::size_t bytes = 0;  ///< that it reads and writes at least: operands, result, parameters
};

/// A Graph compiled for one device, batch and precision. Holds all the memory that running needs: running allocates
/// nothing, but for the CUDA graph that a GPU's second run at the same addresses is captured in. One thread at a time
/// may use a Plan: a second that calls it meanwhile gets an Error. Compile one for each thread, they share the weights.
/// A Plan that was moved from throws Error from every member.
class LAMINA_API Plan {
 public:
  using NamedTensor = std::pair<std::string_view, Tensor>;

  struct Impl;

  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  /// Runs a network of one input and one output. The result is a view into the Plan, overwritten by the next run.
  ///
  /// Inputs are of the shapes and types that `input_shapes` and `input_dtypes` say (f32, unless
  /// `CompileOptions::input_format` says otherwise; u8 where the Plan takes photos), on the host or on the Plan's
  /// device. Fewer images than the batch may be given, as long as each output is one of each image by itself: the
  /// results are then of so many. If all are on the host, so are the results, complete on return; otherwise the work is
  /// enqueued on `stream` (a cudaStream_t; null: the default stream) and the results stay on the device. Throws Error
  /// naming the input that does not fit, and for an index that is outside of what it is for: on a GPU once results come
  /// down to the host, maybe those of a later run.
  Tensor run(const Tensor& input, void* stream = nullptr);

  /// The same with any number of inputs and outputs, in the order of the graph's.
  std::span<const Tensor> run(std::span<const Tensor> inputs, void* stream = nullptr);

  /// The same by name. Throws Error unless every input is named once. Read the results with `output`.
  void run(std::initializer_list<NamedTensor> inputs, void* stream = nullptr);

  /// Runs and writes the outputs to memory of the caller's, of the outputs' shapes, on the host or on the device.
  void run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream = nullptr);

  /// Runs `runs` times (and once before, to warm up), timing each step by itself: the medians, on the device's clock
  /// on a GPU. Inputs as for `run`. Throws Error if an input does not fit or runs < 1.
  std::vector<StepTime> profile(std::span<const Tensor> inputs, int runs = 10);

  std::span<const std::string> input_names() const;
  std::span<const std::string> output_names() const;
  std::span<const Shape> input_shapes() const;
  std::span<const DType> input_dtypes() const;
  std::span<const Shape> output_shapes() const;
  std::span<const DType> output_dtypes() const;
  /// Whether each image is by itself: every input and every output has the batch as its first extent. Then fewer images
  /// than the batch may be given.
  bool batched() const;

  /// The output of that name as the last run left it. Throws Error if there is none.
  Tensor output(std::string_view name) const;
  /// The output of any node, from a Plan compiled with `keep_all`. Throws Error if there is none.
  Tensor activation(std::string_view name) const;

  const CompileOptions& options() const;
  PlanMemory memory() const;
  /// A table of the steps: node, kernel chosen, what was fused, output shape, how that is stored, FLOPs, bytes moved,
  /// offset in the arena.
  std::string summary() const;

 private:
  friend class Graph;
  explicit Plan(std::unique_ptr<Impl> impl);

  /// Throws Error if there is none any more.
  Impl& impl() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina
