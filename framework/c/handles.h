#pragma once

#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/c/lamina_c.h"
#include "lamina/lamina.h"

struct lamina_model {
  lamina::Model model;
  std::vector<lamina_port> inputs = {}, outputs = {};
  std::vector<const char*> labels = {};
};

struct lamina_plan {
  lamina::Plan plan;
  std::vector<lamina_port> inputs = {}, outputs = {};
  std::string summary = {};
  std::stop_source stop = {};
  lamina::Limits limits = {.stop = stop.get_token(), .time = {}};
};

namespace lamina::c {

/// Does the work of a function of C's: what it throws becomes a status, and the text of lamina_last_error.
lamina_status guarded(void (*work)(void* context), void* context) noexcept;

template <class Work>
lamina_status guarded(Work work) noexcept {
  return guarded([](void* context) { (*static_cast<Work*>(context))(); }, &work);
}

/// Throws Error for a null pointer, naming the argument.
void require(const void* pointer, std::string_view argument);

/// Gives an array of the handle's.
template <class T>
void give(const std::vector<T>& all, const T** array, std::size_t* count) {
  require(array, "array");
  require(count, "count");
  *array = all.data();
  *count = all.size();
}

lamina_port port(const std::string& name, const Shape* shape, DType dtype);

/// The caller's memory as a tensor. `which` goes into errors.
Tensor tensor_of(const lamina_tensor& given, const std::string& which);

CompileOptions options_of(const lamina_compile_options* options);

}  // namespace lamina::c
