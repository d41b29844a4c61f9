#include "lamina/ops/register_op.h"

#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/layers/op_table.h"

namespace lamina {

void register_op(std::string op, MakeModule make) {
  using detail::fail;
  if (op.find('.') == op.npos)  // as no name of Lamina's has
    fail("register_op: expected a name with a dot, company.layer, got ", detail::quote(op));
  if (make == nullptr) fail("register_op: ", detail::quote(op), ": expected what makes its module, got null");
  if (!detail::add_row(op, std::move(make))) fail("register_op: there is an op ", detail::quote(op), " already");
}

}  // namespace lamina
