#include "lamina/files/torch/state_dict.h"

#include <algorithm>
#include <set>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/names.h"
#include "lamina/files/prefixes.h"
#include "lamina/files/stored_tensor.h"
#include "lamina/files/torch/checkpoint.h"
#include "lamina/files/type_names.h"

namespace lamina::detail {
namespace {

// PyTorch's own limit.
constexpr std::size_t max_dimensions = 64;

// Keys are numbers in decimal.
constexpr std::size_t longest_storage_key = 64;

/// A whole number of 0 or more, or nothing.
std::optional<std::int64_t> as_size(const PickleValue& value) {
  const auto* number = as<std::int64_t>(value);
  return number != nullptr && *number >= 0 ? std::optional(*number) : std::nullopt;
}

/// A tuple of them. Many tensors may share one tuple, so its length is bounded before it is copied.
std::optional<std::vector<std::int64_t>> as_sizes(const PickleValue& value) {
  const auto* tuple = as_object<PickleTuple>(value);
  if (tuple == nullptr || tuple->items.size() > max_dimensions) return std::nullopt;
  std::vector<std::int64_t> sizes;
  for (const PickleValue& item : tuple->items) {
    const auto size = as_size(item);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

/// Checks that every element lies within the storage, and fills in the bytes.
void check_bounds(TorchTensor& tensor, const std::string& place) {
  const auto count = checked_numel(tensor.shape);
  const auto bytes = count ? checked_mul(*count, tensor.storage.element_bytes) : std::nullopt;
  const std::string what = concat(tensor.storage.dtype_name, ' ', shape_text(tensor.shape));
  if (!bytes) fail(place, "the size of ", what, " overflows 64 bits");
  tensor.bytes = *bytes;
  if (*bytes == 0) return;

  std::optional<std::uint64_t> last = tensor.offset;  // the furthest element
  for (std::size_t i = 0; i < tensor.shape.size() && last; ++i) {
    const auto reach =
        checked_mul(static_cast<std::uint64_t>(tensor.shape[i] - 1), static_cast<std::uint64_t>(tensor.strides[i]));
    last = reach ? checked_add(*last, *reach) : std::nullopt;
  }
  if (!last || *last >= tensor.storage.size) {
    fail(place, what, " with strides ", shape_text(tensor.strides), " from element ", tensor.offset,
         " reaches past the end of its storage of ", tensor.storage.size, " elements");
  }
}

/// Arguments of _rebuild_tensor: storage, offset, size, stride; _rebuild_tensor_v2 has requires_grad, backward hooks
/// and maybe metadata after them, which are of no use here.
TorchTensor read_tensor(std::string name, const PickleCall& call, const std::string& path) {
  const std::string place = concat(path, ": tensor ", quote(name), ": ");
  const std::vector<PickleValue>& arguments = call.arguments->items;
  if (arguments.size() < 4)
    fail(place, "expected a storage, offset, size and stride, got ", arguments.size(), " values");
  const auto* storage = as_object<PicklePersistent>(arguments[0]);
  const auto offset = as_size(arguments[1]);
  auto shape = as_sizes(arguments[2]);
  auto strides = as_sizes(arguments[3]);
  if (storage == nullptr) fail(place, "expected a storage, got ", kind_of(arguments[0]));
  if (!offset) fail(place, "expected an offset of 0 or more");
  if (!shape) fail(place, "expected a shape of at most ", max_dimensions, " whole numbers of 0 or more");
  if (!strides) fail(place, "expected at most ", max_dimensions, " strides, whole numbers of 0 or more");
  if (shape->size() != strides->size()) {
    fail(place, "expected a stride per dimension of ", shape_text(*shape), ", got ", shape_text(*strides));
  }
  TorchTensor tensor;
  tensor.name = std::move(name);
  tensor.storage = read_torch_storage(*storage, path);
  tensor.offset = static_cast<std::uint64_t>(*offset);
  tensor.shape = *std::move(shape);
  tensor.strides = *std::move(strides);
  check_bounds(tensor, place);
  return tensor;
}

/// Leaves out what nn.DataParallel and torch.compile put before every name; says which that was.
std::string strip_prefixes(std::vector<TorchTensor>& tensors) {
  std::string stripped;
  for (;;) {
    const std::string_view shared = shared_prefix(wrapper_prefixes, tensors, &TorchTensor::name);
    if (shared.empty()) return stripped;
    stripped += shared;
    for (TorchTensor& tensor : tensors) tensor.name.erase(0, shared.size());
  }
}

/// Calls that make tensors of other kinds would else be missed without a word.
void require_no_other_tensor(const PickleValue& key, const PickleValue& value, const std::string& path) {
  const auto* call = as_object<PickleCall>(value);
  if (call == nullptr || !call->function.name.starts_with("_rebuild")) return;
  const auto* text = as<std::string_view>(key);
  fail(path, ": ", text == nullptr ? "a tensor" : concat("tensor ", quote(*text)), " is of a kind that is not read, ",
       kind_of(value), "; nothing was executed");
}

}  // namespace

TorchStorage read_torch_storage(const PicklePersistent& persistent, const std::string& path) {
  const auto* tuple = as_object<PickleTuple>(persistent.id);
  const auto reject = [&](const auto&... parts) { fail(path, ": malformed storage: ", parts...); };
  if (tuple == nullptr || (tuple->items.size() != 5 && tuple->items.size() != 6)) {
    reject("expected a tuple of 5 or 6 values, got ", tuple == nullptr ? kind_of(persistent.id) : "another number");
  }
  const auto* kind = as<std::string_view>(tuple->items[0]);
  const auto* type = as<PickleGlobal>(tuple->items[1]);
  const auto* key = as<std::string_view>(tuple->items[2]);
  const auto numel = as_size(tuple->items[4]);
  if (kind == nullptr || *kind != "storage") reject("expected the word \"storage\"");
  if (type == nullptr || !is_storage_class(*type)) reject("expected a storage class");
  if (key == nullptr) reject("expected a string for its key, got ", kind_of(tuple->items[2]));
  if (key->size() > longest_storage_key) reject("its key ", quote(*key), " is too long");
  if (!numel) reject("expected a number of elements of 0 or more");
  const TypeNames* const row = type_named(type->name, &TypeNames::torch);
  if (row == nullptr) reject("unknown class ", quote(concat(type->module, '.', type->name)));

  TorchStorage storage{std::string(*key), std::string(row->name), row->dtype, row->bits / 8, 0, 0, 0};
  storage.numel = static_cast<std::uint64_t>(*numel);
  storage.size = storage.numel;
  if (!checked_mul(storage.numel, storage.element_bytes)) reject("its size overflows 64 bits");
  if (tuple->items.size() == 6 && !std::holds_alternative<std::monostate>(tuple->items[5])) {
    const auto* view = as_object<PickleTuple>(tuple->items[5]);  // (key of the view, offset, size)
    const auto begin = view != nullptr && view->items.size() == 3 ? as_size(view->items[1]) : std::nullopt;
    const auto size = begin ? as_size(view->items[2]) : std::nullopt;
    if (!size) reject("expected a view of a key, an offset and a size");
    storage.begin = static_cast<std::uint64_t>(*begin);
    storage.size = static_cast<std::uint64_t>(*size);
    if (storage.begin > storage.numel || storage.size > storage.numel - storage.begin) {
      reject("its view of elements [", storage.begin, ", +", storage.size, ") exceeds ", storage.numel, " elements");
    }
  }
  return storage;
}

TorchWeights read_state_dict(const Pickle& pickle, const std::string& key, const std::string& stem,
                             const std::string& path) {
  TorchWeights result;
  if (const PickleCall* call = as_tensor(pickle.value); call != nullptr && key.empty()) {
    result.tensors.push_back(read_tensor(stem, *call, path));
    return result;
  }
  const auto* top = as_object<PickleDict>(pickle.value);
  if (top == nullptr) {
    const bool object = as<PickleGlobal>(pickle.value) != nullptr || as_object<PickleCall>(pickle.value) != nullptr;
    fail(path, ": expected a state dict, a dict of tensors, got ", kind_of(pickle.value),
         object ? "; nothing was executed. Save the weights alone, with torch.save(model.state_dict(), ...)" : "");
  }
  const FoundWeights found = find_weights(*top, key, path);
  if (!found.note.empty()) result.notes.push_back(found.note);
  std::set<std::string_view> names;
  for (const auto& [name, value] : found.dict->items) {
    const PickleCall* call = as_tensor(value);
    if (call == nullptr) {
      require_no_other_tensor(name, value, path);
      continue;
    }
    const auto* text = as<std::string_view>(name);
    if (text == nullptr) fail(path, ": expected a string for the name of a tensor, got ", kind_of(name));
    if (!names.insert(*text).second) fail(path, ": two tensors are named ", quote(*text));
    result.tensors.push_back(read_tensor(std::string(*text), *call, path));
  }
  const std::string prefix = strip_prefixes(result.tensors);
  if (!prefix.empty()) result.notes.push_back(concat(path, ": the names are those after ", quote(prefix)));
  return result;
}

}  // namespace lamina::detail
