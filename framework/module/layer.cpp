#include "lamina/module/layer.h"

#include "lamina/kernel/bottleneck.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/squeeze_excite.h"

namespace lamina {
namespace {

std::vector<Shape> shapes_of(std::span<const View> views) {
  std::vector<Shape> shapes;
  for (const View& view : views) shapes.push_back(view.shape);
  return shapes;
}

}  // namespace

/// A slice is worth no slower kernel: the one that would run without knows it, or none does.
template <class Problem>
bool Layer<Problem>::takes(const Preparation& preparation) const {
  const Problem what = problem(shapes_of(preparation.inputs));
  const Kernel<Problem>* const kernel = paying_kernel(what, preparation);
  if (kernel == nullptr || !preparation.has_slices()) return kernel != nullptr;
  const auto whole = [](std::span<const View> views) {
    std::vector<View> result(views.begin(), views.end());
    for (View& view : result) view.channels = 0;
    return result;
  };
  const std::vector<View> inputs = whole(preparation.inputs), outputs = whole(preparation.outputs);
  Preparation without = preparation;
  without.inputs = inputs, without.outputs = outputs;
  return paying_kernel(what, without) == kernel;
}

template <class Problem>
std::unique_ptr<Operator> Layer<Problem>::prepare(const Preparation& preparation) const {
  require_parameters();
  const Problem what = problem(shapes_of(preparation.inputs));
  return choose(what, preparation).prepare(what, preparation);
}

template class Layer<AffineProblem>;
template class Layer<AttentionProblem>;
template class Layer<BottleneckProblem>;
template class Layer<ConcatProblem>;
template class Layer<ConvPairProblem>;
template class Layer<ConvProblem>;
template class Layer<ConvSumProblem>;
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
template class Layer<SqueezeExciteProblem>;
template class Layer<TopKProblem>;

}  // namespace lamina
