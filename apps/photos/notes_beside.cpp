#include "photos/notes_beside.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lamina/base/json.h"
#include "lamina/graph/notes.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

using Note = nlohmann::json;

/// The object in a file of that name beside the model's; empty where there is none. A damaged one is a warning.
Note beside(Model& model, const fs::path& file, const char* name) {
  constexpr std::uintmax_t most = 16 << 20;
  const fs::path folder = fs::absolute(file).parent_path();
  for (const auto& place : {folder, folder.filename() == "onnx" ? folder.parent_path() : folder}) {
    std::error_code error;
    if (!fs::is_regular_file(place / name, error) || fs::file_size(place / name, error) > most) continue;
    std::ifstream opened(place / name);
    try {
      const Note json = detail::parse_json<Note>(std::string(std::istreambuf_iterator<char>(opened), {}), name);
      if (json.is_object()) return json;
    } catch (const Error& damaged) {
      model.warnings.push_back(std::string("passed over, beside the model: ") + damaged.what());
    }
  }
  return Note::object();
}

Note at(const Note& json, const char* key) { return json.is_object() ? json.value(key, Note()) : Note(); }

bool is_off(const Note& json, const char* key) { return at(json, key) == Note(false); }
bool is_on(const Note& json, const char* key) { return at(json, key) == Note(true); }

double number(const Note& json, const char* key, double otherwise) {
  const Note found = at(json, key);
  return found.is_number() ? found.get<double>() : otherwise;
}

void set_colours(Rgb& colours, const Note& values) {
  if (values.is_number()) colours.fill(values.get<float>());
  if (values.is_array() && values.size() == 1) colours.fill(values[0].get<float>());
  if (values.is_array() && values.size() == 3) colours = values.get<Rgb>();
}

/// Height and width: {"height", "width"}, {"shortest_edge"} or one number for both. 0 where nothing is said.
std::array<int, 2> sides(const Note& size) {
  const double both = size.is_number() ? size.get<double>() : number(size, "shortest_edge", 0);
  return {detail::noted_side(number(size, "height", both)), detail::noted_side(number(size, "width", both))};
}

/// Of preprocessor_config.json.
Preprocess of_transformers(const Note& json) {
  Preprocess result;
  if (!is_off(json, "do_normalize")) {
    set_colours(result.mean, at(json, "image_mean"));
    set_colours(result.std, at(json, "image_std"));
  }
  const double factor = is_off(json, "do_rescale") ? 1 : number(json, "rescale_factor", 1 / 255.0);
  result.divisor = std::abs(factor * 255 - 1) < 1e-3 ? 255.0f : static_cast<float>(1 / factor);
  if (is_on(json, "rescale_offset") && !is_off(json, "do_rescale")) {  // levels from -1 to 1, before the mean
    for (float& mean : result.mean) mean += 1;
  }
  if (is_on(json, "do_flip_channel_order")) result.order = ChannelOrder::bgr;
  const Note said = at(json, "size");
  const auto size = sides(said), crop = sides(at(json, "crop_size"));
  const bool shortest = said.is_object() && said.contains("shortest_edge"), middle = is_on(json, "do_center_crop");
  const auto seen = middle && crop[0] > 0 ? crop : size;
  result.crop = seen[0], result.crop_width = seen[1];
  result.resize = size[0] > 0 ? size[0] : seen[0];
  // ConvNeXt's cut out the middle of small pictures, and squeeze large ones into the square.
  const double share = number(json, "crop_pct", 0);
  const bool by_share = !middle && shortest && share > 0 && size[0] < 384;
  if (by_share) result.resize = detail::noted_side(size[0] / share);
  const bool kept = middle ? shortest || said.is_number() : shortest && (by_share || !(share > 0));
  result.aspect = kept ? Aspect::kept : Aspect::ignored;
  return result;
}

/// Of the pretrained_cfg of timm's config.json.
Preprocess of_timm(const Note& json) {
  Preprocess result;
  set_colours(result.mean, at(json, "mean"));
  set_colours(result.std, at(json, "std"));
  const Note size = at(json, "input_size");
  if (!size.is_array() || size.size() != 3) return {.crop = 0};
  result.crop = detail::noted_side(size[1].get<double>()),
  result.crop_width = detail::noted_side(size[2].get<double>());
  result.resize = detail::noted_side(std::floor(result.crop / number(json, "crop_pct", 0.875)));
  if (at(json, "crop_mode") == Note("squash")) result.aspect = Aspect::ignored;
  return result;
}

void take_preprocess(Model& model, const fs::path& file, const Note& config) {
  const Note processor = beside(model, file, "preprocessor_config.json"), timm = at(config, "pretrained_cfg");
  if (processor.empty() && !timm.is_object()) return;
  detail::set_noted(model, processor.empty() ? of_timm(timm) : of_transformers(processor));
  if (!model.preprocess) return;
  const auto asks = [&](bool it_does, const char* what) {
    if (!it_does) return;
    model.warnings.push_back(std::string(processor.empty() ? "config.json" : "preprocessor_config.json") +
                             " asks for " + what);
  };
  const bool bilinear =
      processor.empty() ? at(timm, "interpolation") == Note("bilinear") : number(processor, "resample", 2) == 2;
  asks(!bilinear, "another way of resizing than bilinear, which is what photographs get here");
  asks(is_off(processor, "do_resize"), "pictures that are not resized; they are here");
  asks(is_on(processor, "do_pad"), "a border around pictures, which they do not get here");
  asks(is_on(processor, "keep_aspect_ratio"), "sides that stay in proportion, which is not heeded here");
  const Note mode = at(timm, "crop_mode");
  asks(processor.empty() && mode.is_string() && mode != Note("center") && mode != Note("squash"),
       "another crop_mode than center and squash; the middle is cut out here");
}

std::vector<std::string> names_of(const Note& config) {
  if (const Note names = at(config, "id2label"); !names.empty()) {
    const std::vector<std::string> list = detail::names_in(names.dump(), "id2label");
    return list[0] == "LABEL_0" ? std::vector<std::string>() : list;
  }
  const Note names = at(config, "label_names"), described = at(config, "label_descriptions");
  if (!names.is_array()) return {};
  std::vector<std::string> list = names.get<std::vector<std::string>>();
  for (std::string& name : list) name = described.is_object() ? described.value(name, name) : name;
  return list;
}

}  // namespace

void take_notes_beside(Model& model, const fs::path& file) {
  if ((model.preprocess && !model.labels.empty()) || model.graph.inputs().size() != 1) return;
  const Note config = beside(model, file, "config.json");
  if (!model.preprocess) detail::passing_over_oddities(model, [&] { take_preprocess(model, file, config); });
  if (!model.labels.empty()) return;
  detail::passing_over_oddities(model, [&] { model.labels = names_of(config); });
  try {
    detail::require_labels(model);
  } catch (const Error& other) {  // they are another model's
    model.labels.clear();
    model.warnings.push_back(std::string("passed over, beside the model: ") + other.what());
  }
}

}  // namespace lamina::app
