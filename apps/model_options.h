#pragma once

#include <lamina/lamina.h>
#include <CLI/CLI.hpp>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "photos/preprocess_options.h"

namespace lamina::app {

/// What is said of a graph's inputs: shapes that it leaves open, and values that are part of it.
struct InputOptions {
  std::vector<std::string> shapes, constants, capacities;

  bool given() const { return !shapes.empty() || !constants.empty(); }
  /// Adds --input-shape and --constant.
  void add_to(CLI::App& command);
  /// Adds --capacity, for commands that settle their CompileOptions by these.
  void add_capacity_to(CLI::App& command);
  /// Puts in --input-shape and --capacity. Throws Error.
  void settle(CompileOptions& compile, const Graph& graph) const;
  /// By the names of the graph's inputs. Throws Error if a text is none.
  InputShapes shapes_of(const Graph& graph) const;
  /// Puts the constants in the place of inputs, and gives a rank to those that have none. Throws Error.
  void apply(Graph& graph) const;
};

/// Which network a command runs: a self-describing model file, or a ready-made network and weights for it.
struct ModelOptions {
  std::string model, weights, arch, labels;
  PreprocessOptions preprocess;
  OpenOptions open;  // of the weights
  InputOptions inputs;
  std::string made_by;  // what makes a model for the command, where none ships

  /// Adds --model, --weights, --key, --strip-prefix, --arch, --input-shape and --constant; no --arch where `made_by`
  /// says what makes a model.
  void add_to(CLI::App& command);
  /// Adds --preprocess and its parts.
  void add_preprocess_to(CLI::App& command);
  /// How photographs become the model's input, with what was said of it and of its shape. Throws Error.
  Preprocess preprocess_of(const Model& loaded) const { return preprocess.of(loaded, shapes(loaded.graph), source()); }
  /// What --input-shape said.
  InputShapes shapes(const Graph& graph) const { return inputs.shapes_of(graph); }
  /// Throws Error if too little was given, the files do not fit together, or there are not as many labels as classes.
  Model load() const;
  /// What to call the model in errors.
  const std::string& source() const { return model.empty() ? weights : model; }
};

/// Adds --labels.
void add_labels_to(CLI::App& command, std::string& labels);

/// Adds --key and --strip-prefix.
void add_open_to(CLI::App& command, OpenOptions& options);
/// Weights::open; stderr tells what it chose.
Weights open_weights(const std::string& path, const OpenOptions& options);

/// Puts the file in the place of the name of a model that ships, or of class names, as `model_file` and `labels_file`
/// find it: what reads options, and what keeps their files from being overwritten, sees files.
CLI::Validator shipped(std::string (*file_of)(const std::string& name));

/// What `work` returns; its Error names the model.
template <class Work>
auto naming(const std::string& source, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    throw Error(source + ": " + error.what());
  }
}

/// A model file. Throws Error; where there are weights alone in it, says what to do with them.
Model open_model(const std::string& path);

/// Accepts the names of ready-made networks.
CLI::Validator network_name();

/// The ready-made network `arch` with the weights that `path` holds; its last layer has as many classes as they have,
/// named as ImageNet's if they are 1000.
/// Throws Error, saying whose weights they are where that can be told.
Model model_of(const std::string& arch, const Weights& weights, const std::string& path);

/// What a class is called, fit for a terminal: by its label, or "class 7".
std::string class_name(const std::vector<std::string>& labels, int number);
/// {"class", "name"}, and its number by the key of old too, "index", for those who read that.
nlohmann::ordered_json class_json(int number, const std::string& name);

/// The lines of a file of class names. Throws Error if it cannot be read or is empty.
std::vector<std::string> read_labels(const std::string& path);

/// Sets the model's class names. Throws Error unless there are as many as the model's output has classes.
void set_labels(Model& model, std::vector<std::string> labels, const std::string& source, int side = 0);

/// What a classifier says of one photograph.
struct Ranking {
  std::vector<Scored> classes;  ///< the best
  int judges = 1;               ///< how many of them say whether it is sure
  bool sure = true;             ///< of mere scores nobody knows
};

/// Of scores of classes [1, classes], as `class_scores` gives them. It is sure if its best classes have 90 % together:
/// the best, and where there are hundreds, half a percent of them, of ImageNet's 1000 five. Among so many there are
/// several for one thing, tabbies and tiger cats, and their probability is shared out; "top 5" counts them so too.
Ranking ranked(const Tensor& row, Scores scores, int top);

/// Why a model is not sure of `photographs`, "this photograph": what it is for, if it says so, and what was missing.
std::string doubt_of(const Model& model, const std::string& name, int judges, const std::string& photographs,
                     std::size_t count = 1);

/// What --size is of in commands whose photographs become square.
inline constexpr const char* size_help = "pixels of both sides of the input, where the model leaves them open";

/// The classes that the model's one output has scores for, [N, classes] (`scores_in`), or [N, 1] of a sigmoid, which
/// are two. Throws Error if it has another form. How many there are hardly depends on the sides of photographs that the
/// model leaves open: they are taken to be `side` where nothing else tells.
std::int64_t class_count(const Model& model, int side = 0);

}  // namespace lamina::app
