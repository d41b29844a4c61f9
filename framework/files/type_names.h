#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "lamina/tensor/dtype.h"

namespace lamina::detail {

/// A type of elements, and what file formats call it; "": the format has it not.
struct TypeNames {
  std::string_view name;  // for people
  std::uint64_t bits;
  std::optional<DType> dtype;    // none: listed only
  std::string_view safetensors;  // as its header has it
  std::string_view npy;          // behind the byte order
  std::string_view torch;        // the class of its storages
};

inline constexpr TypeNames type_names[] = {{"bool", 8, DType::boolean, "BOOL", "b1", "BoolStorage"},
                                           {"u8", 8, DType::u8, "U8", "u1", "ByteStorage"},
                                           {"i8", 8, DType::i8, "I8", "i1", "CharStorage"},
                                           {"u16", 16, DType::u16, "U16", "u2", ""},
                                           {"i16", 16, DType::i16, "I16", "i2", "ShortStorage"},
                                           {"u32", 32, DType::u32, "U32", "u4", ""},
                                           {"i32", 32, DType::i32, "I32", "i4", "IntStorage"},
                                           {"u64", 64, DType::u64, "U64", "u8", ""},
                                           {"i64", 64, DType::i64, "I64", "i8", "LongStorage"},
                                           {"f16", 16, DType::f16, "F16", "f2", "HalfStorage"},
                                           {"bf16", 16, DType::bf16, "BF16", "", "BFloat16Storage"},
                                           {"f32", 32, DType::f32, "F32", "f4", "FloatStorage"},
                                           {"f64", 64, DType::f64, "F64", "f8", "DoubleStorage"},
                                           {"f4", 4, {}, "F4", "", ""},
                                           {"f6_e2m3", 6, {}, "F6_E2M3", "", ""},
                                           {"f6_e3m2", 6, {}, "F6_E3M2", "", ""},
                                           {"f8_e4m3", 8, {}, "F8_E4M3", "", ""},
                                           {"f8_e5m2", 8, {}, "F8_E5M2", "", ""},
                                           {"f8_e8m0", 8, {}, "F8_E8M0", "", ""},
                                           {"f8_e4m3fnuz", 8, {}, "F8_E4M3FNUZ", "", ""},
                                           {"f8_e5m2fnuz", 8, {}, "F8_E5M2FNUZ", "", ""},
                                           {"c64", 64, {}, "C64", "", "ComplexFloatStorage"},
                                           {"c128", 128, {}, "", "", "ComplexDoubleStorage"}};

/// The row of a type that a format calls so; null if it has none.
inline const TypeNames* type_named(std::string_view name, std::string_view TypeNames::*in) {
  const auto* const found = std::ranges::find(type_names, name, in);
  return name.empty() || found == std::end(type_names) ? nullptr : found;
}
/// That of a type that Lamina has.
inline const TypeNames& names_of(DType dtype) { return *std::ranges::find(type_names, dtype, &TypeNames::dtype); }

}  // namespace lamina::detail
