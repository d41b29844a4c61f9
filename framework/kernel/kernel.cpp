#include "lamina/kernel/kernel.h"

namespace lamina::detail {

void no_kernel(std::string_view problem, std::string_view asked, const std::string& others,
               const Preparation& preparation) {
  const Device device = preparation.device.device;
  const bool computed = preparation.precision == Precision::fp32 || preparation.precision == Precision::bf16;
  if (device.is_cpu() && !computed) {
    fail(problem, ": the CPU computes in fp32 and bf16; precision ", name(preparation.precision),
         " needs a CUDA device");
  }
  const std::string kernel = asked.empty() ? std::string("no kernel") : concat("algorithm ", asked);
  fail(problem, ": ", kernel, " on ", device, asked.empty() ? " takes " : " does not take ", preparation.input().format,
       " ", preparation.input().shape, " and ", asked.empty() ? "gives " : "give ", preparation.output().format, " ",
       preparation.output().shape, " in ", name(preparation.precision),
       others.empty() ? std::string() : concat("; ", others, others.find(',') == std::string::npos ? " does" : " do"));
}

}  // namespace lamina::detail
