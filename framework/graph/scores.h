#pragma once

#include <cstdint>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// Probabilities from logits [..., classes]: exp(x) divided by the sum of exp(x) over the last dimension. The result is
/// f32 on the CPU; a tensor on a GPU is copied to the host first. Throws Error for other types and for a scalar.
LAMINA_API Tensor softmax(const Tensor& logits);

/// The meaning of the numbers of a network's output [N, classes].
enum class Scores {
  logits,         ///< a softmax turns them into probabilities
  probabilities,  ///< one class is in the picture: they add up to 1
  independent,    ///< several classes may be in the picture: each number is a probability, from a sigmoid
};

/// The meaning of the graph's first output. The op that computes the numbers tells it; ops after it that do not change
/// the numbers are skipped.
LAMINA_API Scores scores_of(const Graph& graph);

/// Whether `class_scores` gives probabilities: always, except for a single number that is not from a sigmoid.
inline bool are_probabilities(Scores scores, std::int64_t numbers) {
  return numbers > 1 || scores == Scores::independent;
}

/// How many numbers an output of that shape has for each image: [N, numbers], or with further extents of 1, such as
/// [N, numbers, 1, 1]. 0 for other shapes, which are not scores of classes.
LAMINA_API std::int64_t scores_in(const Shape& output);

/// Probabilities of the classes, f32 [N, classes] on the CPU, from the network's output. A single number p from a
/// sigmoid gives two classes, 1 - p and p; another single number stays as it is. Throws Error unless the output is f32,
/// f16 or bf16 [N, numbers], possibly with further extents of 1.
LAMINA_API Tensor class_scores(const Tensor& output, Scores scores);

/// A class and its score.
struct Scored {
  int index = 0;
  float score = 0;
};

/// The `k` largest scores of one image, [classes] or [1, classes], largest first. Among equal scores the lower index
/// comes first; NaN comes last. If there are fewer than k, all of them. Throws Error for a batch (take slices), for
/// other types than f32, and for a negative k.
LAMINA_API std::vector<Scored> top_k(const Tensor& scores, int k);

}  // namespace lamina
