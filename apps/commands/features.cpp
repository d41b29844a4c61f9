#include <fmt/core.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/each_photo.h"
#include "commands/feature_extractor.h"
#include "inputs.h"
#include "lamina/base/thread_pool.h"
#include "lamina/files/safetensors.h"
#include "models/shipped.h"
#include "open_file.h"
#include "outputs.h"
#include "photos/picture_paths.h"
#include "photos/sheet.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

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

/// "features", the layer's name if one was chosen, "window" of an explanation: pictures of different layers are no
/// versions of each other.
std::string suffix_of(const FeaturesOptions& options) {
  std::string suffix = !options.explain.empty() ? "window" : options.layer.empty() ? "features" : options.layer;
  for (char& c : suffix) c = c == '/' || c == '\\' ? '_' : c;
  return suffix.starts_with('_') ? suffix.substr(1) : suffix;
}

void features(FeaturesOptions options) {
  const FeatureOutputs outputs(options);
  if ((options.model.source() + options.model.arch).empty()) {
    options.model.model = default_model();
    for (const auto& [option, file] : {std::pair("--out", outputs.tensors),
                                       {"--out", outputs.pictures.out},
                                       {"--sheet", options.sheet},
                                       {"--json", options.json.file()}}) {
      require_apart(option, file, "the model", options.model.model);
    }
  }
  const Photos found = find_photos(options.photos);
  Sheet sheet(options.sheet, found.paths);
  PicturePaths pictures(outputs.pictures, suffix_of(options), found);
  FeatureExtractor extractor(options, outputs);
  if (outputs.draws) pictures.make_directory();

  std::vector<Tensor> maps;
  auto list = nlohmann::ordered_json::array();
  const auto threads = static_cast<std::size_t>(ThreadPool::default_threads() + 1);  // one waits to be written
  const auto say = [&](const std::string& text) {
    if (!options.json.to_stdout()) fmt::print("{}", text);
  };
  const auto work = [&](const fs::path& photo) { return extractor.process(photo); };
  const auto finish = [&](const fs::path& photo, FeatureOutcome& outcome) {
    if (!outcome.picture.empty()) outcome.text += fmt::format("  {}\n", pictures.write(photo, outcome.picture));
    say(outcome.text);
    if (outcome.maps.defined()) maps.push_back(std::move(outcome.maps));
    if (outcome.card.width > 0) say(sheet.add(std::move(outcome.card), extractor.layer_name()));
    list.push_back(std::move(outcome.json));
  };
  const bool good = each_photo(found, std::min(found.paths.size(), threads), list, work, finish);
  if (!maps.empty()) say(save_maps(outputs.tensors, extractor.layer_name(), maps));
  say(sheet.finish(extractor.layer_name()));
  options.json.write(list);
  if (options.open && !pictures.written().empty()) {
    open_file(options.sheet.empty() ? pictures.written() : fs::path(options.sheet));
  }
  if (!good) throw Failed();
}

}  // namespace

void add_features(CLI::App& app) {
  const auto [command, options] =
      add_command(app, "features", "Show what a layer's filters see in photographs", features);
  options->photos.add_to(*command);
  options->model.add_to(*command);
  options->model.add_preprocess_to(*command);
  command
      ->add_option("--layer", options->layer,
                   "the layer to show, by its name in lamina inspect (default: the first convolution with its ReLU)")
      ->type_name("NAME");
  writes(command->add_option("--out", options->out,
                             "the picture to write (.png, .jpg), or a folder for several (default: PHOTO-features.png "
                             "here); or the feature maps, one batch of all photographs (.safetensors); once for each"),
         true)
      ->allow_extra_args(false);
  command->add_flag("--jpeg", options->jpeg, picture_as_jpeg);
  CLI::Option* const explain =
      command
          ->add_option(
              "--explain", options->explain,
              "how one number comes about, in place of all maps: at pixel X,Y of the photograph the window, the "
              "filter, their products and what they add up to")
          ->type_name("X,Y")
          ->check(accepted_by([](std::string_view text) { (void)place_of(text); }, ""));
  command
      ->add_option("--filter", options->filter, "with --explain: of this filter (default: that which answers the most)")
      ->check(whole_number(0, 1 << 20))
      ->needs(explain)
      ->default_str("");
  writes(command->add_option("--sheet", options->sheet,
                             "also write all photographs with their strongest maps below each other (.png), of more "
                             "than 40 in pages: sheet.png, sheet-2.png, ..."))
      ->excludes(explain)
      ->check(ends_in(".png"));
  command->add_flag("--open", options->open, "show the picture, or the sheet, in the desktop's viewer");
  writes(command->add_option("--output-tensor", options->tensor_out))
      ->group("")
      ->check(ends_in(".safetensors"));  // of old: --out
  options->json.add_to(*command, "sizes, strongest maps and times");
  options->run.add_to(*command);
  command->footer(
      "Writes one picture for each photograph: what the model sees, the strongest map over it, the filters, and all "
      "feature maps. Without --model, of the first layer that ships.\n"
      "In a folder no picture replaces another one: a second one of that name gets a number.\n"
      "A photograph that cannot be read is reported and skipped; the exit code is then 1.\n"
      "Example:\n"
      "  lamina features photo.jpg --out filters.png\n"
      "  lamina features photos/ --out pictures --sheet sheet.png\n"
      "  lamina features photo.jpg --explain 150,80 --filter 54\n"
      "  lamina features photo.jpg --model digits --layer features.3");
}

}  // namespace lamina::app
