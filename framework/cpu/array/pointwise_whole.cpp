#include "lamina/cpu/array/pointwise.h"
#include "lamina/kernel/rules/whole_function.h"

namespace lamina::cpu {
namespace {

/// A loop for each function, which the compiler vectorises.
template <Pointwise function, class T>
[[gnu::flatten]] void loop(const StepOperands<T>& o, T* __restrict output, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) output[i] = detail::whole_function(function, o.value[i], o.x[i], o.y[i]);
}

}  // namespace

template <class T>
void apply_whole(Pointwise function, const StepOperands<T>& operands, T* output, std::int64_t count) {
  static constexpr void (*loops[])(const StepOperands<T>&, T*, std::int64_t) = {
#define LAMINA_LOOP(name, ...) loop<Pointwise::name, T>,
      LAMINA_POINTWISE_FUNCTIONS(LAMINA_LOOP)
#undef LAMINA_LOOP
  };
  loops[static_cast<std::size_t>(function)](operands, output, count);
}

template void apply_whole(Pointwise, const StepOperands<std::uint8_t>&, std::uint8_t*, std::int64_t);
template void apply_whole(Pointwise, const StepOperands<std::int64_t>&, std::int64_t*, std::int64_t);
template void apply_whole(Pointwise, const StepOperands<std::uint64_t>&, std::uint64_t*, std::int64_t);

}  // namespace lamina::cpu
