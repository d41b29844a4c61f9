#include "lamina/base/version.h"

namespace lamina {

std::string_view version() { return LAMINA_VERSION; }

}  // namespace lamina
