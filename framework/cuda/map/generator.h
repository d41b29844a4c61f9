#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/cuda/map/elements.h"
#include "lamina/cuda/map/generate.h"
#include "lamina/cuda/map/ptx_text.h"

namespace lamina::cuda {

struct Rounding;  // to codes

/// Writes the kernel of one Map: every thread finds its points, walks through its share of what is reduced (or
/// repeated), meets the others where there is a reduction, and stores.
///
/// What a node's value depends on decides where it is computed: values are kept by (node, piece, element), a piece
/// being one of the steps that stand in the text one after the other, and what does not depend on the piece or on the
/// element is computed once. That is all the hoisting there is.
class Generator {
 public:
  Generator(const MapProblem& problem, const MapSchedule& schedule, const MapAlignment& alignment,
            const PtxFunctions& functions, int architecture)
      : p_(problem),
        s_(schedule),
        alignment_(alignment),
        functions_(functions),
        architecture_(architecture),
        axes_(dependence(problem)),
        elements_(t_, problem.compute, architecture) {}

  MapKernel write(std::string_view name);

 private:
  /// A coordinate: a register's value, if there is one, and a number.
  struct Index {
    std::string reg;
    std::int64_t number = 0;
  };
  /// A step: its coordinates along walk_, and a predicate that it is there at all; "": it is.
  struct Piece {
    std::vector<Index> at;
    std::string exists;
  };
  /// Where a view's element lies: an address and bytes behind it.
  struct Place {
    std::string address;
    std::int64_t bytes = 0;
  };
  /// A pack, or one of each element; and, of guarded views, predicates that say whether they are there.
  struct Loaded {
    std::vector<Words> packs;
    std::vector<std::string> inside;
  };
  /// What a thread knows of a reduction: of each element of a pack, or of all.
  struct State {
    MapReduction kind;
    std::vector<Known> known;
    bool compensated = false;  ///< behind each sum stands what additions rounded away
    std::string share = {};    ///< of a spread: one over how many numbers it is of
  };

  const MapNode& node(int i) const { return p_.nodes[static_cast<std::size_t>(i)]; }
  const MapView& load_of(int i) const { return p_.loads[static_cast<std::size_t>(node(i).view)]; }
  std::int64_t extent(std::size_t axis) const { return p_.extents[axis]; }
  bool along_piece(int node) const;
  bool along_element(int node) const;

  // points.cpp
  /// Of an axis, in packs where it is theirs.
  std::int64_t packs(std::size_t axis) const;
  /// Of a kept axis: its packs, or what a block or a thread has of several.
  std::int64_t groups_of(std::size_t axis) const;
  /// Sorts axes into kept and walked ones and counts both.
  void count();
  void find_points();
  /// Of a block that has a square of elements: a thread has a pack along the one axis at some places along the other.
  void find_place_in_tile();
  void find_bases();
  /// The address of a view's element at the kept coordinates; of a staged one without that along `vector`. `placed`:
  /// has_place.
  std::string base(const MapView& view, int parameter, bool staged, bool placed);
  /// Whether each place of a view's tables is there, and the same for all that a thread has: it is part of the base.
  bool has_place(const MapView& view) const;
  std::string pointer(int parameter);

  // steps.cpp
  /// Reductions that wait for none of each other, in their order.
  std::vector<std::vector<int>> passes() const;
  void set_pieces(const std::string& at);
  /// The first element of a pack; once for all pieces that count on from the same register.
  std::string scaled(const std::string& reg);
  std::string whole(const Index& index);
  /// Values of steps that are over.
  void forget();
  /// What a thread's steps have in common, before they begin.
  void prepare(int node);
  /// Loads of parameters, but for those of a loop.
  void fetch_parameters();
  /// All loads before anything waits for one.
  void fetch(const std::vector<int>& wanted);
  /// A loop around what body() writes.
  template <class F>
  void repeat(std::int64_t times, F&& body);
  /// Calls body() with every piece's coordinates set, in a loop where a thread has more steps than stand in the text.
  /// `wanted`: the nodes that it needs.
  template <class F>
  void walk(const std::vector<int>& wanted, F&& body);

  // square.cpp
  /// Brings the block's squares of staged loads into shared memory, [vector][staged].
  void stage();
  /// A thread's own elements of a square.
  Words from_square(std::size_t load, int piece);

  // values.cpp
  Index coordinate(std::size_t axis, int piece) const;
  Place place(const MapView& view, const std::string& base, int piece);
  /// offset + the sum of coordinates * strides, of element j of a pack.
  std::string sum_of(const MapAxes& strides, std::int64_t offset, int piece, int j);
  /// The piece with which a load's words come.
  int piece_of_words(int node, int piece) const;
  /// Brings a node's elements of a piece into registers, as they are stored.
  void load(int node, int piece);
  std::pair<Place, std::string> guarded(const MapView& view, Place at, std::string inside, int piece, int j);
  std::string value(int node, int piece, int j);
  /// Whether all results are stored in 16 bits.
  bool rounded_to_16() const;

  // reductions.cpp
  State begin(MapReduction kind, std::size_t count, bool compensated);
  void add(State& state, std::size_t j, const std::string& x, const std::string& exists);
  /// What others are joined with, of each element.
  std::vector<Known> settled(const State& state);
  /// All of one, in order.
  Known folded(MapReduction kind, const std::vector<Known>& several);
  void pass(const std::vector<int>& all);
  /// Of what is summed in 16 bits, where the spread is asked for as well: that spread's node, whose mean and count are
  /// the sum; else -1.
  int spread_beside(int sum, const std::vector<int>& reductions) const;
  /// The threads of a block that share points: all of them know the result then.
  void meet(int node, State& state);
  std::vector<Known> met(MapReduction kind, std::vector<Known> known);
  /// Values of a reduction's elements.
  void keep(int node, std::vector<Known> known);
  /// The blocks that share points: each puts down what it knows, and the last to come adds it up, in order, and stores.
  void meet_blocks();
  /// Where so many bytes of shared memory begin; a multiple of 16.
  std::int64_t shared(std::int64_t bytes);

  // generate.cpp
  /// How many pointers it is given before the last ones.
  int arrays() const;
  /// Predicates that say whether this kernel runs beside the one before it, or the next; "": never, as its blocks meet
  /// in memory that both would use.
  struct Neighbours {
    std::string before, after;
  };
  /// These two as runtime/overlap.cuh has them.
  Neighbours let_successor_start();
  void wait_for_predecessor(const Neighbours& neighbours);
  /// Of the threads that know a result the one that stores it.
  std::string storing();
  void store_all();
  /// A register whose lowest byte is the code of a number, without a division, as Results of eight_bits/codes.cuh makes
  /// it. Precondition: Rounding::inverse is not 0.
  std::string code(const std::string& number, const Rounding& to);
  /// What is stored, as bits.
  std::string element(const MapProblem::Store& store, int piece, int j);
  void store(int store, int piece, const std::string& who);
  void store_interleaved(int store);

  const MapProblem& p_;
  const MapSchedule& s_;
  const MapAlignment& alignment_;
  const PtxFunctions& functions_;
  const int architecture_;
  const std::vector<unsigned> axes_;
  PtxText t_;
  Elements elements_;
  MapKernel kernel_;
  std::set<std::string> called_;

  std::vector<std::size_t> kept_, walk_;  // axes, that which is counted first in front
  unsigned walked_ = 0;                   // the latter as bits
  std::int64_t groups_ = 1;               // packs of kept points
  std::int64_t share_ = 1;                // packs of walked points
  std::int64_t slots_ = 1;                // groups in a block
  std::int64_t stride_ = 1;               // from one step to the next
  bool folds_ = false;                    // elements of a pack are reduced
  std::string tid_, slot_, lane_, group_, exists_, start_;
  std::vector<Index> coordinates_;
  std::array<std::string, 2> tile_, in_tile_;   // along `vector` and `staged`: the square's first element, the thread's
  std::map<std::size_t, std::int64_t> staged_;  // where in shared memory a load's square begins
  std::map<std::size_t, std::string> squares_;  // the thread's address in it
  std::vector<std::string> load_bases_, store_bases_;
  std::vector<bool> placed_;  // has_place of each load
  std::map<const MapView::Table*, std::string> tables_;
  std::vector<Piece> pieces_;
  std::map<std::array<int, 3>, std::string> values_;  // by node, piece and element; -1: it does not depend on that
  std::map<int, std::vector<Known>> known_;           // by node that reduces: of the elements that it differs in
  std::map<std::array<int, 2>, Loaded> words_;        // by node and piece
  std::map<std::string, std::string> places_, scaled_;
  std::int64_t shared_ = 0, shared_bytes_ = 0;  // in use, and at most
};

template <class F>
void Generator::repeat(std::int64_t times, F&& body) {
  const std::string count = t_.let(Bank::b32, "mov.u32", 0), loop = t_.fresh_label();
  t_.place(loop);
  body();
  t_.line("add.u32", count, count, 1);
  t_.line_if(t_.let(Bank::predicate, "setp.lt.u32", count, times), "bra", loop);
}

template <class F>
void Generator::walk(const std::vector<int>& wanted, F&& body) {
  for (const int node : wanted) prepare(node);
  if (walk_.empty()) {
    pieces_.assign(1, {});
    return body();
  }
  if (s_.pieces < s_.steps) {
    forget();
    const std::string at = t_.let(Bank::b32, "mov.u32", start_.empty() ? "0" : start_);
    repeat(s_.steps / s_.pieces, [&] {
      set_pieces(at);
      fetch(wanted);
      body();
      t_.line("add.u32", at, at, stride_ * s_.pieces);
    });
    return forget();
  }
  if (pieces_.empty()) set_pieces(start_);
  fetch(wanted);
  body();
}

}  // namespace lamina::cuda
