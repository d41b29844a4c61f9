#pragma once

#include <lamina/lamina.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "commands/in_order.h"
#include "commands/interrupt.h"
#include "complain.h"
#include "photos/frames.h"
#include "photos/photo_reader.h"
#include "photos/photos.h"
#include "progress.h"

namespace lamina::app {

/// Does `work(photo)` for photographs, several at a time, and `finish(photo, outcome)` in their order. What fails is
/// said on stderr and in `list`. Ctrl-C ends it early. Returns whether nothing failed, and all that were named are
/// done.
template <class Work, class Finish>
bool each_photo(const Photos& found, std::size_t at_once, nlohmann::ordered_json& list, const Work& work,
                const Finish& finish) {
  using Outcome = decltype(work(found.paths[0]));
  bool good = !found.failed;
  std::size_t finished = 0;
  Progress progress(found.paths.size(), "photographs");
  const Interruptible interruptible(found.paths.size());
  InOrder<std::pair<Outcome, std::string>> under_way(at_once);
  const auto next = [&] {
    const std::filesystem::path& photo = found.paths[finished++];
    auto outcome = under_way.next();
    progress.clear();
    try {
      if (!outcome.second.empty()) throw Error(outcome.second);
      finish(photo, outcome.first);
    } catch (const Error& error) {
      if (found.paths.size() == 1 && is_misuse(error.what())) throw;
      complain(error.what());
      list.push_back({{"photo", name_of_photo(photo)}, {"error", error.what()}});
      good = false;
    }
    std::fflush(stdout);
    progress.advance();
  };
  for (const std::filesystem::path& photo : found.paths) {
    if (Interruptible::asked()) break;
    under_way.begin([&work, &photo] {
      std::pair<Outcome, std::string> outcome;
      outcome.second = failure_of(photo, [&] { outcome.first = work(photo); });
      return outcome;
    });
    if (under_way.full()) next();
  }
  while (!under_way.empty()) next();
  return !Interruptible::report(finished, found.paths.size()) && good;
}

}  // namespace lamina::app
