#include <fmt/core.h>
#include <lamina/lamina.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include "commands/commands.h"
#include "complain.h"
#include "inputs.h"
#include "model_options.h"
#include "options.h"
#include "photos.h"
#include "picture_paths.h"
#include "pictures/feature_picture.h"
#include "progress.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

struct Options {
  PhotoOptions photos;
  std::string model = default_model();
  std::string out, tensor_out;
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

/// The first convolution of the graph, and the ReLU right after it if there is one.
struct FirstLayer {
  const Conv2d* conv = nullptr;
  std::string name;    // of the convolution
  std::string result;  // of the node whose output is shown
};

FirstLayer first_layer(const Graph& graph) {
  FirstLayer layer;
  const auto& nodes = graph.nodes();
  for (std::size_t i = 0; i < nodes.size() && layer.conv == nullptr; ++i) {
    layer.conv = dynamic_cast<const Conv2d*>(nodes[i].module.get());
    if (layer.conv == nullptr) continue;
    layer.name = layer.result = nodes[i].name;
    for (const Graph::Node& next : nodes) {
      const bool follows = next.module != nullptr && next.inputs == std::vector<int>{static_cast<int>(i)};
      if (follows && next.module->op() == "relu") layer.result = next.name;
    }
  }
  if (layer.conv == nullptr) throw Error("the model has no convolution whose features could be shown");
  return layer;
}

/// Runs the first layer on one photograph after another.
class FeatureExtractor {
 public:
  explicit FeatureExtractor(const Options& options)
      : options_(options), model_(open_model(options.model)), layer_(first_layer(model_.graph)), plan_(compile()) {
    print_warnings(model_);
    if (!model_.preprocess)
      throw Error(options.model +
                  ": does not say how a photograph becomes its input (no lamina.preprocess; scripts/export_torch.py "
                  "--preprocess puts it in)");
  }

  /// Prints what it found, writes the picture to `out`, and returns the maps.
  Tensor process(const fs::path& photo, const fs::path& out) {
    Stopwatch watch;
    const Image image = read_image(photo, options_.photos.image());
    const double decode = watch.lap();
    const Image crop = resize_and_crop(image, *model_.preprocess);
    Tensor input({1, 3, crop.height, crop.width});
    normalize_into(crop, *model_.preprocess, input.values<float>());
    const double prepare = watch.lap();
    if (!warm_) plan_.run(input);  // the first run touches fresh memory: it says nothing about the layer
    warm_ = true;
    watch.lap();
    const Tensor maps = plan_.run(input);
    const double layer = watch.lap();

    fmt::print("{}: {}x{} -> {} {}; decode {:.1f} ms, preprocess {:.1f} ms, layer {:.2f} ms on {}\n",
               detail::printable(photo.string()), image.width, image.height, detail::printable(layer_.result),
               maps.shape().to_string(), decode, prepare, layer, to_string(plan_.options().device));
    fmt::print("  strongest filters (mean, largest): {}\n", strongest(maps));
    write_png(out, draw({.title = photo.filename().string(),
                         .subtitle = fmt::format("{}: {} feature maps of {}x{}", layer_.result, maps.shape()[1],
                                                 maps.shape()[2], maps.shape()[3]),
                         .input = crop,
                         .filters = layer_.conv->weight(),
                         .order = model_.preprocess->order,
                         .maps = maps}));
    fmt::print("  wrote {}\n", detail::printable(out.string()));
    return maps.clone();
  }

  const std::string& result_name() const { return layer_.result; }

 private:
  Plan compile() const { return model_.graph.until(layer_.result).compile(options_.run.compile_options(1)); }

  /// "#12 (0.81, 5.2), ...", mean and largest value, of the maps with the highest means.
  static std::string strongest(const Tensor& maps) {
    constexpr std::size_t shown = 5;
    const auto count = static_cast<std::size_t>(maps.shape()[1]);
    const std::span<const float> values = maps.values<float>();
    const std::size_t pixels = values.size() / count;
    std::vector<double> means(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto map = values.subspan(i * pixels, pixels);
      means[i] = std::accumulate(map.begin(), map.end(), 0.0) / static_cast<double>(pixels);
    }
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    // NaN compares false with everything: put it last, or the order would be none.
    const auto key = [&](std::size_t i) { return std::isnan(means[i]) ? -1e300 : means[i]; };
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return std::pair(key(b), a) < std::pair(key(a), b); });
    std::string text;
    for (std::size_t i = 0; i < std::min(shown, count); ++i) {
      const auto map = values.subspan(order[i] * pixels, pixels);
      text += fmt::format("{}#{} ({:.2f}, {:.1f})", i == 0 ? "" : ", ", order[i], means[order[i]],
                          *std::max_element(map.begin(), map.end()));
    }
    return text;
  }

  const Options& options_;
  Model model_;
  FirstLayer layer_;
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

void features(const Options& options) {
  if (!options.tensor_out.empty()) require_safetensors_name(options.tensor_out);
  const auto [photos, missing] = find_photos(options.photos);
  PicturePaths pictures(options.out, "features", photos);
  FeatureExtractor extractor(options);
  pictures.make_directory();

  std::vector<Tensor> maps;
  bool failed = missing;
  Progress progress(photos.size(), "photographs");
  for (const fs::path& photo : photos) {
    progress.clear();
    try {
      Tensor result = extractor.process(photo, pictures.next(photo));
      if (!options.tensor_out.empty()) maps.push_back(std::move(result));
    } catch (const Error& error) {
      complain(error.what());
      failed = true;
    } catch (const std::bad_alloc&) {
      complain(photo.string() + ": out of memory");
      failed = true;
    }
    progress.advance();
  }
  progress.clear();
  if (!maps.empty()) save_maps(options.tensor_out, extractor.result_name(), maps);
  if (failed) throw Failed();
}

}  // namespace

void add_features(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("features", "Show what the first layer's filters see in photographs");
  options->photos.add_to(*command);
  command->add_option("--model", options->model, "self-describing model file")->capture_default_str();
  command->add_option("--out", options->out,
                      "the picture to write, or a directory for several (default: PHOTO-features.png here)");
  command->add_option("--output-tensor", options->tensor_out,
                      "also write the feature maps, one batch of all photographs (.safetensors)");
  options->run.add_to(*command);
  command->footer(
      "Writes one picture for each photograph: what the network sees, the filters, and their feature maps.\n"
      "A photograph that cannot be read is reported and skipped; the exit code is then 1.\n"
      "Example:\n"
      "  lamina features docs/images/chelsea.png --out chelsea-features.png");
  command->callback([options] { features(*options); });
}

}  // namespace lamina::app
