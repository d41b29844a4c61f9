#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "lamina/kernel/pointwise.h"
#include "lamina/kernel/preparation.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// How many gates a unit has, and so what its cell is; in ONNX's order: i; z, r, h; i, o, f, c.
enum class Cell { rnn = 1, gru = 3, lstm = 4 };

/// What is left of ONNX's RNN, GRU and LSTM when the products of what comes in are made, all steps of them. Input 0 is
/// [T, N, D * G * H]: what x and the biases give to each of the G gates of the H units in each of D directions. If
/// `initial`, inputs 1 and, of an LSTM, 2 are h and c before the first step, [N, D * H]; they are 0 otherwise. If
/// `lengths`, the last input is i32 [N]: how many steps each image has, 0 to T.
///
/// The output is [T + 1, N, D * H], of an LSTM [T + 2, N, D * H]: h of each step, 0 behind an image's last one; then
/// what h is in the end, and c, which are 0 where there was no step. Sums, h and c are f32 whatever is stored.
struct RecurrentProblem {
  static constexpr std::string_view what = "recurrence";
  Cell cell = Cell::lstm;
  int directions = 1;
  std::int64_t hidden = 0;   ///< H
  bool reverse = false;      ///< of one direction: it goes from an image's last step to its first, as the second of two
  bool reset_after = false;  ///< GRU: r is a factor of the product and its bias, not of h
  bool input_forget = false;  ///< LSTM: f is 1 - i
  bool initial = false, lengths = false;
  float clip = std::numeric_limits<float>::infinity();  ///< of the gates' sums, and not of c
  /// Sigmoid, tanh, relu and hard_sigmoid: for each direction f, of a GRU and an LSTM then g, of an LSTM then h.
  PointwiseChain functions = {};
  Tensor weight = {};  ///< [D, G * H, H]
  /// [D, G * H], of an LSTM: the weights are whole numbers, and times that what they stand for. h is, for its products,
  /// rounded to codes of its own range in each step, as DynamicQuantizeLinear makes them. Undefined: neither.
  Tensor scale = {};
  Tensor bias = {};       ///< [D, H]: of h's product, if reset_after
  Tensor peepholes = {};  ///< [D, 3 * H]: of an LSTM's i, o, f; undefined: none

  int gates() const { return static_cast<int>(cell); }
  bool backwards(std::int64_t direction) const { return direction == 1 || reverse; }

  /// Gates [first, first + gates), whose products are made together: all of a cell's or, where r is a factor of h, z
  /// and r and then h.
  struct Phase {
    int first = 0, gates = 0;
  };
  int phases() const { return cell == Cell::gru && !reset_after ? 2 : 1; }
  Phase phase(int i) const { return phases() == 1 ? Phase{0, gates()} : i == 0 ? Phase{0, 2} : Phase{2, 1}; }
};

namespace detail {

/// Whether the shapes are those of the problem, and all is nchw, without gaps and stored as input 0, but for lengths.
bool is_recurrence(const RecurrentProblem& problem, const Preparation& p);

/// The weights by blocks of so many units, [directions][phases][blocks][H][gates][lanes], with zeros where there are no
/// more units.
Tensor weights_by_blocks(const RecurrentProblem& problem, int lanes, DType type);

}  // namespace detail
}  // namespace lamina
