#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lamina::app {

/// Values and shapes of inputs by name, as CompileOptions has them.
using Constants = std::map<std::string, Tensor, std::less<>>;
using InputShapes = std::map<std::string, Shape, std::less<>>;

/// An input of the graph, and all of them.
const Graph::Node& input_node(const Graph& graph, std::size_t i = 0);
std::vector<const Graph::Node*> input_nodes(const Graph& graph);

/// The shape of the model's one input, as it or --input-shape says. Throws Error where it has several, or another name.
Shape one_input(const Graph& graph, const InputShapes& said, const std::string& source);

/// The model's inputs out of a tensor file (by input name; an .npy, which has none, serves a lone input) or a
/// photograph (preprocessed as the model says); values of optional inputs go to `constants`. Floats are converted to
/// f32 where the model takes that. Throws Error naming what is missing, and what nobody reads: but for inputs the file
/// may name `others`.
std::vector<Tensor> read_inputs(const std::filesystem::path& path, const Model& model, Constants& constants,
                                const ImageOptions& options = {}, const std::vector<std::string>& others = {});

/// The value of an input as a user says it: numbers with commas between, or a tensor file (the tensor of the input's
/// name, or its only one). Throws Error if it does not fit.
Tensor constant_of(const Graph::Node& input, const std::string& text);

/// The same graph, where inputs have these shapes, and these values stand in the place of others.
Graph with_inputs(const Graph& graph, const InputShapes& shapes, const Constants& constants);

/// A plan for these inputs, in the graph's order: their batch, their extents where the graph leaves them open, and the
/// values of those that shapes, axes or weights depend on. Such inputs are then part of the plan, and taken out of
/// `inputs`. Throws Error if the batches differ.
Plan compile_for(const Graph& graph, CompileOptions options, std::vector<Tensor>& inputs);

/// Throws Error, which begins with the option, unless the graph has nodes of these names.
void require_nodes(const Graph& graph, const std::string& option, const std::vector<std::string>& names);

/// Says once, in a line on stderr, which outputs hold NaN or infinite numbers, where some do.
void say_not_finite(const Plan& plan, std::span<const Tensor> outputs);

/// What loading warned about, on stderr.
void print_warnings(const Model& model);

/// "conv1.weight, conv1.bias and 120 more"
std::string listed(const std::vector<std::string>& names);

}  // namespace lamina::app
