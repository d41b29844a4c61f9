#include <fmt/core.h>
#include <lamina/lamina.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/each_photo.h"
#include "json_output.h"
#include "options.h"
#include "outputs.h"
#include "photos/photos.h"
#include "photos/picture_paths.h"
#include "photos/stopwatch.h"
#include "pictures/segment_picture.h"
#include "segmenter.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

constexpr double least_share = 0.001;  // of the area, for a line of the legend

struct SegmentOptions {
  PhotoOptions photos;
  SegmenterOptions segmenter;
  PictureOptions pictures;
  JsonOutput json;
};

/// What of the answer people are told: the larger classes, and how many are left out.
struct Told {
  std::vector<Segment> segments;
  std::string footnote;

  explicit Told(const std::vector<Segment>& all) {
    for (const Segment& s : all) {
      if (s.share > least_share) segments.push_back(s);
    }
    const std::size_t left_out = all.size() - segments.size();
    if (left_out > 0) footnote = fmt::format("and {} of 0.1 % or less", left_out);
  }
};

/// What became of a photograph, for people and for a program.
struct SegmentOutcome {
  std::string text, picture;
  nlohmann::ordered_json json;
};

/// Draws the picture and says what is in it.
SegmentOutcome process(Segmenter& segmenter, PhotoReader& reader, const fs::path& photo,
                       const PictureOptions& drawing) {
  Image image = reader.read(photo, [](Image decoded) { return decoded; });
  Stopwatch watch;
  Segmenter::Answer answer = segmenter.segment(image);
  const double passed = watch.lap();
  SegmentOutcome outcome;
  auto classes = nlohmann::ordered_json::array();
  for (const Segment& s : answer.segments) {
    classes.push_back(class_json(s.index, s.name));
    classes.back()["share"] = s.share;
  }
  outcome.json = {
      {"photo", name_of_photo(photo)}, {"size", {image.height, image.width}}, {"classes", std::move(classes)}};
  Told told(answer.segments);
  outcome.text = fmt::format("{}: {}x{} -> {} -> scores {}; {:.0f} ms on {}\n", detail::printable(name_of_photo(photo)),
                             image.width, image.height, answer.input.to_string(), answer.scores.to_string(), passed,
                             to_string(answer.device));
  for (const Segment& s : told.segments) outcome.text += fmt::format("  {:6.2f} %  {}\n", 100 * s.share, s.name);
  if (!told.footnote.empty()) outcome.text += fmt::format("  {}\n", told.footnote);
  outcome.picture = drawing.encoded(draw({.title = photo.filename().string(),
                                          .photo = std::move(image),
                                          .map = std::move(answer.map),
                                          .segments = std::move(told.segments),
                                          .footnote = std::move(told.footnote),
                                          .background = segmenter.has_background()}));
  return outcome;
}

void segment(const SegmentOptions& options) {
  const Photos found = find_photos(options.photos);
  PicturePaths pictures(options.pictures, "segments", found);
  Segmenter segmenter(options.segmenter);
  pictures.make_directory();
  PhotoReader reader(options.photos.image());
  auto list = nlohmann::ordered_json::array();
  const auto work = [&](const fs::path& photo) { return process(segmenter, reader, photo, options.pictures); };
  const bool good = each_photo(found, segmenter.at_once(), list, work, [&](const fs::path& photo, auto& outcome) {
    const std::string wrote = pictures.write(photo, outcome.picture);
    if (!options.json.to_stdout()) fmt::print("{}  {}\n", outcome.text, wrote);
    list.push_back(std::move(outcome.json));
  });
  options.json.write(list);
  if (!good) throw Failed();
}

}  // namespace

void add_segment(CLI::App& app) {
  const auto [command, options] = add_command(app, "segment", "Colour photographs by what a model sees where", segment);
  SegmenterOptions& segmenter = options->segmenter;
  const std::string& made_by = segmenter.model.made_by =
      "torchvision makes one, of Pascal VOC's classes (pip install torch torchvision onnx onnxscript):\n"
      "  python3 -c \"import torch, torchvision; torch.onnx.export(torchvision.models.segmentation."
      "lraspp_mobilenet_v3_large(weights='DEFAULT').eval(), (torch.rand(1, 3, 520, 520),), 'lraspp.onnx')\"";
  options->photos.add_to(*command);
  segmenter.model.add_to(*command);
  command->add_option("--labels", segmenter.labels,
                      "class names, one on each line, in place of the model's or, of 21 classes, Pascal VOC's");
  segmenter.model.preprocess.add_to(
      *command,
      "pixels of the short side where the model leaves its input's size open (default: 520); with --fit, of both");
  command->add_option("--output-name", segmenter.output, "the node with the scores, where it is not the first output")
      ->type_name("NAME");
  options->pictures.add_to(*command, "PHOTO-segments");
  options->json.add_to(*command, "each class's share of the area");
  segmenter.run.add_to(*command, true);
  command->footer(
      "Writes one picture for each photograph: coloured by the class of each pixel, with a legend and each class's "
      "share of the area. A class 0 called background is left as it is. The model's output is scores "
      "[N, classes, h, w]; where it does not say how a photograph becomes its input, all of it is resized to the "
      "input's size and normalised as ImageNet's. A photograph that cannot be read is reported and skipped; the exit "
      "code is then 1.\n"
      "A model: " +
      made_by +
      "\nExample:\n"
      "  lamina segment photo.jpg --model lraspp.onnx --json -");
}

}  // namespace lamina::app
