#include "lamina/module/layer.h"

#include "lamina/kernel/kernel.h"

namespace lamina {
namespace {

std::vector<Shape> shapes_of(std::span<const View> views) {
  std::vector<Shape> shapes;
  for (const View& view : views) shapes.push_back(view.shape);
  return shapes;
}

}  // namespace

template <class Problem>
bool Layer<Problem>::takes(const Preparation& preparation) const {
  return find_kernel(problem(shapes_of(preparation.inputs)), preparation) != nullptr;
}

template <class Problem>
std::unique_ptr<Operator> Layer<Problem>::prepare(const Preparation& preparation) const {
  require_parameters();
  const Problem what = problem(shapes_of(preparation.inputs));
  return choose(what, preparation).prepare(what, preparation);
}

template class Layer<AffineProblem>;
template class Layer<AttentionProblem>;
template class Layer<ConcatProblem>;
template class Layer<ConvProblem>;
template class Layer<ConversionProblem>;
template class Layer<CumulativeProblem>;
template class Layer<GatherProblem>;
template class Layer<GridSampleProblem>;
template class Layer<LinearProblem>;
template class Layer<LocalResponseProblem>;
template class Layer<MatMulProblem>;
template class Layer<MoveProblem>;
template class Layer<NormProblem>;
template class Layer<NormalizationProblem>;
template class Layer<PointwiseProblem>;
template class Layer<PoolProblem>;
template class Layer<ReduceProblem>;
template class Layer<ResampleProblem>;
template class Layer<ScatterProblem>;
template class Layer<SoftmaxProblem>;
template class Layer<TopKProblem>;

}  // namespace lamina
