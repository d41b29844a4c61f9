#include <fmt/core.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/each_photo.h"
#include "complain.h"
#include "inputs.h"
#include "json_output.h"
#include "lamina/detect/detector.h"
#include "model_options.h"
#include "options.h"
#include "outputs.h"
#include "photos/detect_files.h"
#include "photos/detect_report.h"
#include "photos/frames.h"
#include "photos/photos.h"
#include "photos/picture_paths.h"
#include "photos/stopwatch.h"
#include "pictures/detect_picture.h"
#include "pictures/text.h"
#include "words.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

struct DetectCommand {
  PhotoOptions photos;
  ModelOptions model;
  PictureOptions pictures;
  std::string labels, coco, txt, crops;
  std::vector<std::string> classes;
  DetectOptions detect;
  int size = 0;
  bool csv = false, no_pictures = false;
  JsonOutput json;
  RunOptions run;
};

/// Classes by number or by name, in any case. Throws Error for what is neither.
std::vector<int> wanted_classes(const std::vector<std::string>& texts, const Detector& detector) {
  std::vector<int> result;
  for (const std::string& text : texts) {
    const std::vector<std::string>& names = detector.names();
    auto named = std::ranges::find(names, text);
    if (named == names.end()) named = std::ranges::find(names, lower(text), lower);
    const auto number = named == names.end() ? number_in<int>(text) : static_cast<int>(named - names.begin());
    if (number && !names.empty() && (*number < 0 || *number >= std::ssize(names))) {
      throw Error(fmt::format("--classes: the model's are 0 to {}, got {}", names.size() - 1, detail::quote(text)));
    }
    if (!number || *number < 0) {
      throw Error(fmt::format("--classes: expected a class of the model by name or number, got {}{}",
                              detail::quote(text), detail::nearest_text(text, names)));
    }
    result.push_back(*number);
  }
  return result;
}

/// The detector; an error names what is wrong, the model or its --labels.
Detector detector_of(const DetectCommand& command, const Model& model, const DetectorOptions& how) {
  const InputShapes& shapes = how.compile.input_shapes;
  if (how.size > 0 || !shapes.empty()) (void)sides_of(model.graph, shapes, how.size, command.model.source());
  try {
    return Detector(model, how);
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool of_labels = !command.labels.empty() && message.starts_with("the model names ");
    if (message.starts_with("size: "))
      throw Error((how.size > 0 ? "--" : command.model.source() + ": input ") + message);
    if (!of_labels) throw Error(command.model.source() + ": " + message);
    constexpr std::pair<std::string_view, std::string_view> words[] = {{"the model names", "it names"},
                                                                       {", its output", ", the model's output"}};
    throw Error("--labels: " + command.labels + ": " + detail::in_words(message, words));
  }
}

/// What became of a photograph.
struct DetectOutcome {
  FoundThings found;
  std::string text, picture;
  std::vector<std::string> crops = {};
};

/// Finds, draws and cuts out.
DetectOutcome process(const DetectCommand& command, const Detector& detector, const DetectOptions& options,
                      const DetectFiles& files, PhotoReader& reader, const fs::path& photo) {
  Image image = reader.read(photo, [](Image decoded) { return decoded; });
  Stopwatch watch;
  Detections found = detector.detect(image, options);
  const double passed = watch.lap();
  DetectOutcome outcome;
  outcome.found = {photo, image.width, image.height, std::move(found.found), {}};
  for (const Detection& thing : outcome.found.things) {
    outcome.found.names.push_back(detail::printable(detector.name(thing.label)));
  }
  outcome.text =
      fmt::format("{}: {}x{}: {}; {:.2f} ms, the model {:.2f}, on {}\n", detail::printable(name_of_photo(photo)),
                  image.width, image.height, summary(outcome.found), passed, found.network_ms, to_string(found.device));
  if (found.left_out > 0) {
    complain(fmt::format("{}: {} boxes score above {}, the best {} were compared; --confidence asks for fewer",
                         name_of_photo(photo), found.candidates, options.confidence,
                         found.candidates - found.left_out));
  }
  outcome.crops = files.crops_of(image, outcome.found);
  if (!command.no_pictures) {
    outcome.picture = command.pictures.encoded(draw({std::move(image), outcome.found.things, outcome.found.names}));
  }
  return outcome;
}

void detect(const DetectCommand& command) {
  const Photos found = find_photos(command.photos);
  const CocoIds ids(command.coco.empty() ? Photos{} : found);
  PicturePaths pictures(command.pictures, "detections", found);
  if (command.coco == "-" && (command.csv || command.json.to_stdout()))
    throw Error("--coco: expected a file beside --json or --csv on stdout, got -");
  const DetectFiles files(command.txt, command.crops, command.pictures.jpeg, found);
  Model model = command.model.load();
  print_warnings(model);
  if (!command.labels.empty()) model.labels = read_labels(command.labels);
  DetectorOptions how{
      .compile = command.run.compile_options(1), .devices = command.run.devices(), .size = command.size};
  command.model.inputs.settle(how.compile, model.graph);
  const Detector detector = detector_of(command, model, how);
  DetectOptions options = command.detect;
  options.classes = wanted_classes(command.classes, detector);
  PhotoReader reader(command.photos.image());
  if (!command.no_pictures) pictures.make_directory();
  const bool prose = !command.csv && !command.json.to_stdout() && command.coco != "-";
  if (command.csv) fmt::print("{}", csv_header);
  auto list = nlohmann::ordered_json::array(), coco = list;
  const auto work = [&](const fs::path& photo) { return process(command, detector, options, files, reader, photo); };
  const std::size_t at_once = how.devices.size() > 1 ? 2 * how.devices.size() : 1;
  const bool good = each_photo(found, at_once, list, work, [&](const fs::path& photo, DetectOutcome& outcome) {
    if (!command.no_pictures) outcome.text += "  " + pictures.write(photo, outcome.picture) + '\n';
    outcome.text += files.write(outcome.found, outcome.crops);
    if (prose) fmt::print("{}", outcome.text);
    if (command.csv) fmt::print("{}", to_csv(outcome.found));
    if (command.json.asked()) list.push_back(to_json(outcome.found));
    if (!command.coco.empty()) add_coco(coco, outcome.found, detector.names(), ids);
  });
  command.json.write(list);
  if (!command.coco.empty()) {
    write_text(command.coco, coco.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
  }
  if (!good) throw Failed();
}

}  // namespace

void add_detect(CLI::App& app) {
  const auto [command, options] =
      add_command(app, "detect", "Find things in photographs: boxes, masks, skeletons", detect);
  const std::string& made_by = options->model.made_by =
      "Ultralytics makes one (pip install ultralytics), `yolo export model=yolo11n.pt format=onnx`";
  options->photos.add_to(*command);
  options->model.add_to(*command);
  options->model.inputs.add_capacity_to(*command);
  command->add_option("--labels", options->labels, "class names, one on each line, in place of the model's");
  add_size_to(*command, options->size,
              "pixels of both sides where the model leaves them open (default: its imgsz, or 640)");
  command->add_option("--confidence,--conf", options->detect.confidence, "the score that a thing has to exceed")
      ->check(real_number(0, 1));
  command
      ->add_option("--iou", options->detect.iou, "how far boxes of one class may overlap; models without NMS ignore it")
      ->check(real_number(0, 1));
  command->add_option("--classes", options->classes, "those wanted, by name in any case or number (default: all)")
      ->type_name("CLASS")
      ->delimiter(',');
  command->add_flag("--across-classes", options->detect.across_classes,
                    "boxes of different classes may not overlap further either");
  command->add_option("--most", options->detect.most, "things of a photograph")->check(whole_number(1, 30000));
  options->pictures.add_to(*command, "PHOTO-detections");
  command->add_flag("--no-pictures", options->no_pictures, "write none")->excludes(command->get_option("--out"));
  auto* json = options->json.add_to(*command, "what was found");
  command->add_flag("--csv", options->csv, "answer in CSV")->excludes(json);
  writes(command->add_option("--coco", options->coco,
                             "what was found in COCO's format of results, to this file, or to stdout for -"));
  command
      ->add_option("--txt", options->txt, "a folder for YOLO's labels: of each photograph a file, of each thing a line")
      ->type_name("FOLDER");
  command->add_option("--crops", options->crops, "a folder for a picture of each thing, in folders by its class")
      ->type_name("FOLDER");
  options->run.add_to(*command, true);
  command->footer(
      "Writes one picture for each photograph: a box around each thing, its name and score, masks, skeletons and "
      "turned boxes where the model gives them. The model is an export of YOLO (v5 to 26), RT-DETR or torchvision's; "
      "its outputs and what its exporter noted tell which. Boxes are in pixels of the photograph, upright. A "
      "photograph that cannot be read is reported and skipped; the exit code is then 1.\n"
      "A model: " +
      made_by +
      "\nExample:\n"
      "  lamina detect photo.jpg --model yolo11n.onnx --json -");
}

}  // namespace lamina::app
