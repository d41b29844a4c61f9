#pragma once

#include <algorithm>
#include <cstring>
#include <span>
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

  void name_classes() {
    labels.clear();
    for (const std::string& label : model.labels) labels.push_back(label.c_str());
  }
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

/// Throws Error for the first null pointer of several, naming the argument.
void require(const void* pointer, std::string_view argument);

template <class... More>
void require(const void* pointer, std::string_view argument, More... more) {
  require(pointer, argument), require(more...);
}

/// Gives an array of the handle's.
template <class T>
void give(const std::vector<T>& all, const T** array, std::size_t* count) {
  require(array, "array", count, "count");
  *array = all.data();
  *count = all.size();
}

lamina_port port(const std::string& name, const Shape* shape, DType dtype);

/// The caller's memory as a tensor. `which` goes into errors.
Tensor tensor_of(const lamina_tensor& given, const std::string& which);

CompileOptions options_of(const lamina_compile_options* options);

/// The caller's options, of which a later header may have more fields and an earlier one less: those until `least` at
/// least. `type` goes into errors.
template <class Options>
Options known_fields(const Options* given, std::size_t least, std::string_view type) {
  Options own = {};
  if (given == nullptr) return own;
  constexpr std::size_t most = 4096;  // a number that nobody set is likely more
  if (given->size < least || given->size > most)
    detail::fail("options.size: expected sizeof(", type, "), ", sizeof own, ", got ", given->size);
  // What a later header appended has to be unset: it means nothing here.
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  const std::size_t known = std::min(given->size, sizeof own);
  if (std::any_of(bytes + known, bytes + given->size, [](unsigned char byte) { return byte != 0; }))
    detail::fail("options: set is what version ", LAMINA_C_VERSION, " of this library's interface does not know");
  std::memcpy(&own, given, known);
  return own;
}

/// The caller's pixels.
ImageView view_of(const lamina_picture* picture);

}  // namespace lamina::c
