#include "photos/preprocess_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "inputs.h"
#include "known_weights.h"
#include "lamina/base/names.h"
#include "lamina/graph/notes.h"
#include "lamina/graph/photographs.h"
#include "lamina/images/named_preprocess.h"
#include "model_options.h"
#include "options.h"
#include "words.h"

namespace lamina::app {
namespace {

// In the order of Aspect.
constexpr std::array<const char*, 3> fit_names = {"crop", "stretch", "letterbox"};

/// "0.5" or "1/255". Throws Error.
double number(std::string_view text) {
  const auto part = [&](std::string_view digits) {
    const auto value = number_in<double>(digits);
    if (value && std::isfinite(*value)) return *value;
    throw Error(fmt::format("expected a number such as 0.5 or 1/255, got \"{}\"", text));
  };
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return part(text);
  const double below = part(text.substr(slash + 1));
  if (below == 0) throw Error(fmt::format("expected a number such as 1/255, got \"{}\"", text));
  return part(text.substr(0, slash)) / below;
}

/// One for all colours or "red,green,blue". Throws Error.
Rgb colours(std::string_view text) {
  std::vector<float> values;
  for (const std::string_view part : parts_of(text, ',')) values.push_back(static_cast<float>(number(part)));
  if (values.size() == 1) return {values[0], values[0], values[0]};
  if (values.size() != 3) {
    throw Error(fmt::format("expected one number or three, of red, green and blue, got \"{}\"", text));
  }
  return {values[0], values[1], values[2]};
}

/// The levels of a photograph that become 1. Throws Error.
float divisor_of(std::string_view scale) {
  const double factor = number(scale);
  if (factor == 0) throw Error(fmt::format("expected a number other than 0, got \"{}\"", scale));
  return static_cast<float>(1 / factor);
}

std::array<std::uint8_t, 3> levels(std::string_view text) {
  std::array<std::uint8_t, 3> result{};
  const Rgb values = colours(text);
  for (std::size_t c = 0; c < 3; ++c) {
    if (values[c] < 0 || values[c] > 255 || values[c] != std::floor(values[c])) {
      throw Error(fmt::format("expected whole levels from 0 to 255, got \"{}\"", text));
    }
    result[c] = static_cast<std::uint8_t>(values[c]);
  }
  return result;
}

}  // namespace

std::array<int, 2> sides_of(const Graph& graph, const InputShapes& shapes, int size, const std::string& source) {
  const Shape shape = one_input(graph, shapes, source), declared = *input_node(graph).shape;
  if (!shapes.empty()) {
    const int rank = static_cast<int>(shape.rank());
    bool agree =
        picture_input(declared) && shape.rank() == declared.rank() && (shape[0] == 1 || shape[0] == declared[0]);
    for (int i = 1; agree && i < rank; ++i) agree = declared[i] == open || declared[i] == shape[i];
    if (!agree) {
      throw Error(
          fmt::format("--input-shape: expected the shape of a photograph, such as 1x3xHxW, for the model's {}, got {}",
                      declared.to_string(), shape.to_string()));
    }
  }
  constexpr std::int64_t max_side = 10000;  // of Preprocess::crop
  const auto form = picture_input(shape);
  const auto is_side = [](std::int64_t side) { return side == open || (side > 0 && side <= max_side); };
  if (!form || !is_side(form->height) || !is_side(form->width)) {
    throw Error(
        fmt::format("{}: expected a model with one input for photographs, [N, 3, H, W] or [N, H, W, 3], of three "
                    "channels or one; {} is {}{}",
                    shapes.empty() ? source : "--input-shape", detail::quote(input_node(graph).name), shape.to_string(),
                    form ? "" : "; lamina run takes tensors"));
  }
  const auto known = [](std::int64_t side, std::int64_t other) {
    return static_cast<int>(std::max<std::int64_t>({side == open ? other : side, 0}));
  };
  const int height = known(form->height, form->width), width = known(form->width, form->height);
  if (size > 0 && height > 0 && (size != height || size != width)) {
    const Graph::Node& input = input_node(graph);
    throw Error(fmt::format(
        "--size: expected {}, as {} says, got {}", sides_text(height, width),
        shapes.empty() ? fmt::format("the model's input {} {}", detail::quote(input.name), input.shape->to_string())
                       : "--input-shape",
        size));
  }
  return {height, width};
}

InputShapes photo_shapes(const Model& model, int said, int otherwise) {
  std::array<int, 2> sides{otherwise, otherwise};
  const auto noted = model.metadata.find("imgsz");
  const auto size =
      noted == model.metadata.end() ? nlohmann::json() : nlohmann::json::parse(noted->second, nullptr, false);
  for (std::size_t i = 0; size.is_array() && size.size() == 2 && i < 2; ++i) {
    if (size[i].is_number_integer()) sides[i] = size[i].get<int>();
  }
  if (said > 0) sides.fill(said);
  if (model.preprocess) sides = {model.preprocess->crop, model.preprocess->width()};
  InputShapes result;
  for (const Graph::Node* node : input_nodes(model.graph)) {
    Shape shape = *node->shape;
    const auto form = picture_input(shape);
    const int down = form ? form->down : 0;
    if (form && !form->channels_last && shape[down - 1] == open) shape.set(down - 1, 3);
    for (int d = 0; form && d < 2; ++d) {
      const int side = sides[static_cast<std::size_t>(d)];
      if (shape[down + d] == open && side > 0) shape.set(down + d, side);
    }
    if (shape != *node->shape) result[node->name] = shape;
  }
  return result;
}

std::string sides_text(int height, int width) {
  return height == width ? std::to_string(height) : fmt::format("{} x {}", height, width);
}

void add_size_to(CLI::App& command, int& size, const std::string& about) {
  command.add_option("--size", size, about)
      ->check(CLI::Validator(
          [](std::string& text) {
            const auto sides = parts_of(text, 'x');
            const bool two = sides.size() == 2 && number_in<int>(sides[0]) && number_in<int>(sides[1]);
            return two ? fmt::format("expected one number for both sides, got {}; --input-shape 1x3x{} says two", text,
                                     text)
                       : "";
          },
          ""))
      ->check(whole_number(1, 10000))
      ->default_str("");
}

void PreprocessOptions::add_to(CLI::App& command, const std::string& about_size) {
  const auto add = [&](const char* option, std::string& value, const char* type, const char* help,
                       void (*check)(std::string_view)) {
    command.add_option(option, value, help)->type_name(type)->check(accepted_by(check, ""));
  };
  std::vector<std::string> names;
  for (const auto& known : named_preprocesses()) names.push_back(known.first);
  command
      .add_option("--preprocess", name,
                  "how a photograph becomes the input: imagenet as in torchvision, symmetric from -1 to 1, caffe, yolo "
                  "(Ultralytics' detectors), yolox; the options that follow say other parts of it")
      ->check(one_of(std::move(names)));
  add_size_to(command, size, about_size);
  command
      .add_option("--resize", resize, "pixels of the side before the middle of --size is cut out, where they are more")
      ->check(whole_number(1, 1 << 20))
      ->default_str("");
  command
      .add_option("--fit", fit,
                  "of a photograph that is not square: crop its middle, stretch it, or letterbox it, whole with --fill "
                  "beside it")
      ->check(one_of({fit_names.begin(), fit_names.end()}));
  add("--fill", fill, "LEVEL", "what lies beside a letterboxed photograph, from 0 to 255, one or R,G,B",
      [](std::string_view text) { (void)levels(text); });
  add("--scale", scale, "FACTOR", "what the levels 0 to 255 are multiplied by: 1/255, 1",
      [](std::string_view text) { (void)divisor_of(text); });
  add("--mean", mean, "MEAN", "what is then taken off, one or R,G,B",
      [](std::string_view text) { (void)colours(text); });
  add("--std", std, "STD", "what is then divided by, one or R,G,B", [](std::string_view text) {
    if (std::ranges::count(colours(text), 0.0f) > 0)
      throw Error(fmt::format("expected numbers other than 0, got \"{}\"", text));
  });
  command.add_flag("--bgr", bgr, "the model's first channel is blue");
}

bool PreprocessOptions::given() const {
  return bgr || size > 0 || resize > 0 || !(name + fit + scale + mean + std + fill).empty();
}

Preprocess PreprocessOptions::levels_over(Preprocess base) const {
  if (!name.empty()) {
    const Preprocess preset = named_preprocess(name);
    base.divisor = preset.divisor, base.mean = preset.mean, base.std = preset.std, base.order = preset.order;
  }
  const Rgb said_mean = mean.empty() ? Rgb{} : colours(mean), said_std = std.empty() ? Rgb{} : colours(std);
  if (!scale.empty()) base.divisor = divisor_of(scale);
  if (scale.empty() && detail::are_of_levels(said_mean, said_std)) {
    // What is not said of these, the same in levels from 0 to 255.
    const float levels = std::exchange(base.divisor, 1.0f);
    for (float& value : base.mean) value *= levels;
    if (base.std != Rgb{1, 1, 1})
      std::ranges::transform(base.std, base.std.begin(), [&](float v) { return v * levels; });
  }
  // What is far beyond every photograph, or divides its levels by shares of one, was said of other numbers.
  const float most = 255 / std::abs(base.divisor);
  for (const auto& [option, text, values] : {std::tuple("--mean", mean, said_mean), {"--std", std, said_std}}) {
    const bool divides = option == std::string_view("--std") && most > 3;
    const auto beyond = [&](float v) { return std::abs(v) > 1.01f * most || (divides && std::abs(v) < 1); };
    if (!scale.empty() && !text.empty() && std::ranges::any_of(values, beyond)) {
      throw Error(fmt::format(
          "{}: with --scale {} photographs are numbers up to {:.3g}, got {}; without --scale, it is 1 where "
          "--mean or --std are of the levels 0 to 255, and else 1/255",
          option, scale, most, text));
    }
  }
  if (!mean.empty()) base.mean = said_mean;
  if (!std.empty()) base.std = said_std;
  if (bgr) base.order = ChannelOrder::bgr;
  return base;
}

Preprocess PreprocessOptions::of(const Model& model, const InputShapes& shapes, const std::string& source) const {
  const bool in_parts = !(fit + scale + mean + std).empty();
  auto [height, width] = sides_of(model.graph, shapes, size, source);  // throws where its input is no photograph
  if (name.empty() && !model.preprocess && !in_parts) {
    require_purpose(model, source, "segment", ", --preprocess yolo says here how a photograph becomes its input");
    const bool whole = model.graph.inputs().size() == 1 && !is_float(input_node(model.graph).dtype);
    throw Error(source + ": the model does not say how a photograph becomes its input (no lamina.preprocess): " +
                (whole ? "--scale 1 gives it the levels from 0 to 255, as its whole numbers ask for"
                       : "--preprocess imagenet is what most models want, --size, --fit, --scale, --mean and --std say "
                         "it in parts") +
                "; lamina convert and export_torch.py put it into a model file");
  }
  Preprocess result =
      name.empty() ? model.preprocess.value_or(Preprocess{.resize = 0, .crop = 0}) : named_preprocess(name);
  const Graph::Node& input = input_node(model.graph);
  if (!given() && shapes.empty() && height > 0 && (result.crop != height || result.width() != width)) {
    throw Error(fmt::format("{}: expected a model with one input [N, 3, {}, {}] for its photographs, {} is {}", source,
                            result.crop, result.width(), input.name, input.shape->to_string()));
  }
  if (size > 0) height = width = size;
  if (height == 0) height = result.crop, width = result.width();
  if (height == 0) throw Error(source + ": the model leaves the size of its input open: --size says it");
  const auto wanted = static_cast<Aspect>(std::ranges::find(fit_names, fit) - fit_names.begin());
  const bool refitted = !fit.empty() && wanted != result.aspect;
  if (!fit.empty()) result.aspect = wanted;
  if (result.crop == 0 || refitted) result.resize = result.crop = height;  // all of it
  result = resized_to(result, height, width);
  if (resize > 0) result.resize = resize;
  if (!fill.empty()) result.fill = levels(fill);
  if (refitted) {
    result.rounding = wanted == Aspect::letterbox ? Rounding::nearest : Rounding::down;
    result.placement = Placement::centre;
  }
  result = levels_over(result);
  naming(given() ? "--preprocess" : source, [&] { require_levels(model.graph, result); });
  return result;
}

}  // namespace lamina::app
