#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// What Python pickles describe, as far as torch.save writes them for a state dict.
namespace lamina::detail {

struct PickleTuple;
struct PickleList;
struct PickleDict;
struct PickleCall;
struct PicklePersistent;

/// A name that the pickle would have Python import. Here it is a name.
struct PickleGlobal {
  std::string_view module;
  std::string_view name;
  friend bool operator==(const PickleGlobal&, const PickleGlobal&) = default;
};

/// An integer of any length: little-endian two's complement.
struct PickleBigInteger {
  std::string_view bytes;
};

/// Texts are views of the pickle's bytes; pointers lead into the Pickle that the value belongs to.
using PickleValue = std::variant<std::monostate,  // None
                                 bool, std::int64_t, double, std::string_view, PickleBigInteger, PickleGlobal,
                                 PickleTuple*, PickleList*, PickleDict*, PickleCall*, PicklePersistent*>;

struct PickleTuple {
  std::vector<PickleValue> items;
};
struct PickleList {
  std::vector<PickleValue> items;
};
/// A dict or an OrderedDict: pairs as they were set, a repeated key repeated.
struct PickleDict {
  std::vector<std::pair<PickleValue, PickleValue>> items;
};
/// A function that the pickle would have Python call, or a class that it would have an object of; here, a note of it.
struct PickleCall {
  PickleGlobal function;
  PickleTuple* arguments;
};
/// Something outside the pickle, by an identifier that only its writer's format explains.
struct PicklePersistent {
  PickleValue id;
};

/// What a pickle describes. Owns all its objects, so that cycles among them do no harm.
struct Pickle {
  PickleValue value;
  std::size_t size = 0;  // bytes read, up to the end of the pickle

  std::deque<PickleTuple> tuples;
  std::deque<PickleList> lists;
  std::deque<PickleDict> dicts;
  std::deque<PickleCall> calls;
  std::deque<PicklePersistent> persistents;
};

inline constexpr PickleGlobal global_ordered_dict{"collections", "OrderedDict"};
inline constexpr PickleGlobal global_rebuild_tensor{"torch._utils", "_rebuild_tensor_v2"};
inline constexpr PickleGlobal global_rebuild_old_tensor{"torch._utils", "_rebuild_tensor"};  // before PyTorch 0.4
inline constexpr PickleGlobal global_rebuild_parameter{"torch._utils", "_rebuild_parameter"};

/// Whether it is of what runs programs, such as os.system: no checkpoint has a reason to name that.
bool runs_programs(const PickleGlobal& global);

/// torch.FloatStorage and its like.
bool is_storage_class(const PickleGlobal& global);

/// The call that rebuilds a tensor, also one wrapped in a parameter; null for anything else.
const PickleCall* as_tensor(const PickleValue& value);

/// What a value is, for messages: "a list", "None", "an object that it calls pathlib.PosixPath for", ...
std::string kind_of(const PickleValue& value);

/// "os.system", fit for messages.
std::string name_of(const PickleGlobal& global);

/// The one alternative of the variant, or null.
template <class T>
const T* as(const PickleValue& value) {
  return std::get_if<T>(&value);
}
/// The object of kind T that a value leads to, or null.
template <class T>
const T* as_object(const PickleValue& value) {
  T* const* object = std::get_if<T*>(&value);
  return object == nullptr ? nullptr : *object;
}

}  // namespace lamina::detail
