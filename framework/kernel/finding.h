#pragma once

#include <any>
#include <optional>
#include <utility>

#include "lamina/kernel/kernel.h"

namespace lamina {

/// What was found out about one problem in one set of Views: `takes` and `pays` fill it, `prepare` reads it, so that
/// nothing is searched for twice. A Preparation that names none is asked for its answer alone.
struct Finding {
  const void* kernel = nullptr;  ///< the Kernel<Problem> that takes it and pays
  std::any choice;               ///< how that kernel divides the work, of a type of its own
};

/// The kernel that a Layer's `pays` found, or else the one that is found now; null if there is none.
template <class Problem>
const Kernel<Problem>* found_kernel(const Problem& problem, const Preparation& p) {
  const void* const known = p.finding == nullptr ? nullptr : p.finding->kernel;
  return known == nullptr ? find_kernel(problem, p) : static_cast<const Kernel<Problem>*>(known);
}

/// Keeps what a kernel's `takes` chose for its `prepare`. Whether there is a choice.
template <class Choice>
bool keep(std::optional<Choice> choice, const Preparation& p) {
  if (!choice) return false;
  if (p.finding != nullptr) p.finding->choice = *std::move(choice);
  return true;
}

/// What `takes` kept, or else what `search()` finds: an optional of a choice.
template <class Search>
auto kept(const Preparation& p, const Search& search) -> decltype(search()) {
  using Choice = typename decltype(search())::value_type;
  const auto* known = p.finding == nullptr ? nullptr : std::any_cast<Choice>(&p.finding->choice);
  return known == nullptr ? search() : *known;
}

}  // namespace lamina
