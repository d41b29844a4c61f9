#pragma once

namespace lamina::detail {

class Expansion;

// Rows of the op table, which is in conv_ops.cpp.
int conv_transpose(Expansion& e);
int col2im(Expansion& e);

}  // namespace lamina::detail
