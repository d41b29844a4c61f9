#pragma once

#include <vector>

#include "lamina/tensor/tensor.h"

namespace lamina {

/// exp(x) / the sum of exp(x) over the last dimension: probabilities out of logits [..., classes]. f32, on the CPU; a
/// tensor on a device is copied to the host first. Throws Error for other types and for a scalar.
LAMINA_API Tensor softmax(const Tensor& logits);

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
