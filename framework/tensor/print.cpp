
#include "lamina/tensor/tensor.h"
#include "lamina/tensor/visit.h"

namespace lamina {
namespace {

// A dimension longer than this prints its first and last `edge` entries.
constexpr std::int64_t longest_whole = 8;
constexpr std::int64_t edge = 3;

template <class T>
void print_value(std::ostream& out, T value) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    out << to_float(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    out << (value ? "true" : "false");
  } else {
    out << +value;  // 8-bit integers print as numbers
  }
}

template <class T>
void print_level(std::ostream& out, const T* data, std::span<const std::int64_t> extents, int depth) {
  if (extents.empty()) return print_value(out, *data);
  const std::int64_t count = extents[0];
  const std::span<const std::int64_t> inner = extents.subspan(1);
  std::int64_t step = 1;
  for (const std::int64_t extent : inner) step *= extent;

  out << '[';
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) {
      out << ',';
      if (inner.empty()) {
        out << ' ';
      } else {
        out << '\n' << std::string(static_cast<std::size_t>(depth) + 1, ' ');
      }
    }
    if (count > longest_whole && i == edge) {
      out << "...";
      i = count - edge - 1;
      continue;
    }
    print_level(out, data + i * step, inner, depth + 1);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  out << tensor.description();
  if (!tensor.defined()) return out;
  const Tensor host = tensor.to(Device::cpu());
  out << '\n';
  detail::visit(host.dtype(), [&]<class T>(std::type_identity<T>) {
    print_level(out, host.values<T>().data(), host.shape().extents(), 0);
  });
  return out;
}

}  // namespace lamina
