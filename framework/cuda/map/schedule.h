#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/kernel/map/map.h"

namespace lamina::cuda {

/// Bytes of shared memory that a block of any GPU has.
inline constexpr std::int64_t most_shared = 48 << 10;

/// Points of a window whose loads all stand in a thread's text: up to 3 x 3.
inline constexpr std::int64_t largest_window = 9;

/// How the threads of a GPU share out a Map, of simplified axes. A thread has a pack: neighbours along one axis. Packs
/// of kept axes are counted, the pack's own axis first; `lanes` threads of a block and `parts` blocks share what is
/// reduced there. The order of every sum follows from the reduced extents alone: bits depend neither on how many images
/// there are nor on the device.
struct MapSchedule {
  std::string_view name;     ///< map, turn, rows, columns or window
  int vector = -1;           ///< the axis of the packs; -1: there is no axis
  int pack = 1;              ///< elements
  int threads = 256;         ///< of a block
  std::int64_t lanes = 1;    ///< a power of two
  bool adjacent = false;     ///< lanes are adjacent threads: packs are of reduced elements, in rows of many
  std::int64_t parts = 1;    ///< the last of these blocks adds up what they found
  std::int64_t steps = 1;    ///< of a thread, along what is reduced or `repeated`
  std::int64_t pieces = 1;   ///< of those that stand in the text one after the other
  int repeated = -1;         ///< a kept axis of which a thread has `steps` points, for what they have in common
  bool early = false;        ///< parameters, which are nobody's result, come while the predecessor ends
  bool interleaved = false;  ///< a thread has all points of `repeated`: side by side in some arrays, in others by packs
  /// A kept axis along which some loads lie side by side, while results do along `vector`: a block has a square of
  /// both, `tile` long, and such loads go through its shared memory, `staged_pack` elements at a time.
  int staged = -1;
  int tile = 0, staged_pack = 1;
};

/// Bytes that the addresses of inputs and outputs are multiples of.
struct MapAlignment {
  std::vector<std::size_t> inputs, outputs;
};

/// By rules alone. `processors`: of the device; they decide how much a thread does of what is not reduced.
MapSchedule schedule(const MapProblem& simplified, const MapAlignment& alignment, int processors);

/// Whether something is stored for several points of which a thread knows one number; not what all elements of its
/// pack, which are reduced, share with nobody else's.
bool stores_each(const MapProblem& problem, const MapProblem::Store& store, const MapSchedule& schedule);

/// Whether the schedule brings the view's elements through shared memory.
bool is_staged(const MapView& view, const MapSchedule& schedule);

/// Bytes from one element along `vector` to the next of a staged view in shared memory: another bank.
std::int64_t pitch_of(const MapView& view, const MapSchedule& schedule);

/// Whether the view has all points of `repeated` side by side, and those of a thread's pack behind each other.
bool is_interleaved(const MapView& view, const MapSchedule& schedule);

/// How many neighbours of an interleaved view one access may have.
int most_interleaved(const MapView& view, const MapSchedule& schedule, std::size_t alignment);

/// How many neighbours along an axis of the view one access may have: its stride is 1 there, whatever it steps along
/// otherwise keeps to `alignment` bytes, and nothing looks at each of them. 1 where they do not lie side by side, or
/// there is no axis, -1.
int most_packed(const MapView& view, int axis, std::size_t alignment);

}  // namespace lamina::cuda
