#include "lamina/ops/register_op.h"

#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/layers/op_table.h"
#include "lamina/ops/table.h"

namespace lamina {

void register_op(std::string op, MakeModule make) {
  using detail::fail;
  if (op.empty()) fail("register_op: expected a name, got none");
  if (make == nullptr) fail("register_op: ", detail::quote(op), ": expected what makes its module, got null");
  if (op == "Constant" || detail::find_op(op) != nullptr || !detail::add_row(op, std::move(make))) {
    fail("register_op: there is an op ", detail::quote(op), " already");
  }
}

}  // namespace lamina
