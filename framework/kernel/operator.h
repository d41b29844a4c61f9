#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "lamina/kernel/neighbours.h"
#include "lamina/kernel/preparation.h"
#include "lamina/tensor/tensor.h"

namespace lamina {

class ThreadPool;

/// What was wrong with a number that a run made, as a GPU's kernel notes it for the host.
struct LAMINA_API Fault {
  enum Kind : std::int64_t {
    none,
    outside,      ///< an index, of an extent
    beyond_room,  ///< a count, of what there is room for
    not_equal,    ///< a count, of another one
    too_few,      ///< a count, of another one
    no_multiple,  ///< a count, of a number that does not divide it
    no_overlap    ///< the bits of a double that is not from 0 to 1
  };
  Kind kind = none;
  std::int64_t found = 0, of = 0;
};

namespace detail {
/// Throws the Error that says so.
[[noreturn]] LAMINA_API void fail_by(const Fault& fault);
}  // namespace detail

/// What an operator runs with.
struct LAMINA_API Execution {
  ThreadPool* pool = nullptr;  ///< on the CPU
  void* stream = nullptr;      ///< on a GPU: a cudaStream_t
  void* workspace = nullptr;   ///< workspace_bytes() on the operator's device
  void* counters = nullptr;    ///< counter_bytes() there, all 0, which they are again behind it
  Neighbours neighbours = {};  ///< of an operator that heeds them
  /// On a GPU: page-locked memory in which a kernel leaves what was wrong; may be null. A Plan reads it where results
  /// come down.
  Fault* fault = nullptr;

  /// Calls body(index, worker) once for every index in [0, count) and returns when all are done, on the threads of the
  /// Plan that runs the operator: `worker` is in [0, threads), as many as Preparation::threads says. The first
  /// exception thrown stops the loop and is rethrown here. Allocates nothing. On a GPU it runs in the calling thread
  /// alone.
  template <class Body>
  void parallel_for(std::int64_t count, const Body& body) const {
    share_out(count, &body,
              [](const void* b, std::int64_t index, int worker) { (*static_cast<const Body*>(b))(index, worker); });
  }

 private:
  void share_out(std::int64_t count, const void* body,
                 void (*call)(const void* body, std::int64_t index, int worker)) const;
};

/// One piece of work made ready for one device: kernel chosen, weights where they are needed. Immutable once made; may
/// run in several threads at once, with a workspace for each. Running it allocates nothing.
class LAMINA_API Operator {
 public:
  virtual ~Operator() = default;

  /// The kernel and its plan, for people.
  virtual std::string description() const = 0;
  virtual std::size_t workspace_bytes() const { return 0; }
  /// On a GPU: of memory in which its blocks count who has come.
  virtual std::size_t counter_bytes() const { return 0; }
  /// Waits for what other threads still make ready for it, and throws what they met. Before it runs, and once is
  /// enough.
  virtual void wait() const {}
  /// Bytes of copies of the parameters that this operator owns, beside what tensor/constants.h counts.
  virtual std::size_t parameter_bytes() const { return 0; }
  /// On a GPU: throws what a run met on the host, once what was enqueued is done.
  virtual void check() const {}
  /// On a GPU: it is one kernel, and does as Execution::neighbours says. Others run alone.
  virtual bool heeds_neighbours() const { return false; }

  /// Computes `outputs` from `inputs`, all on the operator's device, as the Views say that it was prepared for. A
  /// tensor has its logical shape; its address is where the elements begin, in the order of its layout. On a GPU the
  /// work is enqueued.
  virtual void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const = 0;
};

}  // namespace lamina
