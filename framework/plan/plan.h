#pragma once

#include <chrono>
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
  DType linear_weights = DType::f32;  ///< on the CPU: type of fully connected layers' weights; or bf16, f16
  int threads = 0;                    ///< on the CPU; 0: those of `pool`, or as many as the process may run at once
  std::string algorithm = {};         ///< for every convolution, one of `conv_algorithms`; empty: chosen by rule
  /// On the CPU: threads that several plans share. These plans then run one at a time, each on all threads, in the
  /// order of the calls. If not set, the Plan has its own threads.
  std::shared_ptr<ThreadPool> pool = {};
  bool fuse = true;       ///< fold batch norms into convolutions, and ReLUs into the layer before them
  bool keep_all = false;  ///< keep every node's output for `activation`; nothing is fused then
  std::size_t workspace_limit = std::size_t{256} << 20;  ///< bytes, on a GPU
  /// An image gets the same bits in every batch, and at every place in the batch: the order of every sum depends only
  /// on the layer. On a CPU this is always so. On a GPU it costs some speed (docs/benchmarks.md), and the bits differ
  /// from those without it. Set it for all Plans that must agree, and use devices of one kind.
  bool batch_invariant = false;
  bool capture = true;  ///< on a GPU: the second run at the same addresses is captured, and replayed from then on
  /// If set, every input [N, 3, H, W] of the graph takes 8-bit pictures instead, u8 [N, H, W, 3] as `Image` holds them.
  /// The Plan normalises them on its device, with the bits of `normalize_into`. You still resize and crop them
  /// (`resize_and_crop`). You may pass a model file's `preprocess` as it is.
  std::optional<Preprocess> photos = {};
  /// How you store f32 inputs and outputs, except photos: as f32, f16 or bf16, and images as nchw or nhwc. For nhwc the
  /// Plan's `input_shapes` and `output_shapes` say [N, H, W, C]. If the first and last kernels can read and write this
  /// form, nothing is converted.
  Format input_format = {}, output_format = {};
  /// The device for which kernels are chosen; if not set, `device` as it is. Describe another device, and
  /// `Graph::plan_summary` says how the network would run there. Describe less than the device has (architecture 80,
  /// AVX2), and the plan uses only that.
  std::optional<DeviceDescription> description = {};
  /// Shapes of inputs with open extents, by name; they include the batch. An optional input that is named here becomes
  /// an input of the Plan (`Graph::optional_inputs`).
  std::map<std::string, Shape, std::less<>> input_shapes = {};
  /// Names of the nodes that are the outputs, in this order; empty: the graph's outputs. Any node may be an output:
  /// embeddings, maps.
  std::vector<std::string> outputs = {};
  /// Values of inputs by name, also of optional ones, on the CPU. They become part of the Plan, and are no longer its
  /// inputs. Of all inputs, shapes, axes and weights may depend only on these.
  std::map<std::string, Tensor, std::less<>> constants = {};
  /// The most that whole numbers may be which a run computes and sizes are made of, or, of a value of which a run
  /// decides how many elements it has, how many that may be along an axis; by the name of their input or node. A run
  /// with more throws Error.
  std::map<std::string, std::int64_t, std::less<>> capacity = {};
  /// Compiling throws Stopped soon after a stop is requested.
  std::stop_token stop = {};
};

/// When a run ends before it is done: with the Error `Stopped`.
struct Limits {
  std::stop_token stop = {};                          ///< soon after a stop is requested
  std::optional<std::chrono::nanoseconds> time = {};  ///< soon after so long, also of 0 and less
};

/// Bytes a Plan holds on its device.
struct PlanMemory {
  std::size_t activations = 0;  ///< the arena that all activations share
  std::size_t workspace = 0;    ///< scratch memory, one region that all steps use in turn
  std::size_t parameters = 0;   ///< packed copies of the weights, each once; weights used in place do not count
  std::size_t shared = 0;       ///< the part of `parameters` that other Plans use too, now

  std::size_t total() const { return activations + workspace + parameters; }
};

/// The time of one step of a Plan.
struct StepTime {
  std::string name;    ///< of the node
  std::string fused;   ///< names of the nodes computed with it
  std::string kernel;  ///< for people
  double milliseconds = 0;
  double flops = 0;       ///< multiplications and additions
  std::size_t bytes = 0;  ///< read and written at least: operands, result, parameters
};

/// A Graph compiled for one device, batch and precision. It holds all the memory that a run needs, so a run allocates
/// nothing. (On a GPU, the second run at the same addresses is captured as a CUDA graph, which is allocated then.) One
/// thread at a time may use a Plan; a second thread gets an Error. Compile one for each thread: they share the weights.
/// After a move, every member of the old Plan throws Error.
class LAMINA_API Plan {
 public:
  using NamedTensor = std::pair<std::string_view, Tensor>;

  struct Impl;

  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  /// Runs a network with one input and one output. The result is a view into the Plan; the next run overwrites it.
  ///
  /// `input_shapes` and `input_dtypes` say the shapes and types of inputs: f32, unless `CompileOptions::input_format`
  /// says otherwise; u8 if the Plan takes photos. Inputs are on the host or on the Plan's device. You may give fewer
  /// images than the batch if the Plan is `batched`; the results are then for these images.
  ///
  /// If all inputs are on the host, the results are there too, complete on return; also if the Plan is `counted`.
  /// Otherwise the work is enqueued on `stream` (a cudaStream_t; null: the default stream), and the results stay on the
  /// device.
  ///
  /// Throws Error, naming the input, if an input does not fit. Also throws Error if an op gets an index out of range;
  /// on a GPU it does so when results come to the host, perhaps those of a later run.
  ///
  /// Throws Stopped when one of the `limits` is reached: before the next step; on a GPU before the run begins, because
  /// what is enqueued is computed. The Plan can run again.
  Tensor run(const Tensor& input, void* stream = nullptr, const Limits& limits = {});

  /// The same with any number of inputs and outputs, in the graph's order.
  std::span<const Tensor> run(std::span<const Tensor> inputs, void* stream = nullptr, const Limits& limits = {});

  /// The same with inputs by name; `output` gives the results. Throws Error unless every input is named once.
  void run(std::initializer_list<NamedTensor> inputs, void* stream = nullptr, const Limits& limits = {});

  /// Runs, and writes the outputs into your memory, on the host or on the device. Shapes are those of the outputs.
  void run_into(std::span<const Tensor> inputs, std::span<Tensor> outputs, void* stream = nullptr,
                const Limits& limits = {});

  /// Runs once to warm up and then `runs` times, and times each step alone. Returns the medians, on a GPU by the
  /// device's clock. Inputs as for `run`. Throws Error if an input does not fit, or if runs < 1.
  std::vector<StepTime> profile(std::span<const Tensor> inputs, int runs = 10);

  std::span<const std::string> input_names() const;
  std::span<const std::string> output_names() const;
  std::span<const Shape> input_shapes() const;
  std::span<const DType> input_dtypes() const;
  std::span<const Shape> output_shapes() const;
  std::span<const DType> output_dtypes() const;
  /// Whether a run decides how large some output is. `output_shapes` then says the most that there may be. `run` gives
  /// as many as there are; `run_into` throws Error.
  bool counted() const;
  /// Whether every output is computed for each image separately: the batch is the first extent of every input and every
  /// output. You may then give fewer images than the batch.
  bool batched() const;

  /// The output with that name, from the last run. Throws Error if there is none.
  Tensor output(std::string_view name) const;
  /// The output of any node, from a Plan compiled with `keep_all`. Throws Error if there is none.
  Tensor activation(std::string_view name) const;

  const CompileOptions& options() const;
  PlanMemory memory() const;
  /// A table of the steps: node, kernel, fused nodes, output shape and format, FLOPs, bytes moved, offset in the arena.
  std::string summary() const;

 private:
  friend class Graph;
  explicit Plan(std::unique_ptr<Impl> impl);

  /// Throws Error if there is none any more.
  Impl& impl() const;

  std::unique_ptr<Impl> impl_;
};

namespace detail {

/// Throws Stopped if a stop was requested. `what` is the work that stops: "compile".
LAMINA_API void heed_stop(const std::stop_token& stop, std::string_view what);

}  // namespace detail
}  // namespace lamina
