#include <fmt/core.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <utility>

#include "commands/commands.h"
#include "complain.h"
#include "in_order.h"
#include "inputs.h"
#include "lamina/base/thread_pool.h"
#include "lamina/images/codecs/codec.h"
#include "model_options.h"
#include "open_file.h"
#include "options.h"
#include "outputs.h"
#include "photos/photo_reader.h"
#include "photos/photos.h"
#include "photos/picture_paths.h"
#include "pictures/feature_picture.h"
#include "pictures/maps.h"
#include "progress.h"
#include "shown_layer.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t max_cards = 200;  // of a sheet: a picture of 20,000 rows

struct FeaturesOptions {
  PhotoOptions photos;
  ModelOptions model;
  std::string layer, out, tensor_out, sheet;
  bool open = false;
  RunOptions run;
};

/// Milliseconds since the last call.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double, std::milli> passed = now - last_;
    last_ = now;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// What became of one photograph.
struct Outcome {
  std::string text, error;
  std::string png;
  Image card;   // for the sheet, if one is asked for
  Tensor maps;  // to be written, if that is asked for
};

Model model_of(const FeaturesOptions& options) {
  ModelOptions model = options.model;
  if (model.model.empty() && model.arch.empty() && model.weights.empty()) model.model = default_model();
  return model.load();
}

/// Runs the layer on photographs, any number of which may be under way.
class FeatureExtractor {
 public:
  explicit FeatureExtractor(const FeaturesOptions& options)
      : options_(options),
        model_(model_of(options)),
        source_(options.model.source().empty() ? default_model() : options.model.source()),
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
      return resize_and_crop(image, *model_.preprocess);
    });
    Tensor input({1, 3, crop.height, crop.width});
    normalize_into(crop, *model_.preprocess, input.values<float>());
    const double prepare = watch.lap();
    double layer = 0;
    const Tensor maps = run(input, layer);
    outcome.text = fmt::format("{}: {}x{} -> {} {}; decode {:.1f} ms, preprocess {:.1f} ms, layer {:.2f} ms on {}\n",
                               detail::printable(photo.string()), width, height, detail::printable(layer_.name),
                               maps.shape().to_string(), decode, prepare, layer, to_string(plan_.options().device));
    std::string list;
    for (const Strength& s : strongest(maps, 5)) {
      list += fmt::format("{}#{} ({:.2f}, {:.1f})", list.empty() ? "" : ", ", s.map, s.mean, s.largest);
    }
    outcome.text += fmt::format("  strongest filters (mean, largest): {}\n", list);
    const FeaturePicture picture{.title = photo.filename().string(),
                                 .subtitle = fmt::format("{}: {} feature maps of {}×{}", layer_.name, maps.shape()[1],
                                                         maps.shape()[2], maps.shape()[3]),
                                 .input = crop,
                                 .filters = layer_.filters,
                                 .order = model_.preprocess->order,
                                 .maps = maps};
    outcome.png = detail::encode_png(draw(picture));
    if (!options_.sheet.empty()) outcome.card = draw_card(picture);
    if (!options_.tensor_out.empty()) outcome.maps = maps;
  }

  Plan compile() const {
    if (!model_.preprocess) {
      throw Error(source_ +
                  ": does not say how a photograph becomes its input (no lamina.preprocess): --preprocess "
                  "imagenet is what most networks want; lamina convert and export_torch.py put it into a "
                  "model file");
    }
    const Graph graph = model_.graph.until(layer_.name);
    CompileOptions options = options_.run.compile_options(1);
    options.input_shapes = options_.model.shapes(graph);
    const std::int64_t crop = model_.preprocess->crop;
    for (const int input : graph.inputs()) {
      const Graph::Node& node = graph.nodes()[static_cast<std::size_t>(input)];
      const bool is_open = std::ranges::find(*node.shape, open) != node.shape->end();
      if (is_open) options.input_shapes.emplace(node.name, Shape{1, 3, crop, crop});  // unless --input-shape has it
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
  Model model_;
  std::string source_;
  ShownLayer layer_;
  PhotoReader reader_;
  std::mutex running_;
  Plan plan_;
  bool warm_ = false;
};

void save_maps(const std::string& path, const std::string& name, const std::vector<Tensor>& maps) {
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
  fmt::print("wrote {}: {} {}\n", path, name, shape.to_string());
}

void save_sheet(const std::string& path, const std::string& layer, std::span<const Image> cards, std::size_t left_out) {
  const std::string title = fmt::format("{}: the strongest maps of {} photographs", layer, cards.size() + left_out);
  write_png(path, draw_sheet(title, cards, left_out > 0 ? fmt::format("and {} more photographs", left_out) : ""));
  fmt::print("wrote {}: {} photographs\n", detail::printable(path), cards.size());
}

/// "features", and the layer's name if one was chosen: pictures of different layers are no versions of each other.
std::string suffix_of(const FeaturesOptions& options) {
  std::string suffix = options.layer.empty() ? "features" : options.layer;
  for (char& c : suffix) c = c == '/' || c == '\\' ? '_' : c;
  return suffix.starts_with('_') ? suffix.substr(1) : suffix;
}

void features(const FeaturesOptions& options) {
  if (!options.tensor_out.empty()) require_safetensors_name(options.tensor_out);
  if (!options.sheet.empty() && !options.sheet.ends_with(".png")) {
    throw Error(fmt::format("--sheet: expected a name that ends in .png, got {}", options.sheet));
  }
  if (options.model.source().empty())
    require_apart("--output-tensor", options.tensor_out, "the model", default_model());
  const auto [photos, missing] = find_photos(options.photos);
  PicturePaths pictures(options.out, suffix_of(options), photos);
  FeatureExtractor extractor(options);
  pictures.make_directory();

  std::vector<Tensor> maps;
  std::vector<Image> cards;
  std::size_t left_out = 0;
  bool failed = missing;
  Progress progress(photos.size(), "photographs");
  InOrder<Outcome> under_way(std::min(photos.size(), static_cast<std::size_t>(ThreadPool::default_threads())));
  const auto finish = [&](const fs::path& photo) {
    Outcome outcome = under_way.next();
    progress.clear();
    try {
      if (!outcome.error.empty()) throw Error(outcome.error);
      fmt::print("{}  {}\n", outcome.text, pictures.write(photo, outcome.png));
      if (outcome.maps.defined()) maps.push_back(std::move(outcome.maps));
      if (outcome.card.width > 0 && cards.size() == max_cards)
        ++left_out;
      else if (outcome.card.width > 0)
        cards.push_back(std::move(outcome.card));
    } catch (const Error& error) {
      complain(error.what());
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
  if (!maps.empty()) save_maps(options.tensor_out, extractor.layer_name(), maps);
  if (!cards.empty()) save_sheet(options.sheet, extractor.layer_name(), cards, left_out);
  if (options.open && !pictures.written().empty()) {
    open_file(cards.empty() ? pictures.written() : fs::path(options.sheet));
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
                             "the picture to write, or a directory for several (default: PHOTO-features.png here)"));
  writes(command->add_option("--sheet", options->sheet,
                             "also write one picture of all photographs with their strongest maps (.png)"));
  command->add_flag("--open", options->open, "show the picture, or the sheet, in the desktop's viewer");
  writes(command->add_option("--output-tensor", options->tensor_out,
                             "also write the feature maps, one batch of all photographs (.safetensors)"));
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
