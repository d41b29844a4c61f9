#include "lamina/graph/photographs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/images/named_preprocess.h"
#include "lamina/ops/element_type.h"
#include "lamina/ops/op.h"

namespace lamina {
namespace {

/// The one input, and what it is like, unless it takes f32 [N, 3, H, W] or no pictures.
std::optional<PictureInput> other_form(const Graph& graph) {
  if (graph.inputs().size() != 1) return std::nullopt;
  const Graph::Node& input = graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])];
  const auto form = picture_input(*input.shape);
  const bool usual = form && form->down == 2 && (*input.shape)[1] == 3 && input.dtype == DType::f32;
  return usual ? std::nullopt : form;
}

/// An input of the graph in place of `node`, and what leads from it to what `node` took.
Value pictures_for(Graph& graph, const Graph::Node& node, const PictureInput& form) {
  const Shape& shape = *node.shape;
  Value x = graph.input(node.name, {shape.rank() == 3 ? 1 : shape[0], 3, form.height, form.width});
  const auto put = [&](auto module, std::initializer_list<Value> inputs) {
    return graph.add(node.name + std::string(of_photographs) + std::to_string(graph.nodes().size()), std::move(module),
                     inputs);
  };
  if (form.channels == 1) {
    x = put(Op("Conv"), {x, put(Constant(Tensor::from(std::span<const float>(grey_shares), {1, 3, 1, 1})), {})});
  }
  if (shape.rank() == 3)
    x = put(Op("Squeeze"), {x, put(Constant(Tensor::from(std::vector<std::int64_t>{0}, {1})), {})});
  if (form.channels_last) x = put(Op("Transpose", {{"perm", std::vector<std::int64_t>{0, 2, 3, 1}}}), {x});
  if (!is_float(node.dtype)) x = put(Op("Round"), {x});
  if (node.dtype != DType::f32) x = put(Op("Cast", {{"to", std::int64_t{detail::data_type_of(node.dtype)}}}), {x});
  return x;
}

/// Numbers between whole ones, or beyond the type, would be rounded to nonsense.
void require_whole(const Graph& graph, std::span<const float> numbers) {
  const Graph::Node& input = graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])];
  if (is_float(input.dtype)) return;
  const float least = name(input.dtype)[0] == 'u' ? 0 : input.dtype == DType::i8 ? -128 : -0x1p31f;
  const float most = input.dtype == DType::u8 ? 255 : input.dtype == DType::i8 ? 127 : 0x1p31f;
  for (const float number : numbers) {
    constexpr float rounded = 0.01f;  // of divisions on the way to whole numbers
    if (std::abs(number - std::nearbyint(number)) <= rounded && number >= least - rounded && number <= most + rounded)
      continue;
    detail::fail("the input ", detail::quote(input.name), " takes whole numbers, ", name(input.dtype),
                 ", which are levels as photographs have them: expected a divisor of 1, a mean of 0 and a std of 1, ",
                 "got ", number, " of a level");
  }
}

}  // namespace

std::optional<PictureInput> picture_input(const Shape& shape) {
  if (shape.rank() == 3 && shape[0] == 3) return PictureInput{false, 3, shape[1], shape[2], 1};
  if (shape.rank() != 4) return std::nullopt;
  // The axes are tried in this order, since both could be the channels.
  constexpr std::array<std::pair<int, std::int64_t>, 5> forms = {{{1, 3}, {3, 3}, {1, 1}, {3, 1}, {1, open}}};
  const auto form = std::ranges::find_if(forms, [&](const auto& of) { return shape[of.first] == of.second; });
  if (form == forms.end()) return std::nullopt;
  const int down = form->first == 1 ? 2 : 1;
  return PictureInput{down == 1, form->second == 1 ? 1 : 3, shape[down], shape[down + 1], down};
}

void take_photographs(Graph& graph) {
  const auto form = other_form(graph);
  if (!form) return;
  Graph result;
  std::vector<Value> made;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Graph::Node& node = graph.nodes()[i];
    std::vector<Value> inputs;
    for (const int input : node.inputs) inputs.push_back(input < 0 ? Value() : made[static_cast<std::size_t>(input)]);
    made.push_back(node.module == nullptr ? pictures_for(result, node, *form)
                                          : result.add(node.name, node.module, inputs));
  }
  for (const int output : graph.outputs()) result.output(made[static_cast<std::size_t>(output)]);
  graph = std::move(result);
}

Preprocess named_preprocess(std::string_view name, const Graph& graph) {
  const Preprocess settings = named_preprocess(name);
  if (graph.inputs().size() != 1) return settings;
  const auto form = picture_input(*graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])].shape);
  if (const Graph::Node& input = graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])];
      !form && input.shape->rank() != 4 && *input.shape != Shape{any_rank}) {
    detail::fail("preprocess: the model's input ", detail::quote(input.name), ' ', *input.shape, " is no photograph");
  }
  constexpr std::int64_t most = 10000;  // of Preprocess::crop
  const auto is_side = [](std::int64_t side) { return side > 0 && side <= most; };
  if (!form || !is_side(form->height) || !is_side(form->width)) return settings;
  return resized_to(settings, static_cast<int>(form->height), static_cast<int>(form->width));
}

Preprocess resized_to(Preprocess settings, int height, int width) {
  if (height != settings.crop && settings.crop > 0) {
    settings.resize = static_cast<int>(std::lround(static_cast<double>(height) * settings.resize / settings.crop));
  }
  settings.crop = height, settings.crop_width = width == height ? 0 : width;
  return settings;
}

void require_levels(const Graph& graph, const Preprocess& preprocess) {
  if (other_form(graph)) require_whole(graph, detail::level_table(preprocess).values);
}

Tensor as_input(const Tensor& pictures, const Graph& graph) {
  const auto form = other_form(graph);
  if (!form) return pictures;
  require_whole(graph, pictures.values<float>());
  Graph front;
  front.output(pictures_for(front, graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])], *form));
  const Shape& shape = pictures.shape();
  CompileOptions options{.batch = shape[0], .threads = 1};
  options.input_shapes[front.nodes()[0].name] = shape;
  return front.compile(options).run(pictures).clone();
}

}  // namespace lamina
