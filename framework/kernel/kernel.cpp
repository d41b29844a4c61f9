#include "lamina/kernel/kernel.h"

namespace lamina {
namespace {

/// What --algorithm still accepts. A name that a row of the device's table has means that row.
constexpr struct {
  std::string_view gone, successor;
} successors[] = {{"pair", "depthwise"}, {"blocked", "planes"}, {"im2col", "eigen"}};

}  // namespace

std::string_view successor_of(std::string_view gone) {
  for (const auto& row : successors) {
    if (row.gone == gone) return row.successor;
  }
  return {};
}

namespace detail {

void no_kernel(std::string_view problem, std::string_view asked, const std::string& others,
               const Preparation& preparation) {
  const Device device = preparation.device.device;
  if (device.is_cpu() && !row_of(preparation.precision).on_cpu) {
    fail(ErrorKind::unsupported, problem, ": the CPU computes in fp32 and bf16; precision ",
         name(preparation.precision), " needs a CUDA device");
  }
  const std::string kernel = asked.empty() ? std::string("no kernel") : concat("algorithm ", asked);
  fail(ErrorKind::unsupported, problem, ": ", kernel, " on ", device, asked.empty() ? " takes " : " does not take ",
       preparation.input().format, " ", preparation.input().shape, " and ", asked.empty() ? "gives " : "give ",
       preparation.output().format, " ", preparation.output().shape, " in ", name(preparation.precision),
       others.empty() ? std::string() : concat("; ", others, others.find(',') == std::string::npos ? " does" : " do"));
}

}  // namespace detail
}  // namespace lamina
