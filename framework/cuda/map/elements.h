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

/// Registers with what is known of a reduction: a number; of a spread also of what mean, and of how many.
using Known = std::vector<std::string>;

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
  /// A number as the bits of an element: in a register of 16 bits if it is of 16, else of 32 or 64.
  std::string element(DType dtype, const std::string& number);
  /// Puts elements at [address + bytes], `step` bytes apart; `together` at a time where they are neighbours.
  void store(DType dtype, const std::string& address, std::int64_t bytes, const std::vector<std::string>& elements,
             int together, std::int64_t step, const std::string& predicate);

  /// What a reduction begins with, in registers of its own.
  Known nothing(MapReduction kind);
  /// known = known joined with other, where the predicate is true. Source of spreads: Chan, Golub, LeVeque, Updating
  /// formulae and a pairwise algorithm for computing sample variances (1979).
  void join(MapReduction kind, const Known& known, const Known& other, const std::string& predicate);
  /// The same for each element of a pack, of which spreads have the count in common: the register of the first.
  void join(MapReduction kind, const std::vector<Known>& known, const std::vector<Known>& others,
            const std::string& predicate);
  /// The spread of as many numbers as a power of two has, which are there together.
  Known spread_of(const std::vector<std::string>& numbers);
  /// Counts one more for a spread; one over how many they are then.
  std::string count_one(const Known& spread, const std::string& predicate);
  /// The same for a single number, which is counted: `share` of all.
  void add_to_spread(const Known& spread, const std::string& x, const std::string& share, const std::string& predicate);
  /// sum - lost = sum - lost + x. Source: Kahan, Further remarks on reducing truncation errors (CACM 8, 1965).
  void add_compensated(const std::string& sum, const std::string& lost, const std::string& x,
                       const std::string& predicate);
  /// The number of the thread that is that far away in the warp, counted by an exclusive or.
  std::string of_neighbour(const std::string& number, std::int64_t distance);

 private:
  std::string whole_to_number(const std::string& word, DType dtype);
  std::string start(MapReduction kind) const;
  std::string quotient(const std::string& a, const std::string& b);
  void join_spreads(const std::vector<Known>& known, const std::vector<Known>& others, const std::string& predicate);

  PtxText& t_;
  DType compute_;
  int architecture_;
};

}  // namespace lamina::cuda
