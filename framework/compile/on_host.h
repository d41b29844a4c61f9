#pragma once

#include <map>
#include <memory>
#include <span>

#include "lamina/module/module.h"

namespace lamina::detail {

/// A GPU's operator that computes on the host, as a CPU does, in one thread. It has memory of its own, so it runs in
/// one thread at a time.
class OnHost : public Operator {
 public:
  /// What a run leaves on the host.
  virtual const Tensor& result(std::size_t i) const = 0;
  /// Nobody on the device reads that result, which need not go there.
  virtual void keep(std::size_t i) = 0;
  /// It reads nothing from the device: it is computed when the `leader` is, which stands before it.
  virtual void follow(OnHost& leader) = 0;
};

/// Of a module that has no kernel on the GPU, and one on a CPU; null of others, unless they are preferred on the host.
/// Operands that are on the host are in `known`; others, which are undefined there, come down.
std::unique_ptr<OnHost> on_host(const Module& module, const Preparation& preparation, std::span<const Tensor> known,
                                bool prefers_host);

/// What steps on the host left there, by the buffer that it belongs in.
class LeftOnHost {
 public:
  /// The operand that lies in a buffer; undefined if it is not on the host.
  Tensor find(std::size_t buffer, const View& operand) const;
  /// Steps in their order. One on the host, all of whose operands are there or not; it gives result i.
  void add(OnHost& step, bool all_known);
  void given(std::size_t buffer, OnHost& step, std::size_t i);
  /// Another one writes the buffer, or reads it, or the caller does.
  void written(std::size_t buffer) { left_.erase(buffer); }
  void read(std::size_t buffer);
  /// Nobody else does: what was not read stays on the host.
  void settle();

 private:
  struct Left {
    OnHost* step;
    std::size_t result;
    bool read = false;
  };
  std::map<std::size_t, Left> left_;
  OnHost* leader_ = nullptr;
};

}  // namespace lamina::detail
