#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "photos/memory_budget.h"

/// Requests and replies as the service sees them: what carries them is in server.cpp, connection.cpp and request.cpp.
namespace lamina::app {

/// Thrown for what the client did wrong, or what cannot be done now: becomes {"error": message}.
struct Refusal {
  int status;
  std::string message;
};

/// What the client asked for cannot be.
[[noreturn]] inline void refuse(const std::string& message) { throw Refusal{400, message}; }

struct Call {
  std::string method, path;
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  ///< by name in lower case
  std::string_view body;                       ///< of a multipart body: its first part that is a file, or its first
  std::shared_ptr<void> storage;               ///< keeps the body
  MemoryBudget::Claim* memory = nullptr;       ///< what this request may hold; null: as much as there is
  std::stop_token gone = {};                   ///< says when nobody waits for the answer any more

  /// Has that for its body.
  void hold(std::string text) {
    auto owner = std::make_shared<std::string>(std::move(text));
    body = *owner;
    storage = std::move(owner);
  }

  /// Of the memory it held. Nobody looks at the body any more.
  void give_up_body() {
    body = {};
    storage.reset();
    if (memory != nullptr) memory->release();
  }

  /// Before taking memory on the request's behalf. Throws Refusal (503) if other requests hold too much.
  void reserve(std::uint64_t bytes) const {
    if (memory == nullptr || memory->grow(bytes)) return;
    throw Refusal{503, "too much memory is taken by requests under way"};
  }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
  std::string parameter(const std::string& name, std::string otherwise = "") const {
    const auto found = query.find(name);
    return found == query.end() ? otherwise : found->second;
  }
};

struct Reply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::map<std::string, std::string> headers = {};
};

}  // namespace lamina::app
