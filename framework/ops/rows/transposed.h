#pragma once

namespace lamina::detail {

class Expansion;

/// A row of the op table, which is in conv_ops.cpp.
int conv_transpose(Expansion& e);

}  // namespace lamina::detail
