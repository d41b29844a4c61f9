#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/cuda/map/ptx_text.h"
#include "lamina/kernel/pointwise.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda {

/// The functions of elements as text: what nvcc made of functions.cu when the library was built.
class PtxFunctions {
 public:
  /// Those that the library was built with.
  static const PtxFunctions& all();

  /// Of a module's text.
  explicit PtxFunctions(std::string_view module);

  /// Writes value = function(v, x, y) of numbers of `compute`. Short functions become lines of the kernel, since ptxas
  /// never inlines a call; longer ones, and those with memory of their own, are called and noted in `called`.
  /// `rounded_to_16`: the result is rounded to 16 bits next, for which the special functions are enough.
  std::string apply(PtxText& text, Pointwise function, DType compute, bool rounded_to_16,
                    const std::vector<std::string>& operands, std::set<std::string>& called) const;

  /// What a module needs before a kernel that calls these.
  std::string definitions(const std::set<std::string>& called) const;

 private:
  struct Item {
    std::string text;                ///< as it stands in a module
    std::string body;                ///< of a function: its lines, roundings said; empty: it is to be called
    std::vector<std::string> needs;  ///< other items
  };
  void define(const std::string& name, std::set<std::string>& done, std::string& text) const;

  std::map<std::string, Item, std::less<>> items_;
};

}  // namespace lamina::cuda
