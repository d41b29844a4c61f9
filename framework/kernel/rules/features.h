#pragma once

#include <cstdint>

namespace lamina {

struct Preparation;

/// What a problem or its Views may have that not every kernel reads, a bit each.
using Features = std::uint64_t;

/// A row of a table names those that its kernel reads (Kernel::reads); it is asked about nothing that has others.
/// `takes` says in which of their forms.
namespace reads {

/// Views: of some of an image's channels, with strides, of numbers that stand for others.
inline constexpr Features slices = 1u << 0, strides = 1u << 1, codes = 1u << 2;
/// An Epilogue: functions other than one ReLU, those that read further inputs, pooling. A prologue that multiplies.
inline constexpr Features chain = 1u << 3, operands = 1u << 4, pool = 1u << 5, scaled = 1u << 6;
/// EightBitWeights: zero points; a bias of f32 in place of theirs; `whole`. Chains: steps that round to codes;
/// prologues that round a product, or what was no code; steps that look up.
inline constexpr Features zero_points = 1u << 7, float_bias = 1u << 8, sums = 1u << 9, sum_codes = 1u << 10,
                          product = 1u << 11, rounding = 1u << 12, table = 1u << 13;
/// Bins of boxes in place of a grid.
inline constexpr Features boxes = 1u << 14;
/// A ConvGeometry: more zeros behind the image than in front of it.
inline constexpr Features uneven = 1u << 15;

/// The same of the second of two convolutions.
constexpr Features behind(Features of) { return of << 32; }

}  // namespace reads

/// Which of them a problem has, and its Views. Defined of all problems; who adds a member to one says there what it is.
template <class Problem>
Features features(const Problem& problem, const Preparation& preparation);

}  // namespace lamina
