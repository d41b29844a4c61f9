#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lamina/cuda/map/ptx_text.h"
#include "lamina/kernel/map/map.h"

namespace lamina::cuda {

/// Elements as they are stored, in registers of `bytes` bytes each, or what of one is there.
struct Words {
  std::vector<std::string> registers;
  int bytes = 4;
};

/// Instructions on numbers of the type that a Map computes in, and on elements on their way from and to memory.
class Elements {
 public:
  Elements(PtxText& text, DType compute, int architecture) : t_(text), compute_(compute), architecture_(architecture) {}

  /// Whether there are conversions between the two.
  static bool converts(DType stored, DType compute);

  /// The registers' kind and the suffix of instructions that move them.
  Bank bank() const;
  std::string type() const;
  /// A number as it is written in an instruction.
  std::string number(double value) const;
  std::string in_register(const std::string& number_or_register);

  /// `count` neighbouring elements, `together` at a time, at [address + bytes]; nothing where the predicate is false.
  /// `cached`: PTX's word for where, such as ".cg".
  Words load(DType dtype, const std::string& address, std::int64_t bytes, int count, int together,
             const std::string& predicate, const char* cached = "");
  /// Element j of them as a number.
  std::string unpacked(DType dtype, const Words& words, int j);
  /// Puts numbers at [address + bytes], `step` bytes apart; `together` at a time where they are neighbours.
  void store(DType dtype, const std::string& address, std::int64_t bytes, const std::vector<std::string>& numbers,
             int together, std::int64_t step, const std::string& predicate);

  /// What a reduction begins with.
  std::string start(MapReduction kind) const;
  /// sum = sum joined with x, where the predicate is true.
  void join(MapReduction kind, const std::string& sum, const std::string& x, const std::string& predicate);
  /// sum - lost = sum - lost + x. Source: Kahan, Further remarks on reducing truncation errors (CACM 8, 1965).
  void add_compensated(const std::string& sum, const std::string& lost, const std::string& x,
                       const std::string& predicate);
  /// The number of the thread that is that far away in the warp, counted by an exclusive or.
  std::string of_neighbour(const std::string& number, std::int64_t distance);

 private:
  std::string whole_to_number(const std::string& word, DType dtype);
  std::string element(DType dtype, const std::string& number);

  PtxText& t_;
  DType compute_;
  int architecture_;
};

}  // namespace lamina::cuda
