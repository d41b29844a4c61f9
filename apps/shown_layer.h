#pragma once

#include <lamina/lamina.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace lamina::app {

/// The pixels of the input that one place of a map depends on: those of place (0, 0) begin at (top, left), which may
/// lie in the padding, and those of the next place `stride` pixels further.
struct ReceptiveField {
  Size2d size = 1, stride = 1;
  int top = 0, left = 0;

  friend bool operator==(const ReceptiveField&, const ReceptiveField&) = default;
};

/// The layer whose feature maps are shown, and the filters that made them where they can be looked at.
struct ShownLayer {
  std::string name;         ///< of the node
  Tensor filters;           ///< [OC, 1 or 3, KH, KW] of a convolution whose inputs are colours; undefined elsewhere
  Tensor bias = {};         ///< [OC], what each filter adds; undefined where it adds nothing
  bool normalised = false;  ///< by a BatchNorm between the filters and the maps
  std::optional<ReceptiveField> field = {};  ///< of filters that see the photograph itself
};

/// The node called `name`; if that is empty, the first convolution with the ReLU right after it. `source` is what
/// errors call the model. Throws Error if there is no such layer, naming those that are called almost so.
ShownLayer shown_layer(const Graph& graph, const std::string& name, const std::string& source);

/// Whether a node is the photograph: the graph's input, or that made grey or turned to channels last and back.
bool is_photograph(const Graph& graph, const Graph::Node* node);

/// How a layer makes each number of its maps: of a window of others.
struct MadeOf {
  std::string from;                 ///< the node whose maps or picture these are
  std::string how;                  ///< "sum" of products with weights, of each map its "max" or "mean"
  std::string then = {};            ///< the function that is computed of the sum; empty where there is none
  ReceptiveField window = {};       ///< of those maps
  Tensor weights = {}, added = {};  ///< of a sum, as the graph has them; `added` may be undefined
  std::array<Tensor, 4> norm = {};  ///< scale, shift, mean and variance of what normalises the sum; or undefined
  double epsilon = 0;               ///< of the normalisation
};

/// Of the node called `name`; nothing where it is made in another way, or of weights that are no constants.
std::optional<MadeOf> made_of(const Graph& graph, const std::string& name);

/// For each node of the graph, whose outputs have these shapes. None where it depends on all of the input, or in a way
/// that is not followed here: resized maps, attention, padding that the layer works out itself.
std::vector<std::optional<ReceptiveField>> receptive_fields(const Graph& graph, const std::vector<Shape>& shapes);

/// "; nearest: ..." for the name of a node that is none: those which hold all its parts in this order, or else those a
/// few letters away. An exporter writes layer1.0.relu as /layer1/layer1.0/relu/Relu_output_0.
std::string nearest_nodes(const std::string& name, const std::vector<std::string>& names);

}  // namespace lamina::app
