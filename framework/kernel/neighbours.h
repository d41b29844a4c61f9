#pragma once

namespace lamina {

/// Which of the operators enqueued just before and after one, on a GPU, may run at the same time as it. All that stand
/// beside each other begin once what came before the first of them has ended.
struct Neighbours {
  bool before = false;  ///< the one before: neither needs the other's result, nor memory that the other uses
  bool after = false;   ///< the one after
};

}  // namespace lamina
