#pragma once

#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/tensor/dtype.h"

namespace lamina::detail {

/// Calls `f(std::type_identity<T>{})` with the C++ type that stores `dtype`.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean: return f(std::type_identity<bool>{});
    case DType::u8: return f(std::type_identity<std::uint8_t>{});
    case DType::i8: return f(std::type_identity<std::int8_t>{});
    case DType::u16: return f(std::type_identity<std::uint16_t>{});
    case DType::i16: return f(std::type_identity<std::int16_t>{});
    case DType::u32: return f(std::type_identity<std::uint32_t>{});
    case DType::i32: return f(std::type_identity<std::int32_t>{});
    case DType::u64: return f(std::type_identity<std::uint64_t>{});
    case DType::i64: return f(std::type_identity<std::int64_t>{});
    case DType::f16: return f(std::type_identity<half>{});
    case DType::bf16: return f(std::type_identity<bfloat16>{});
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: return f(std::type_identity<double>{});
  }
  fail("unknown dtype ", static_cast<int>(dtype));
}

}  // namespace lamina::detail
