// Outputs of which a run decides how many elements they have.

#include <algorithm>
#include <cstring>

#include "lamina/plan/plan_impl.h"

namespace lamina {
namespace {

/// Copies the elements of `all` that are there, one after the other: along each axis the first ones, as many as `there`
/// says. Returns the end of the copy.
std::byte* pack(const std::byte* from, std::byte* to, std::span<const std::int64_t> all,
                std::span<const std::int64_t> there, DType dtype) {
  const std::size_t bytes = detail::bytes_of(Shape(all), {.dtype = dtype});
  if (std::ranges::equal(all, there)) return bytes > 0 ? std::memcpy(to, from, bytes) : nullptr, to + bytes;
  const std::size_t step = bytes / static_cast<std::size_t>(std::max<std::int64_t>(1, all[0]));
  for (std::int64_t i = 0; i < there[0]; ++i, from += step)
    to = pack(from, to, all.subspan(1), there.subspan(1), dtype);
  return to;
}

}  // namespace

Tensor Plan::Impl::counted_result(const Port& output, const Tensor& all) const {
  Shape to = output.shape;
  for (std::size_t d = 0; d < output.counts.size(); ++d) {
    if (output.counts[d] < 0) continue;
    to.set(static_cast<int>(d), counts[static_cast<std::size_t>(output.counts[d])].number.values<std::int64_t>()[0]);
  }
  auto* const target = static_cast<std::byte*>(const_cast<void*>(output.packed.raw()));
  const std::byte* const end =
      pack(static_cast<const std::byte*>(all.raw()), target, output.shape.extents(), to.extents(), output.dtype);
  return output.packed.slice(0, end - target).reinterpret(to, output.dtype);
}

}  // namespace lamina
