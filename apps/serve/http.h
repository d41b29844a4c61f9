#pragma once

#include <map>
#include <string>
#include <vector>

/// Requests and replies as the service sees them: what carries them is in server.cpp alone.
namespace lamina::app {

struct Call {
  std::string method, path;
  std::map<std::string, std::string> query;
  std::map<std::string, std::string> headers;  ///< by name in lower case
  std::string body;                            ///< of a multipart body: its first part that is a file, or its first

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

/// Thrown for what the client did wrong, or what cannot be done now: becomes {"error": message}.
struct Refusal {
  int status;
  std::string message;
};

/// What the client asked for cannot be.
[[noreturn]] inline void refuse(const std::string& message) { throw Refusal{400, message}; }

}  // namespace lamina::app
