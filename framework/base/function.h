#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace lamina {

/// What std::function is, for the library's interface: copies share what they call, and whoever includes this is spared
/// the 13,000 lines of <functional>.
template <class Signature>
class Function;

template <class Result, class... Arguments>
class Function<Result(Arguments...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}
  template <class Callable>
  requires(!std::is_same_v<std::remove_cvref_t<Callable>, Function> &&
           std::is_invocable_r_v<Result, Callable&, Arguments...>) Function(Callable&& callable)
      : call_(std::make_shared<Call<std::decay_t<Callable>>>(std::forward<Callable>(callable))) {}

  bool operator==(std::nullptr_t) const { return call_ == nullptr; }
  explicit operator bool() const { return call_ != nullptr; }
  Result operator()(Arguments... arguments) const { return (*call_)(std::forward<Arguments>(arguments)...); }

 private:
  struct AnyCall {
    virtual ~AnyCall() = default;
    virtual Result operator()(Arguments... arguments) = 0;
  };
  template <class Callable>
  struct Call final : AnyCall {
    explicit Call(Callable given) : callable(std::move(given)) {}
    Result operator()(Arguments... arguments) override {
      return static_cast<Result>(callable(std::forward<Arguments>(arguments)...));
    }

    Callable callable;
  };

  std::shared_ptr<AnyCall> call_;
};

}  // namespace lamina
