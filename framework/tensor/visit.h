#pragma once

#include <iterator>
#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/tensor/dtype.h"

namespace lamina::detail {

template <class T, class F>
decltype(auto) call_with(F& f) {
  return f(std::type_identity<T>{});
}

template <class F, class... All>
decltype(auto) visit(DType dtype, F& f, Types<All...>) {
  using Result = decltype(f(std::type_identity<bool>{}));
  constexpr Result (*calls[])(F&) = {call_with<All, F>...};
  const auto place = static_cast<std::size_t>(dtype);
  if (place >= std::size(calls)) fail("unknown dtype ", place);
  return calls[place](f);
}

/// Calls `f(std::type_identity<T>{})` with the C++ type that stores `dtype`.
template <class F>
decltype(auto) visit(DType dtype, F&& f) {
  return visit(dtype, f, StoredTypes());
}

}  // namespace lamina::detail
