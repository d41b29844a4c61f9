#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/kernel/kernel.h"
#include "lamina/tensor/device_memory.h"
#include "lamina/tensor/tensor.h"
#include "support/devices.h"

/// Problems run on tensors, by the kernels of whichever device: the same cases for all of them.
namespace lamina::test {

/// How the operands of a run are stored; the tensors that go in and come out are row-major all the same.
struct RunOptions {
  std::vector<Layout> inputs = {};  ///< by input; those that are missing, and those that are no images: nchw
  Layout output = Layout::nchw;
  std::string_view kernel = {};  ///< the row of the table; empty: the rule decides
  Precision precision = Precision::fp32;
  int threads = 2;
  bool in_place = false;  ///< the output is written over input 0
  /// The first so many inputs, and the output, all [N, H, L, D], lie as [N, L, H, D], in rows with a gap behind each.
  std::size_t strided = 0;
  std::int64_t gap = 0;
  std::vector<Quantization> quantizations = {};  ///< of the inputs, and behind them the output's; those missing: none
  Tuning tuning = {};
  std::optional<DeviceDescription> description = {};  ///< of the device, where it is to be taken for another
};

/// The elements of a row-major [N, C, H, W] tensor in the order of nhwc, or back.
inline Tensor reordered(const Tensor& tensor, bool to_nhwc) {
  const Shape& s = tensor.shape();
  const std::size_t size = size_of(tensor.dtype());
  Tensor result(s, tensor.dtype());
  const auto* from = static_cast<const std::byte*>(tensor.raw());
  auto* to = static_cast<std::byte*>(result.raw());
  std::size_t nchw = 0;
  for (std::int64_t n = 0; n < s[0]; ++n) {
    for (std::int64_t c = 0; c < s[1]; ++c) {
      for (std::int64_t p = 0; p < s[2] * s[3]; ++p, ++nchw) {
        const auto nhwc = static_cast<std::size_t>((n * s[2] * s[3] + p) * s[1] + c);
        std::memcpy(to + (to_nhwc ? nhwc : nchw) * size, from + (to_nhwc ? nchw : nhwc) * size, size);
      }
    }
  }
  return result;
}

/// How RunOptions::strided stores a tensor.
struct StridedRows {
  Shape shape;
  std::int64_t gap;

  std::int64_t row() const { return shape[3] + gap; }
  Shape strides() const { return {shape[2] * shape[1] * row(), row(), shape[1] * row(), 1}; }
  Shape memory() const { return {shape[0] * shape[2] * shape[1] * row()}; }

  /// Calls visit(place in memory, place in the tensor, bytes) for each row.
  template <class Visit>
  void for_each_row(DType dtype, const Visit& visit) const {
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    std::int64_t place = 0;
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      for (std::int64_t h = 0; h < shape[1]; ++h) {
        for (std::int64_t l = 0; l < shape[2]; ++l, place += shape[3]) {
          const std::int64_t at = ((n * shape[2] + l) * shape[1] + h) * row();
          visit(static_cast<std::size_t>(at * size), static_cast<std::size_t>(place * size),
                static_cast<std::size_t>(shape[3] * size));
        }
      }
    }
  }
  /// With NaN in the gaps.
  Tensor apart(const Tensor& tensor) const {
    Tensor result(memory(), tensor.dtype());
    std::memset(result.raw(), 0xff, result.bytes());
    const auto* from = static_cast<const std::byte*>(tensor.raw());
    auto* to = static_cast<std::byte*>(result.raw());
    for_each_row(tensor.dtype(), [&](std::size_t at, std::size_t place, std::size_t bytes) {
      std::memcpy(to + at, from + place, bytes);
    });
    return result;
  }
  /// A test failure if something was written to a gap.
  Tensor together(Tensor stored, const std::string& what) const {
    Tensor result(shape, stored.dtype());
    auto* from = static_cast<std::byte*>(stored.raw());
    auto* to = static_cast<std::byte*>(result.raw());
    for_each_row(stored.dtype(), [&](std::size_t at, std::size_t place, std::size_t bytes) {
      std::memcpy(to + place, from + at, bytes);
      std::memset(from + at, 0xff, bytes);
    });
    const std::span<const std::byte> left(from, stored.bytes());
    EXPECT_TRUE(std::ranges::all_of(left, [](std::byte b) { return b == std::byte{0xff}; })) << what << ": gaps";
    return result;
  }
};

/// Elements on a device between two zones that must stay as they are. All bytes are 0xff at first: NaN.
class GuardedTensor {
 public:
  GuardedTensor(const Shape& shape, DType dtype, Device device) : shape_(shape), dtype_(dtype) {
    const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    Tensor host({static_cast<std::int64_t>(bytes + 2 * zone)}, DType::u8);
    std::memset(host.raw(), 0xff, host.bytes());
    memory_ = host.to(device);
  }

  Tensor get() {
    return Tensor::borrow(static_cast<std::byte*>(memory_.raw()) + zone, shape_, dtype_, memory_.device());
  }

  /// On the CPU; a test failure if a zone was written to.
  Tensor read(const std::string& what) const {
    const Tensor host = memory_.to(Device::cpu());
    const auto bytes = host.values<std::uint8_t>();
    const auto untouched = [](auto part) { return std::ranges::all_of(part, [](int b) { return b == 0xff; }); };
    EXPECT_TRUE(untouched(bytes.first(zone))) << what << ": written before the output";
    EXPECT_TRUE(untouched(bytes.last(zone))) << what << ": written past the output";
    Tensor result(shape_, dtype_);
    if (result.bytes() != 0) std::memcpy(result.raw(), bytes.data() + zone, result.bytes());
    return result;
  }

 private:
  static constexpr std::size_t zone = 1024;

  Shape shape_;
  DType dtype_;
  Tensor memory_;
};

/// A problem, the Views of its operands, and the kernel found for it.
template <class Problem>
class ProblemRun {
 public:
  ProblemRun(const Problem& problem, const std::vector<Tensor>& inputs, const Shape& output, DType dtype, Device device,
             RunOptions options = {})
      : problem_(problem), inputs_(inputs), options_(std::move(options)), device_(device) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool nhwc = i < options_.inputs.size() && options_.inputs[i] == Layout::nhwc;
      const Layout layout = nhwc && inputs[i].shape().rank() == 4 ? Layout::nhwc : Layout::nchw;
      views_.push_back({.shape = inputs[i].shape(), .format = {inputs[i].dtype(), layout}});
      if (i < options_.quantizations.size()) views_.back().quantization = options_.quantizations[i];
      if (i < options_.strided) views_.back().strides = rows_of(views_.back()).strides();
    }
    output_ = {.shape = output, .format = {dtype, output.rank() == 4 ? options_.output : Layout::nchw}};
    if (options_.quantizations.size() > inputs.size()) output_.quantization = options_.quantizations[inputs.size()];
    if (options_.strided > 0) output_.strides = rows_of(output_).strides();
    preparation_ = {.inputs = views_,
                    .outputs = {&output_, 1},
                    .device = options_.description ? *options_.description : describe(device),
                    .precision = options_.precision,
                    .threads = options_.threads,
                    .tuning = options_.tuning};
    kernel_ = find_kernel(problem_, preparation_);
    if (options_.kernel.empty()) return;
    kernel_ = nullptr;
    for (const Kernel<Problem>& kernel : kernels<Problem>(device.type)) {
      if (kernel.name == options_.kernel && kernel.solves(problem_, preparation_)) kernel_ = &kernel;
    }
  }
  ProblemRun(const ProblemRun&) = delete;
  ProblemRun& operator=(const ProblemRun&) = delete;

  bool taken() const { return kernel_ != nullptr; }
  /// Of the kernel; "" if none takes it.
  std::string_view name() const { return taken() ? kernel_->name : std::string_view(); }

  /// Throws Error if nothing takes it.
  Tensor run() const {
    const Kernel<Problem>& kernel = taken() ? *kernel_ : choose(problem_, preparation_);
    const std::unique_ptr<Operator> op = kernel.prepare(problem_, preparation_);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor stored = views_[i].is_strided()                    ? rows_of(views_[i]).apart(inputs_[i])
                            : views_[i].format.layout == Layout::nhwc ? reordered(inputs_[i], true)
                                                                      : inputs_[i];
      inputs.push_back(stored.to(device_));
    }
    const Shape memory = output_.is_strided() ? rows_of(output_).memory() : output_.shape;
    GuardedTensor output(memory, output_.format.dtype, device_);
    Tensor out = output.get();
    if (options_.in_place) {
      out.copy_from(inputs[0]);
      inputs[0] = out;
    }
    GuardedTensor workspace({static_cast<std::int64_t>(op->workspace_bytes())}, DType::u8, device_);
    Tensor space = workspace.get();
    ThreadPool pool(options_.threads);
    Tensor counters = Tensor::zeros({static_cast<std::int64_t>(op->counter_bytes())}, DType::u8, device_);
    op->wait();
    op->run(inputs, {&out, 1}, {.pool = &pool, .workspace = space.raw(), .counters = counters.raw()});
    if (device_.is_cuda()) cuda::synchronize(device_.index, nullptr);
    const std::string what = detail::concat(kernel.name, " on ", device_, ", ", output_.shape);
    (void)workspace.read(what);
    const Tensor result = output.read(what);
    if (output_.is_strided()) return rows_of(output_).together(result, what);
    return output_.format.layout == Layout::nhwc ? reordered(result, false) : result;
  }

 private:
  StridedRows rows_of(const View& view) const { return {view.shape, options_.gap}; }

  Problem problem_;
  std::vector<Tensor> inputs_;
  RunOptions options_;
  Device device_;
  std::vector<View> views_;
  View output_;
  Preparation preparation_;
  const Kernel<Problem>* kernel_ = nullptr;
};

/// What the problem makes of CPU tensors, as one; all row-major. Throws Error if no kernel takes it.
template <class Problem>
Tensor run_problem(const Problem& problem, const std::vector<Tensor>& inputs, const Shape& output, DType dtype,
                   Device device, const RunOptions& options = {}) {
  return ProblemRun<Problem>(problem, inputs, output, dtype, device, options).run();
}

/// Any tensor's elements as doubles.
inline std::vector<double> doubles(const Tensor& tensor) {
  const Tensor wide = tensor.to(DType::f64);
  const auto values = wide.values<double>();
  return {values.begin(), values.end()};
}

}  // namespace lamina::test
