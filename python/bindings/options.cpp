#include "options.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/tensor/parse_format.h"
#include "lent.h"

namespace lamina::python {
namespace {

using detail::fail;

template <class Map, class Convert>
void read_map(nb::handle value, const char* field, Map& map, const Convert& convert) {
  if (!nb::isinstance<nb::dict>(value)) {
    throw nb::type_error(detail::concat(field, ": expected a dict by the inputs' names").c_str());
  }
  for (const auto& [key, entry] : nb::borrow<nb::dict>(value))
    map[as<std::string>(key, field, "names")] = convert(entry);
}

/// What PyTorch and NumPy call otherwise is answered with our name.
Precision precision_from(const std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> others[] = {
      {"half", "fp16"},    {"float16", "fp16"}, {"f16", "fp16"},     {"float", "fp32"},
      {"float32", "fp32"}, {"f32", "fp32"},     {"bfloat16", "bf16"}};
  for (const auto& [other, own] : others)
    if (text == other) detail::fail("precision: ", detail::quote(text), " is called \"", own, "\" here");
  return parse_precision(text);
}

struct Field {
  const char* name;
  void (*set)(CompileOptions& options, nb::handle value);
};

constexpr Field option_fields[] = {
    {"device", [](auto& o, nb::handle v) { o.device = parse_device(as<std::string>(v, "device", "a text")); }},
    {"batch", [](auto& o, nb::handle v) { o.batch = as<std::int64_t>(v, "batch", "an integer"); }},
    {"precision",
     [](auto& o, nb::handle v) { o.precision = precision_from(as<std::string>(v, "precision", "a text")); }},
    {"linear_weights",
     [](auto& o, nb::handle v) {
       const auto text = as<std::string>(v, "linear_weights", "a text");
       const auto type = find_dtype(text);
       if (!type) fail("linear_weights: expected f32, bf16 or f16, got \"", text, '"');
       o.linear_weights = *type;
     }},
    {"threads", [](auto& o, nb::handle v) { o.threads = as<int>(v, "threads", "an integer"); }},
    {"algorithm", [](auto& o, nb::handle v) { o.algorithm = as<std::string>(v, "algorithm", "a text"); }},
    {"fuse", [](auto& o, nb::handle v) { o.fuse = as<bool>(v, "fuse", "a bool"); }},
    {"keep_all", [](auto& o, nb::handle v) { o.keep_all = as<bool>(v, "keep_all", "a bool"); }},
    {"workspace_limit",
     [](auto& o, nb::handle v) { o.workspace_limit = as<std::size_t>(v, "workspace_limit", "a number of bytes"); }},
    {"input_format",
     [](auto& o, nb::handle v) { o.input_format = parse_format(as<std::string>(v, "input_format", "a text")); }},
    {"output_format",
     [](auto& o, nb::handle v) { o.output_format = parse_format(as<std::string>(v, "output_format", "a text")); }},
    {"batch_invariant", [](auto& o, nb::handle v) { o.batch_invariant = as<bool>(v, "batch_invariant", "a bool"); }},
    {"capture", [](auto& o, nb::handle v) { o.capture = as<bool>(v, "capture", "a bool"); }},
    {"description",
     [](auto& o, nb::handle v) {
       if (!nb::isinstance<DeviceDescription>(v)) throw nb::type_error("description: expected a DeviceDescription");
       o.description = nb::cast<DeviceDescription>(v);
     }},
    {"input_shapes", [](auto& o, nb::handle v) { read_map(v, "input_shapes", o.input_shapes, shape_from); }},
    {"capacity",
     [](auto& o, nb::handle v) {
       read_map(v, "capacity", o.capacity,
                [](nb::handle most) { return as<std::int64_t>(most, "capacity", "integers"); });
     }},
    {"outputs",
     [](auto& o, nb::handle v) { o.outputs = as<std::vector<std::string>>(v, "outputs", "a list of names"); }},
    {"constants",
     [](auto& o, nb::handle v) {
       read_map(v, "constants", o.constants,
                [](nb::handle array) { return Lent(array, "constants", Lent::Access::read).tensor().clone(); });
     }},
};

std::optional<Preprocess> photos_from(nb::handle value, const Preprocess* preprocess) {
  if (nb::isinstance<Preprocess>(value)) return nb::cast<Preprocess>(value);
  if (value.is_none()) return std::nullopt;
  if (!as<bool>(value, "photos", "True, False or a lamina.Preprocess")) return std::nullopt;
  if (preprocess == nullptr)
    fail("photos: the model does not say how a photograph becomes its input; give a Preprocess");
  return *preprocess;
}

}  // namespace

std::string in_pythons_words(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"CompileOptions::precision fp32", "precision=\"fp32\""},
      {"CompileOptions::", ""},
      {"OpenOptions::", ""},
      {"set Model::preprocess, to torchvision_imagenet() for",
       "set model.preprocess, to lamina.torchvision_imagenet() for"},
      {"which a ready-made network or a graph of yours loads", "which lamina.arch or a graph's load() takes"},
      {"lamina::class_scores", "Model.classify"}};
  return detail::in_words(std::move(text), words);
}

Shape shape_from(nb::handle extents) {
  std::vector<std::int64_t> values;
  for (const nb::handle extent : extents) {
    if (nb::isinstance<nb::str>(extent)) {
      const auto text = nb::cast<std::string>(extent);
      if (text != "N" && text != "?" && text != "...")
        fail("shape: expected numbers, \"N\" or \"?\", got \"", text, '"');
      values.push_back(text == "N" ? batch : text == "?" ? open : any_rank);
    } else {
      values.push_back(as<std::int64_t>(extent, "shape", "integers, \"N\" or \"?\""));
      if (values.back() < 0) fail("shape: expected extents of 0 and more, got ", values.back());
    }
  }
  const Shape shape = Shape(std::span<const std::int64_t>(values));
  std::erase_if(values, [](std::int64_t extent) { return extent < 0; });
  (void)Shape(std::span<const std::int64_t>(values)).numel();  // throws where 64 bits do not count them
  return shape;
}

namespace {

/// Whether `device` names the device that is described, which need not be there.
bool names_described(const nb::kwargs& given) {
  if (!given.contains("description") || !nb::isinstance<DeviceDescription>(given["description"])) return false;
  if (!given.contains("device")) return true;
  const Device device = nb::cast<DeviceDescription>(given["description"]).device;
  const auto name = as<std::string>(given["device"], "device", "a text");
  return name == to_string(device) || (name == "cuda" && device == Device::cuda(0));
}

}  // namespace

CompileOptions options_from(const nb::kwargs& given, const Preprocess* preprocess) {
  CompileOptions options;
  const bool described = names_described(given);
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name == "device" && described) continue;
    if (name == "photos") {
      options.photos = photos_from(value, preprocess);
      continue;
    }
    const auto* field = std::ranges::find_if(option_fields, [&](const Field& f) { return f.name == name; });
    if (field == std::end(option_fields)) {
      std::vector<std::string> known = {"photos"};
      for (const Field& f : option_fields) known.emplace_back(f.name);
      const std::string text =
          detail::concat("compile: there is no option \"", name, '"', detail::nearest_text(name, known));
      throw nb::type_error(text.c_str());
    }
    field->set(options, value);
  }
  if (described) {
    options.device = options.description->device;
  } else if (!given.contains("device")) {
    options.device = best_device();
  }
  return options;
}

}  // namespace lamina::python
