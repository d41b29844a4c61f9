#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/make_operator.h"

/// Operators of a GPU: any, and those that are one launch of one kernel, as most are whose weights are packed.
namespace lamina::cuda {

/// The functions of a kernel's row in a table: `Takes<PoolProblem> takes_pool;` declares one.
template <class Problem>
using Takes = bool(const Problem&, const Preparation&);
template <class Problem>
using Prepare = std::unique_ptr<Operator>(const Problem&, const Preparation&);

/// A function object that runs with the device current, and not at all where the output is empty.
template <class Run>
struct OnDevice {
  int device;
  Run run;

  void wait() const requires requires(const Run& r) { r.wait(); }
  { run.wait(); }
  void operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const {
    if (outputs[0].numel() == 0) return;
    const DeviceGuard guard(device);
    run(inputs, outputs, execution);
  }
};

/// make_operator of that.
template <class Run>
std::unique_ptr<Operator> make_on_device(int device, std::string description, lamina::detail::OperatorTraits traits,
                                         Run run) {
  return lamina::detail::make_operator(std::move(description), traits, OnDevice<Run>{device, std::move(run)});
}
template <class Run>
std::unique_ptr<Operator> make_on_device(int device, std::string description, Run run) {
  return make_on_device(device, std::move(description), {}, std::move(run));
}

/// A tensor's elements on the device.
template <class T>
const T* elements(const Tensor& tensor) {
  return static_cast<const T*>(tensor.raw());
}
template <class T>
T* elements(Tensor& tensor) {
  return static_cast<T*>(tensor.raw());
}

/// A grid and blocks of one dimension.
inline Launch of_blocks(std::int64_t blocks, int threads, std::int64_t shared_bytes = 0, int cluster = 1) {
  return {.grid = dim3(static_cast<unsigned>(blocks)),
          .block = dim3(static_cast<unsigned>(threads)),
          .shared_bytes = static_cast<std::size_t>(shared_bytes),
          .cluster = cluster};
}

/// What a kernel's arguments point to besides activations. Cheap to copy.
class Constants {
 public:
  explicit Constants(int device) : device_(device) {}

  /// The address of a copy on the device, which this keeps. Throws Error if memory runs out.
  template <class Value>
  const Value* add(const std::vector<Value>& values) {
    return all_.emplace_back(device_, values.data(), values.size() * sizeof(Value)).template as<Value>();
  }

  const void* add(const Tensor& host) { return all_.emplace_back(device_, host.raw(), host.bytes()).data(); }
  int device() const { return device_; }

 private:
  int device_;
  std::vector<Constant> all_;
};

template <class Arguments>
struct Launched {
  std::string description;
  const void* kernel = nullptr;  ///< __global__ void(Arguments, more...)
  Launch how;
  Arguments args;            ///< all but the addresses of activations
  Constants constants;       ///< what they point to
  std::size_t residual = 0;  ///< the input that args.finish adds; 0: none
};

/// The operator of one launch. It fills in `input`, `output`, `finish.residual` and `neighbours`, those of them that
/// Arguments has; `more(args, inputs, outputs)` fills in what else depends on addresses, and gives a tuple of the
/// kernel's parameters behind Arguments.
template <class Arguments, class More>
std::unique_ptr<Operator> make_launched(Launched<Arguments> it, More more) {
  constexpr bool beside = requires(Arguments & a) { a.neighbours; };
  std::string description = std::move(it.description);
  const lamina::detail::OperatorTraits traits = {.heeds_neighbours = beside};
  const int device = it.constants.device();
  return make_on_device(device, std::move(description), traits,
                        [it = std::move(it), more = std::move(more)](
                            std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
                          Arguments args = it.args;
                          if constexpr (requires { args.input; }) args.input = inputs[0].raw();
                          if constexpr (requires { args.output; }) args.output = outputs[0].raw();
                          if constexpr (requires { args.finish.residual; }) {
                            if (it.residual > 0) args.finish.residual = inputs[it.residual].raw();
                          }
                          if constexpr (beside) args.neighbours = execution.neighbours;
                          auto others = more(args, inputs, outputs);
                          std::apply(
                              [&](auto&... other) {
                                void* addresses[] = {&args, &other...};
                                launch_kernel(it.kernel, it.how, execution.stream, addresses);
                              },
                              others);
                        });
}

template <class Arguments>
std::unique_ptr<Operator> make_launched(Launched<Arguments> it) {
  return make_launched(std::move(it), [](auto&, auto, auto) { return std::tuple(); });
}

}  // namespace lamina::cuda
