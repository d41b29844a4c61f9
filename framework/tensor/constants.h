#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lamina/tensor/tensor.h"

/// The one store of what kernels only read: packed weights, tables, constants of a network. A block of it is there once
/// for each device, whichever Plan, thread or node asked for it, and is freed with the last that uses it. Whatever
/// `prepare` makes and an Operator keeps comes from here: nothing else is shared, or counted. Any thread may ask.
namespace lamina::detail {

/// How something is packed: all that the result depends on besides its sources.
struct Packing {
  std::string how;

  template <class... Fields>
  explicit Packing(std::string_view kind, const Fields&... fields) : how(kind) {
    static_assert((std::has_unique_object_representations_v<Fields> && ...), "gaps between members have any value");
    (how.append(reinterpret_cast<const char*>(&fields), sizeof fields), ...);
  }

  template <class Value>
  Packing& with(std::span<const Value> values) {
    static_assert(std::is_arithmetic_v<Value>);
    how.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    return *this;
  }
};

/// What `pack` writes, on the CPU. A Plan's own weights are packed once for all its nodes. Otherwise, if something is
/// packed so already, the sources are hashed, and a block that was packed from the same is the answer; or one that has
/// the elements written. Threads take turns at it. `pack` must not ask for anything.
Tensor packed(const Packing& packing, std::initializer_list<Tensor> sources, Shape shape, DType dtype,
              const std::function<void(Tensor& to)>& pack);

/// The same of what is packed further on: weights turned, or multiplied by what follows them. A Plan of one size of
/// many keeps it, so that compiling the next size finds it.
Tensor derived(const Packing& packing, std::initializer_list<Tensor> sources, Shape shape, DType dtype,
               const std::function<void(Tensor& to)>& pack);

/// These elements on that device, found by themselves. On the CPU they are not copied; nor shared, unless they were
/// made while a Plan is compiled: what is the caller's or the graph's is used where it lies.
Tensor constant(const Tensor& host, Device device = Device::cpu());
template <class T>
Tensor constant(const std::vector<T>& values) {
  return constant(Tensor::from(values, {static_cast<std::int64_t>(values.size())}));
}

/// While one lives, what its thread asks of the store is for one Plan.
class PlanConstants {
 public:
  PlanConstants();
  ~PlanConstants();

  /// Names memory of the caller's or of the graph's. `counts`: once that is gone, it is the Plan's.
  void keep(const Tensor& tensor, bool counts);
  /// From now on what is derived stays, up to so many bytes.
  void keep_derived(std::size_t bytes);
  /// What stays. Whoever holds it keeps it.
  std::vector<std::shared_ptr<const void>> kept_derived() const;
  /// Bytes of what was asked for since the last call, and is in use.
  std::size_t bytes_of_step();
  /// A number of bytes for each block that is in use and counts. The block holds one of these pointers, each Plan one.
  std::vector<std::shared_ptr<const std::size_t>> in_use() const;

 private:
  std::unique_ptr<struct ConstantsAsked> asked_;
};

}  // namespace lamina::detail
