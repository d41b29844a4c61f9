#include "lamina/module/layer.h"

#include "lamina/kernel/all_problems.h"
#include "lamina/kernel/finding.h"
#include "lamina/module/turned.h"

namespace lamina {
namespace {

std::vector<Shape> shapes_of(std::span<const View> views) {
  std::vector<Shape> shapes;
  for (const View& view : views) shapes.push_back(view.shape);
  return shapes;
}

}  // namespace

/// Does not pay if a View is a slice and a faster kernel would run without it: copying is cheaper then.
template <class Problem>
bool Layer<Problem>::pays(const Preparation& preparation) const {
  const Problem what = detail::turned(problem(shapes_of(preparation.inputs)));
  const Kernel<Problem>* const kernel = paying_kernel(what, preparation);
  if (kernel == nullptr) return false;
  if (preparation.has_slices()) {
    const auto whole = [](std::span<const View> views) {
      std::vector<View> result(views.begin(), views.end());
      for (View& view : result) view.channels = 0;
      return result;
    };
    const std::vector<View> inputs = whole(preparation.inputs), outputs = whole(preparation.outputs);
    Preparation without = preparation;
    without.inputs = inputs, without.outputs = outputs, without.finding = nullptr;
    const Kernel<Problem>* const plain = paying_kernel(what, without);
    if (plain == nullptr || plain < kernel) return false;  // a table has the fastest first
  }
  if (preparation.finding != nullptr) preparation.finding->kernel = kernel;
  return true;
}

template <class Problem>
bool Layer<Problem>::takes(const Preparation& preparation) const {
  return found_kernel(detail::turned(problem(shapes_of(preparation.inputs))), preparation) != nullptr;
}

template <class Problem>
std::unique_ptr<Operator> Layer<Problem>::prepare(const Preparation& preparation) const {
  require_parameters();
  const Problem what = detail::turned(problem(shapes_of(preparation.inputs)));
  const Kernel<Problem>* const kernel = found_kernel(what, preparation);
  return (kernel == nullptr ? choose(what, preparation) : *kernel).prepare(what, preparation);
}

#define LAMINA_LAYER(Problem) template class Layer<Problem>;
LAMINA_ALL_PROBLEMS(LAMINA_LAYER)
#undef LAMINA_LAYER

}  // namespace lamina
