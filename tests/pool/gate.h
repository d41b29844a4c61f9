#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>

#include "lamina/graph/graph.h"
#include "lamina/module/module.h"

namespace lamina::test {

/// Copies its input, and calls `meanwhile` with it first.
class Meddler : public Module {
 public:
  std::function<void(const Tensor&)> meanwhile;

  std::string_view op() const override { return "meddler"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  bool takes(const Preparation&) const override { return true; }
  std::unique_ptr<Operator> prepare(const Preparation&) const override {
    struct Meddling : Operator {
      const Meddler* module;
      explicit Meddling(const Meddler* m) : module(m) {}
      void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution&) const override {
        module->meanwhile(inputs[0]);
        outputs[0].copy_from(inputs[0]);
      }
      std::string description() const override { return "meddles"; }
    };
    return std::make_unique<Meddling>(this);
  }
};

/// x [N, 4] -> the same, through a Meddler. The Graph must outlive its Plans.
inline Graph meddled_network(std::function<void(const Tensor&)> meanwhile) {
  auto meddler = std::make_shared<Meddler>();
  meddler->meanwhile = std::move(meanwhile);
  Graph graph;
  const Value x = graph.input("x", {batch, 4});
  graph.output(graph.add("m", meddler, {&x, 1}));
  return graph;
}

/// Holds the plans that run until it is opened.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    change_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++inside_;
    change_.notify_all();
    change_.wait(lock, [&] { return open_; });
  }
  /// Waits until so many have come.
  void await(int inside) {
    std::unique_lock lock(mutex_);
    change_.wait(lock, [&] { return inside_ >= inside; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable change_;
  int inside_ = 0;
  bool open_ = false;
};

inline Graph gated_network(Gate& gate) {
  return meddled_network([&gate](const Tensor&) { gate.pass(); });
}

}  // namespace lamina::test
