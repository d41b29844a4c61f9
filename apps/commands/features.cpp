#include <fmt/core.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "complain.h"
#include "in_order.h"
#include "inputs.h"
#include "json_output.h"
#include "lamina/base/thread_pool.h"
#include "model_options.h"
#include "open_file.h"
#include "options.h"
#include "outputs.h"
#include "photos/photo_reader.h"
#include "photos/photos.h"
#include "photos/picture_paths.h"
#include "photos/sheet.h"
#include "photos/stopwatch.h"
#include "pictures/feature_picture.h"
#include "pictures/maps.h"
#include "pictures/png.h"
#include "progress.h"
#include "shown_layer.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

struct FeaturesOptions {
  PhotoOptions photos;
  ModelOptions model;
  std::string layer, tensor_out, sheet;
  std::vector<std::string> out;
  JsonOutput json;
  bool open = false;
  RunOptions run;
};

/// What --out names: pictures, by a .png or a directory, and the feature maps, by a .safetensors.
struct Outputs {
  std::string pictures, tensors;
  bool draws = true;  // unless it names the maps alone

  /// Throws Error if it names two of a kind.
  explicit Outputs(const FeaturesOptions& options) : tensors(options.tensor_out) {
    if (!tensors.empty()) require_safetensors_name(tensors);
    for (const std::string& name : options.out) {
      std::string& place = name.ends_with(".safetensors") ? tensors : pictures;
      if (!place.empty())
        throw Error(fmt::format("--out: {} and {} both name the {}", place, name,
                                &place == &tensors ? "feature maps" : "pictures"));
      place = name;
    }
    draws = options.out.empty() || !pictures.empty() || !options.sheet.empty() || options.open;
  }
};

/// What became of one photograph.
struct Outcome {
  std::string text, error;
  nlohmann::ordered_json json;
  std::string png;  // empty where none is asked for
  Image card;       // for the sheet, if one is asked for
  Tensor maps;      // to be written, if that is asked for
};

Model model_of(const FeaturesOptions& options) {
  ModelOptions model = options.model;
  if (model.model.empty() && model.arch.empty() && model.weights.empty()) model.model = default_model();
  return model.load();
}

/// Runs the layer on photographs, any number of which may be under way.
class FeatureExtractor {
 public:
  FeatureExtractor(const FeaturesOptions& options, const Outputs& outputs)
      : options_(options),
        outputs_(outputs),
        model_(model_of(options)),
        source_(options.model.source().empty() ? default_model() : options.model.source()),
        preprocess_(options.model.preprocess.of(model_, options.model.shapes(model_.graph), source_)),
        layer_(shown_layer(model_.graph, options.layer, source_)),
        reader_(options.photos.image()),
        plan_(compile()) {
    print_warnings(model_);
    const Shape& maps = plan_.output_shapes()[0];
    if (maps.rank() != 4 || maps[0] != 1 || maps.numel() == 0) {
      throw Error(fmt::format("{}: expected a layer of feature maps [1, C, H, W], {} gives {}", source_, layer_.name,
                              maps.to_string()));
    }
  }

  Outcome process(const fs::path& photo) {
    Outcome outcome;
    try {
      show(photo, outcome);
    } catch (const Error& error) {
      outcome.error = error.what();
    } catch (const std::bad_alloc&) {
      outcome.error = photo.string() + ": out of memory";
    }
    return outcome;
  }

  const std::string& layer_name() const { return layer_.name; }

 private:
  void show(const fs::path& photo, Outcome& outcome) {
    Stopwatch watch;
    int width = 0, height = 0;
    double decode = 0;
    const Image crop = reader_.read(photo, [&](const Image& image) {
      decode = watch.lap();
      width = image.width, height = image.height;
      return resize_and_crop(image, preprocess_);
    });
    Tensor input({1, 3, crop.height, crop.width});
    normalize_into(crop, preprocess_, input.values<float>());
    const double prepare = watch.lap();
    double layer = 0;
    const Tensor maps = run(input, layer);
    outcome.text = fmt::format("{}: {}x{} -> {} {}; decode {:.1f} ms, preprocess {:.1f} ms, layer {:.2f} ms on {}\n",
                               detail::printable(photo.string()), width, height, detail::printable(layer_.name),
                               maps.shape().to_string(), decode, prepare, layer, to_string(plan_.options().device));
    std::string list;
    auto json = nlohmann::ordered_json::array();
    for (const Strength& s : strongest(maps, 5)) {
      list += fmt::format("{}#{} ({:.2f}, {:.1f})", list.empty() ? "" : ", ", s.map, s.mean, s.largest);
      json.push_back({{"map", s.map}, {"mean", s.mean}, {"largest", s.largest}});
    }
    outcome.json = {{"photo", photo.string()},
                    {"size", {height, width}},
                    {"layer", layer_.name},
                    {"shape", {1, maps.shape()[1], maps.shape()[2], maps.shape()[3]}},
                    {"strongest", std::move(json)},
                    {"milliseconds", {{"decode", decode}, {"preprocess", prepare}, {"layer", layer}}}};
    if (!outputs_.tensors.empty()) outcome.maps = maps;
    outcome.text += fmt::format("  strongest filters (mean, largest): {}\n", list);
    if (!outputs_.draws) return;
    const std::int64_t count = maps.shape()[1];
    const std::string drawn = count > max_drawn_maps ? fmt::format(", 0 to {} of them drawn", max_drawn_maps - 1) : "";
    if (!drawn.empty()) outcome.text += fmt::format("  {} maps{}\n", count, drawn);
    const FeaturePicture picture{.title = photo.filename().string(),
                                 .subtitle = fmt::format("{}: {} feature maps of {}×{}{}", layer_.name, count,
                                                         maps.shape()[2], maps.shape()[3], drawn),
                                 .input = crop,
                                 .filters = layer_.filters,
                                 .order = preprocess_.order,
                                 .maps = maps};
    outcome.png = png_of(draw(picture));
    if (!options_.sheet.empty()) outcome.card = draw_card(picture);
  }

  Plan compile() const {
    const Graph graph = model_.graph.until(layer_.name);
    CompileOptions options = options_.run.compile_options(1);
    const Graph::Node& input = model_.graph.nodes()[static_cast<std::size_t>(model_.graph.inputs()[0])];
    if (std::ranges::find(*input.shape, open) != input.shape->end()) {
      options.input_shapes[input.name] = {1, 3, preprocess_.crop, preprocess_.crop};
    }
    return graph.compile(options);
  }

  /// One photograph at a time; the others are decoded and drawn meanwhile.
  Tensor run(const Tensor& input, double& milliseconds) {
    const std::lock_guard lock(running_);
    if (!warm_) plan_.run(input);  // the first run touches fresh memory: it says nothing about the layer
    warm_ = true;
    Stopwatch watch;
    const Tensor maps = plan_.run(input);
    milliseconds = watch.lap();
    return maps.dtype() == DType::f32 ? maps.clone() : maps.to(DType::f32);
  }

  const FeaturesOptions& options_;
  const Outputs& outputs_;
  Model model_;
  std::string source_;
  Preprocess preprocess_;
  ShownLayer layer_;
  PhotoReader reader_;
  std::mutex running_;
  Plan plan_;
  bool warm_ = false;
};

std::string save_maps(const std::string& path, const std::string& name, const std::vector<Tensor>& maps) {
  Shape shape = maps[0].shape();
  shape.set(0, static_cast<std::int64_t>(maps.size()));
  Tensor all(shape);
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    all.slice(at, at + 1).copy_from(maps[i]);
  }
  Weights file;
  file.set(name, all);
  file.save(path);
  return fmt::format("wrote {}: {} {}\n", path, name, shape.to_string());
}

/// "features", and the layer's name if one was chosen: pictures of different layers are no versions of each other.
std::string suffix_of(const FeaturesOptions& options) {
  std::string suffix = options.layer.empty() ? "features" : options.layer;
  for (char& c : suffix) c = c == '/' || c == '\\' ? '_' : c;
  return suffix.starts_with('_') ? suffix.substr(1) : suffix;
}

void features(const FeaturesOptions& options) {
  const Outputs outputs(options);
  if (options.model.source().empty()) require_apart("--out", outputs.tensors, "the model", default_model());
  const auto [photos, missing] = find_photos(options.photos);
  Sheet sheet(options.sheet, photos);
  PicturePaths pictures(outputs.pictures, suffix_of(options), photos);
  FeatureExtractor extractor(options, outputs);
  if (outputs.draws) pictures.make_directory();

  std::vector<Tensor> maps;
  auto list = nlohmann::ordered_json::array();
  bool failed = missing;
  Progress progress(photos.size(), "photographs");
  const auto threads = static_cast<std::size_t>(ThreadPool::default_threads() + 1);  // one waits to be written
  InOrder<Outcome> under_way(std::min(photos.size(), threads));
  const auto say = [&](const std::string& text) {
    if (!options.json.to_stdout()) fmt::print("{}", text);
  };
  const auto finish = [&](const fs::path& photo) {
    Outcome outcome = under_way.next();
    progress.clear();
    try {
      if (!outcome.error.empty()) throw Error(outcome.error);
      if (!outcome.png.empty()) outcome.text += fmt::format("  {}\n", pictures.write(photo, outcome.png));
      say(outcome.text);
      if (outcome.maps.defined()) maps.push_back(std::move(outcome.maps));
      if (outcome.card.width > 0) say(sheet.add(std::move(outcome.card), extractor.layer_name()));
      list.push_back(std::move(outcome.json));
    } catch (const Error& error) {
      complain(error.what());
      list.push_back({{"photo", photo.string()}, {"error", error.what()}});
      failed = true;
    }
    std::fflush(stdout);
    progress.advance();
  };
  std::size_t finished = 0;
  for (const fs::path& photo : photos) {
    under_way.begin([&extractor, &photo] { return extractor.process(photo); });
    if (under_way.full()) finish(photos[finished++]);
  }
  while (!under_way.empty()) finish(photos[finished++]);
  progress.clear();
  if (!maps.empty()) say(save_maps(outputs.tensors, extractor.layer_name(), maps));
  say(sheet.finish(extractor.layer_name()));
  options.json.write(list);
  if (options.open && !pictures.written().empty()) {
    open_file(options.sheet.empty() ? pictures.written() : fs::path(options.sheet));
  }
  if (failed) throw Failed();
}

}  // namespace

void add_features(CLI::App& app) {
  auto options = std::make_shared<FeaturesOptions>();
  CLI::App* command = app.add_subcommand("features", "Show what a layer's filters see in photographs");
  options->photos.add_to(*command);
  options->model.add_to(*command);
  options->model.add_preprocess_to(*command);
  command
      ->add_option("--layer", options->layer,
                   "the layer to show, by its name in lamina inspect (default: the first convolution with its ReLU)")
      ->type_name("NAME");
  writes(command->add_option("--out", options->out,
                             "the picture to write (.png), or a directory for several (default: PHOTO-features.png "
                             "here); or the feature maps, one batch of all photographs (.safetensors); once for each"))
      ->allow_extra_args(false);
  writes(command->add_option("--sheet", options->sheet,
                             "also write all photographs with their strongest maps below each other (.png), of more "
                             "than 40 in pages: sheet.png, sheet-2.png, ..."));
  command->add_flag("--open", options->open, "show the picture, or the sheet, in the desktop's viewer");
  writes(command->add_option("--output-tensor", options->tensor_out))->group("");  // of old: --out
  options->json.add_to(*command, "sizes, strongest maps and times");
  options->run.add_to(*command);
  command->footer(
      "Writes one picture for each photograph: what the network sees, the filters, and their feature maps, the\n"
      "strongest framed, enlarged and laid over the photograph. Without --model, of the first layer that ships.\n"
      "In a directory no picture replaces another one: a second one of that name gets a number.\n"
      "A photograph that cannot be read is reported and skipped; the exit code is then 1.\n"
      "Example:\n"
      "  lamina features docs/images/chelsea.png --out chelsea-features.png\n"
      "  lamina features docs/images --out pictures --sheet sheet.png\n"
      "  lamina features docs/images/chelsea.png --model weights/digits.safetensors --layer features.3");
  command->callback([options] { features(*options); });
}

}  // namespace lamina::app
