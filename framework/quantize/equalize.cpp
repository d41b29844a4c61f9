#include "lamina/quantize/calibrate.h"

namespace lamina::detail {

std::size_t equalize(Draft&, const std::vector<Observed>&) { return 0; }

}  // namespace lamina::detail
