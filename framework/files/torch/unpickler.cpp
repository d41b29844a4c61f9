#include "lamina/files/torch/unpickler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/files/torch/pickle_opcodes.h"

namespace lamina::detail {
namespace {

// Every value pushed and every memo entry counts. A state dict takes about 40 per tensor.
constexpr std::size_t max_values = 4'000'000;

constexpr int oldest_protocol = 2;
constexpr int newest_protocol = 5;

class Machine {
 public:
  Machine(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Pickle run() {
    if (take<unsigned char>() != op_proto) reject("expected a pickle of protocol 2 or later");
    const int protocol = take<std::uint8_t>();
    if (protocol < oldest_protocol || protocol > newest_protocol) {
      reject("expected protocol ", oldest_protocol, " to ", newest_protocol, ", got ", protocol);
    }
    for (;;) {
      const auto opcode = take<unsigned char>();
      if (opcode == op_stop) break;
      step(opcode);
    }
    result_.value = pop();
    result_.size = at_;
    return std::move(result_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    fail(path_, ": malformed pickle at byte ", at_, ": ", parts...);
  }

  std::string_view take_text(std::size_t size) {
    if (size > text_.size() - at_) reject("it is truncated");
    at_ += size;
    return text_.substr(at_ - size, size);
  }

  /// The next little-endian number.
  template <class T>
  T take() {
    T value{};
    std::memcpy(&value, take_text(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view take_line() {
    const std::size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) reject("it is truncated");
    const std::string_view line = take_text(end - at_);
    ++at_;
    return line;
  }

  double take_big_endian_double() {
    auto bits = take<std::array<unsigned char, 8>>();
    std::reverse(bits.begin(), bits.end());
    return std::bit_cast<double>(bits);
  }

  void count_value() {
    if (++values_ > max_values) reject("more than ", max_values, " values");
  }

  void push(PickleValue value) {
    count_value();
    stack_.push_back(value);
  }

  template <class T>
  void push_new(std::deque<T>& arena, T object) {
    arena.push_back(std::move(object));
    push(&arena.back());
  }

  /// Values below the last mark are out of reach until the mark is taken.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  PickleValue pop() {
    if (stack_.size() <= floor()) reject("it takes a value from an empty stack");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }

  /// The last `count` values, in order.
  std::vector<PickleValue> pop_many(std::size_t count) {
    if (stack_.size() - floor() < count) reject("it takes a value from an empty stack");
    std::vector<PickleValue> values(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return values;
  }

  std::vector<PickleValue> pop_to_mark() {
    if (marks_.empty()) reject("no mark where one is needed");
    std::vector<PickleValue> values = pop_many(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }

  /// The object on top of the stack, which must be of kind T and stays there.
  template <class T>
  T& top(std::string_view expected) {
    if (stack_.size() <= floor()) reject("expected ", expected, ", got an empty stack");
    T** object = std::get_if<T*>(&stack_.back());
    if (object == nullptr) reject("expected ", expected, ", got ", kind_of(stack_.back()));
    return **object;
  }

  std::string_view pop_text() {
    const PickleValue value = pop();
    const auto* text = as<std::string_view>(value);
    if (text == nullptr) reject("expected a string, got ", kind_of(value));
    return *text;
  }

  void memo_put(std::uint32_t index) {
    if (stack_.size() <= floor()) reject("it remembers a value of an empty stack");
    count_value();
    memo_[index] = stack_.back();
  }

  void memo_get(std::uint32_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) reject("it recalls value ", index, ", which it did not store");
    push(found->second);
  }

  void push_long(std::string_view bytes) {
    if (bytes.size() > sizeof(std::int64_t)) return push(PickleBigInteger{bytes});
    const bool negative = !bytes.empty() && (bytes.back() & 0x80) != 0;
    std::int64_t value = negative ? -1 : 0;  // sign-extends
    std::memcpy(&value, bytes.data(), bytes.size());
    push(value);
  }

  void push_global(PickleGlobal global) {
    if (runs_programs(global)) {
      fail(path_, ": the pickle names the global ", quote(concat(global.module, '.', global.name)),
           ", which a state dict does not need; nothing was executed. Save the weights alone, with "
           "torch.save(model.state_dict(), ...)");
    }
    push(global);
  }

  /// Whether the value on top is an object of which a note is all there is: what it is given goes nowhere.
  bool tops_a_note() const {
    if (stack_.size() <= floor() || as_tensor(stack_.back()) != nullptr) return false;
    const auto* call = as_object<PickleCall>(stack_.back());
    return call != nullptr && call->function != global_rebuild_parameter;
  }

  void append(std::vector<PickleValue> values) {
    if (tops_a_note()) return;
    std::vector<PickleValue>& items = top<PickleList>("a list").items;
    items.insert(items.end(), values.begin(), values.end());
  }

  void set_items(const std::vector<PickleValue>& values) {
    if (tops_a_note()) return;
    PickleDict& dict = top<PickleDict>("a dict");
    if (values.size() % 2 != 0) reject("a key without a value");
    for (std::size_t i = 0; i < values.size(); i += 2) dict.items.emplace_back(values[i], values[i + 1]);
  }

  void reduce() {
    const PickleValue arguments = pop();
    const PickleValue function = pop();
    const auto* global = as<PickleGlobal>(function);
    auto* const* tuple = as<PickleTuple*>(arguments);
    if (global == nullptr) reject("it calls ", kind_of(function));
    if (tuple == nullptr) reject("it calls a function with ", kind_of(arguments), " instead of a tuple");
    if (*global == global_ordered_dict) return push_new(result_.dicts, new_dict((*tuple)->items));
    if (is_storage_class(*global)) reject("it calls ", name_of(*global));
    push_new(result_.calls, {*global, *tuple});
  }

  /// OrderedDict() or, as Python 2 wrote it, OrderedDict([[key, value], ...]).
  PickleDict new_dict(const std::vector<PickleValue>& arguments) {
    PickleDict dict;
    if (arguments.empty()) return dict;
    const auto* list = as_object<PickleList>(arguments[0]);
    if (arguments.size() != 1 || list == nullptr) reject("unexpected arguments of OrderedDict");
    for (const PickleValue& item : list->items) {
      const auto* pair = as_object<PickleList>(item);
      if (pair == nullptr || pair->items.size() != 2) reject("unexpected arguments of OrderedDict");
      count_value();  // the same list may be copied again and again
      dict.items.emplace_back(pair->items[0], pair->items[1]);
    }
    return dict;
  }

  /// An object of a class, such as the argparse.Namespace that training scripts keep their options in: not made, noted.
  void new_object() {
    const PickleValue arguments = pop();
    const PickleValue type = pop();
    const auto* global = as<PickleGlobal>(type);
    auto* const* tuple = as<PickleTuple*>(arguments);
    if (global == nullptr || tuple == nullptr || *global == global_ordered_dict || is_storage_class(*global)) {
      reject("it makes an object, which a state dict does not need; nothing was executed");
    }
    push_new(result_.calls, {*global, *tuple});
  }

  void step(unsigned char opcode) {
    switch (opcode) {
      case op_frame: take<std::uint64_t>(); return;  // a hint for buffered readers
      case op_mark: count_value(); return marks_.push_back(stack_.size());
      case op_none: return push(std::monostate{});
      case op_newtrue: return push(true);
      case op_newfalse: return push(false);
      case op_binint: return push(std::int64_t{take<std::int32_t>()});
      case op_binint1: return push(std::int64_t{take<std::uint8_t>()});
      case op_binint2: return push(std::int64_t{take<std::uint16_t>()});
      case op_long1: return push_long(take_text(take<std::uint8_t>()));
      case op_binfloat: return push(take_big_endian_double());
      case op_binstring:  // the strings of Python 2, whose names of tensors are ASCII
      case op_binbytes:
      case op_binunicode: return push(take_text(take<std::uint32_t>()));
      case op_binunicode8:
      case op_binbytes8:
      case op_bytearray8: return push(take_text(take<std::uint64_t>()));
      case op_short_binstring:
      case op_short_binbytes:
      case op_short_binunicode: return push(take_text(take<std::uint8_t>()));

      case op_empty_tuple: return push_new(result_.tuples, {});
      case op_tuple1: return push_new(result_.tuples, {pop_many(1)});
      case op_tuple2: return push_new(result_.tuples, {pop_many(2)});
      case op_tuple3: return push_new(result_.tuples, {pop_many(3)});
      case op_tuple: return push_new(result_.tuples, {pop_to_mark()});
      case op_empty_set:
      case op_empty_list: return push_new(result_.lists, {});
      case op_append: return append(pop_many(1));
      case op_additems:
      case op_appends: return append(pop_to_mark());
      case op_frozenset: return push_new(result_.lists, {pop_to_mark()});
      case op_empty_dict: return push_new(result_.dicts, {});
      case op_setitem: return set_items(pop_many(2));
      case op_setitems: return set_items(pop_to_mark());

      case op_binput: return memo_put(take<std::uint8_t>());
      case op_long_binput: return memo_put(take<std::uint32_t>());
      case op_memoize: return memo_put(static_cast<std::uint32_t>(memo_.size()));
      case op_binget: return memo_get(take<std::uint8_t>());
      case op_long_binget: return memo_get(take<std::uint32_t>());

      case op_global: {
        const std::string_view module = take_line();
        return push_global({module, take_line()});
      }
      case op_stack_global: {
        const std::string_view name = pop_text();
        return push_global({pop_text(), name});
      }
      case op_binpersid: return push_new(result_.persistents, {pop()});
      case op_reduce: return reduce();
      case op_newobj: return new_object();
      case op_newobj_ex: pop(); return new_object();  // the last are named arguments
      case op_build:  // attributes of an OrderedDict (the state dict's _metadata) or an object: nothing of use here
        pop();
        if (!tops_a_note()) top<PickleDict>("an OrderedDict to set attributes of");
        return;
      default: reject("opcode ", static_cast<int>(opcode), ", which a state dict does not need; nothing was executed");
    }
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  Pickle result_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;             // heights of the stack
  std::map<std::uint32_t, PickleValue> memo_;  // not hashed: a file chooses the keys
};

}  // namespace

Pickle unpickle(std::span<const std::byte> bytes, const std::string& path) {
  return Machine({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path).run();
}

}  // namespace lamina::detail
