#include "lamina/tensor/parse_format.h"

#include "lamina/base/error.h"

namespace lamina {

Format parse_format(std::string_view text) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      const Format format = {dtype, layout};
      const bool plain = layout == Layout::nchw && text == name(dtype);
      if (plain || text == detail::concat(name(dtype), ',', name(layout)) || text == detail::concat(format)) {
        return format;
      }
    }
  }
  detail::fail("format: expected f32, f16 or bf16, of images also with ,nchw or ,nhwc as in \"f16,nhwc\"; got \"", text,
               '"');
}

}  // namespace lamina
