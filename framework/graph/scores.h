#pragma once

#include <cstdint>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

/// exp(x) / the sum of exp(x) over the last dimension: probabilities out of logits [..., classes]. f32, on the CPU; a
/// tensor on a device is copied to the host first. Throws Error for other types and for a scalar.
LAMINA_API Tensor softmax(const Tensor& logits);

/// What the numbers of a network's output [N, classes] are.
enum class Scores {
  logits,         ///< a softmax makes probabilities of them
  probabilities,  ///< of classes of which one is there: they add up to 1
  independent,    ///< probabilities too, of classes that may be there together: each is a sigmoid's
};

/// What those of the graph's first output are: as the op says that they come from, behind those that leave them as they
/// are.
LAMINA_API Scores scores_of(const Graph& graph);

/// Whether `class_scores` gives probabilities of so many numbers: all but a lone one that is no sigmoid's.
inline bool are_probabilities(Scores scores, std::int64_t numbers) {
  return numbers > 1 || scores == Scores::independent;
}

/// How many numbers an output of that shape has for each image, [N, numbers], or with extents of 1 beside them, as
/// [N, numbers, 1, 1]; 0 of other shapes, which are no scores of classes.
LAMINA_API std::int64_t scores_in(const Shape& output);

/// Of each class, f32 [N, classes] on the CPU, out of the network's output: probabilities. The lone number of a
/// sigmoid, p, is of two classes, 1 - p and p; another lone number stays as it is. Throws Error unless it is f32, f16
/// or bf16 [N, numbers], extents of 1 beside them aside.
LAMINA_API Tensor class_scores(const Tensor& output, Scores scores);

/// A class and its score.
struct Scored {
  int index = 0;
  float score = 0;
};

/// The `k` largest of the scores of one image, [classes] or [1, classes], largest first, the lower index first among
/// equals, NaN last; all of them if there are fewer. Throws Error for a batch (take slices), other types than f32, and
/// a negative k.
LAMINA_API std::vector<Scored> top_k(const Tensor& scores, int k);

}  // namespace lamina
