#include "lamina/files/torch/pickle.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "lamina/base/error.h"
#include "lamina/base/names.h"

namespace lamina::detail {
namespace {

// What no checkpoint has a reason to name. Nothing is executed whatever it names; but whoever gives such a file to
// Python is attacked by it, and should know.
constexpr std::array<std::string_view, 23> programs = {
    "_pickle", "_posixsubprocess", "_winapi", "asyncio", "cffi",   "ctypes", "importlib",
    "marshal", "multiprocessing",  "nt",      "ntpath",  "os",     "pickle", "pip",
    "posix",   "posixpath",        "pty",     "runpy",   "shutil", "socket", "subprocess",
    "sys",     "webbrowser"};

// Of Python itself, only what makes data.
constexpr std::array<std::string_view, 2> builtins = {"builtins", "__builtin__"};
constexpr std::array<std::string_view, 14> data_types = {"bool",  "bytearray", "bytes", "complex", "dict",
                                                         "float", "frozenset", "int",   "list",    "object",
                                                         "set",   "slice",     "str",   "tuple"};

}  // namespace

bool is_storage_class(const PickleGlobal& global) {
  const auto is_letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  constexpr std::size_t longest = 64;
  return global.module == "torch" && global.name.size() <= longest && global.name.ends_with("Storage") &&
         std::all_of(global.name.begin(), global.name.end(), is_letter_or_digit);
}

bool runs_programs(const PickleGlobal& global) {
  const std::string_view package = global.module.substr(0, global.module.find('.'));
  if (std::ranges::find(builtins, package) != builtins.end()) {
    return std::ranges::find(data_types, global.name) == data_types.end();
  }
  return std::ranges::find(programs, package) != programs.end();
}

const PickleCall* as_tensor(const PickleValue& value) {
  const auto* call = as_object<PickleCall>(value);
  if (call != nullptr && call->function == global_rebuild_parameter) {
    const std::vector<PickleValue>& arguments = call->arguments->items;
    call = arguments.empty() ? nullptr : as_object<PickleCall>(arguments[0]);
  }
  if (call == nullptr) return nullptr;
  return call->function == global_rebuild_tensor || call->function == global_rebuild_old_tensor ? call : nullptr;
}

std::string kind_of(const PickleValue& value) {
  // In the order of the variant.
  constexpr std::string_view kinds[] = {"None",    "a boolean", "an integer", "a float", "a string", "a long integer",
                                        "a class", "a tuple",   "a list",     "a dict",  "a tensor", "a storage"};
  static_assert(std::size(kinds) == std::variant_size_v<PickleValue>);
  if (const auto* global = as<PickleGlobal>(value)) return concat(kinds[value.index()], ", ", name_of(*global));
  const auto* call = as_object<PickleCall>(value);
  if (call != nullptr && as_tensor(value) == nullptr && call->function != global_rebuild_parameter) {
    return concat("an object for which it calls ", name_of(call->function));
  }
  return std::string(kinds[value.index()]);
}

std::string name_of(const PickleGlobal& global) {
  const std::string quoted = quote(concat(global.module, '.', global.name));
  return quoted.substr(1, quoted.size() - 2);
}

}  // namespace lamina::detail
