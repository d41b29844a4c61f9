#include "lamina/onnx/call.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lamina/base/error.h"

namespace lamina::detail::onnx {
namespace {

/// An attribute of whole numbers that later became input `place`. An empty one is as good as none.
void to_input(Call& call, std::string_view attribute, std::size_t place) {
  if (call.find(attribute) == nullptr) return;
  const std::vector<std::int64_t> values = call.take_integers(attribute);
  if (!values.empty()) call.set_input(place, call.integers(attribute, values));
}

/// Before `version`, the axes were an attribute.
template <std::int64_t version>
void axes(Call& call) {
  if (call.version < version) to_input(call, "axes", 1);
}

void batch_normalization(Call& call) {
  if (call.take_integer("training_mode", 0) != 0) call.set("training_mode", std::int64_t{1});
  if (call.take_integer("spatial", 1) == 0) fail("spatial=0: there is one scale for each channel only");
  call.erase("momentum");
  for (std::size_t i = 1; i < call.outputs; ++i) {
    if (call.wants(i)) fail("its output ", i, " is for training only");
  }
}

void clip(Call& call) {
  if (call.version >= 11) return;
  // One that is not there is the last finite number, which infinity is clipped to.
  constexpr double last = std::numeric_limits<float>::max();
  const bool any = call.find("min") != nullptr || call.find("max") != nullptr;
  if (!any) return;
  call.set_input(1, call.number("min", call.take_number("min", -last)));
  call.set_input(2, call.number("max", call.take_number("max", last)));
}

/// Expand of one number: the same, and no attribute that is a tensor.
void constant_of_shape(Call& call) {
  Tensor value = Tensor::zeros(Shape{});
  if (call.tensor != nullptr) value = call.builder.read(*call.tensor);
  if (value.numel() != 1) fail("value: expected one number, got ", value.shape());
  if (call.inputs.size() != 1) fail("expected 1 input, got ", call.inputs.size());
  call.strange.clear();
  call.op = "Expand";
  call.inputs = {call.builder.constant(concat(call.name, "/value"), value.view(Shape{})), call.inputs[0]};
}

void dft(Call& call) {
  if (call.version < 20) call.set_input(2, call.integers("axis", {call.take_integer("axis", 1)}));
}

void dropout(Call& call) {
  call.erase("ratio");
  call.erase("seed");
  if (call.version < 10 && call.wants(1)) fail("its mask has no defined value before opset 10");
  // Where nothing is dropped, how much would have been does not matter.
  if (!call.has(2)) call.inputs.resize(std::min<std::size_t>(call.inputs.size(), 1));
}

void grid_sample(Call& call) {
  if (call.version >= 20) return;
  const std::string mode = call.take_text("mode", "bilinear");
  call.set("mode", mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode);
}

/// Before opset 21 there was one scale and one bias for each group, now there is one for each channel: each is
/// repeated.
void group_normalization(Call& call) {
  if (call.version >= 21) return;
  const Attribute* attribute = call.find("num_groups");
  const auto* groups = attribute == nullptr ? nullptr : std::get_if<std::int64_t>(attribute);
  if (groups == nullptr || *groups < 1) fail("num_groups: expected a number of 1 or more");
  if (call.inputs.size() != 3) fail("expected 3 inputs, got ", call.inputs.size());
  const auto add = [&](std::string_view what, std::string op, Attributes attributes, std::vector<int> inputs) {
    return call.builder.op(concat(call.name, '/', what), std::move(op), std::move(attributes), std::move(inputs));
  };
  const int channels =
      add("channels", "Shape", {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}}, {call.inputs[0]});
  const int count = call.integers("groups", {*groups});
  const int each = add("channels_per_group", "Div", {}, {channels, count});
  const int shape = add("groups_and_channels", "Concat", {{"axis", std::int64_t{0}}}, {count, each});
  const int column = call.integers("column", {-1, 1}), flat = call.integers("flat", {-1});
  for (const std::size_t i : {1u, 2u}) {
    const std::string what = i == 1 ? "scale" : "bias";
    const int standing = add(what + "_of_groups", "Reshape", {}, {call.inputs[i], column});
    const int wide = add(what + "_repeated", "Expand", {}, {standing, shape});
    call.inputs[i] = add(what + "_of_channels", "Reshape", {}, {wide, flat});
  }
}

void pad(Call& call) {
  if (call.version >= 11) return;
  const double value = call.take_number("value", 0);
  call.set_input(1, call.integers("pads", call.take_integers("pads")));
  const auto* mode = call.find("mode");
  const bool constant = mode == nullptr || *mode == Attribute(std::string("constant"));
  if (constant && value != 0) call.set_input(2, call.number("constant_value", value));
}

/// What resized before opset 11 did so from the corner, and took the nearest element below. Downwards it is the nearest
/// above: that is what the examples of opset 10, and ONNX Runtime, have.
void resize_from_corner(Call& call, int scales) {
  const std::string mode = call.take_text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear") fail("expected mode nearest or linear, got ", mode);
  call.op = "Resize";
  call.set("mode", mode == "nearest" ? "nearest" : "linear");
  call.set("coordinate_transformation_mode", "asymmetric");
  if (mode == "nearest") {
    bool up = false, down = false;
    const Tensor known = call.builder.value_of(scales);
    if (known.defined() && known.dtype() == DType::f32) {
      for (const float scale : known.values<float>()) (scale < 1 ? down : up) |= scale != 1;
    }
    if (up && down) fail("the nearest element, upwards along one axis and downwards along another, before opset 11");
    call.set("nearest_mode", down ? "ceil" : "floor");
  }
  call.inputs.resize(1);
  call.set_input(2, scales);
}

void resize(Call& call) {
  if (call.version < 11) {
    if (call.inputs.size() != 2) fail("expected 2 inputs, got ", call.inputs.size());
    return resize_from_corner(call, call.inputs[1]);
  }
  // Opset 11 knew no inputs that are left out: empty ones stand for them.
  for (std::size_t i = 1; i < call.inputs.size(); ++i) {
    if (!call.has(i)) continue;
    const Tensor value = call.builder.value_of(call.inputs[i]);
    if (value.defined() && value.numel() == 0) call.inputs[i] = -1;
  }
}

void upsample(Call& call) {
  if (call.version < 9) {
    const std::vector<double> numbers = call.take_numbers("scales");
    const std::vector<float> scales(numbers.begin(), numbers.end());
    const Shape shape{static_cast<std::int64_t>(scales.size())};
    call.set_input(1, call.builder.constant(concat(call.name, "/scales"), Tensor::from(scales, shape)));
  }
  if (call.inputs.size() != 2) fail("expected 2 inputs, got ", call.inputs.size());
  resize_from_corner(call, call.inputs[1]);
}

void roi_align(Call& call) {
  if (call.version < 16) call.set("coordinate_transformation_mode", std::string("output_half_pixel"));
}

void scatter(Call& call) { call.op = "ScatterElements"; }

void slice(Call& call) {
  if (call.version >= 10) return;
  call.set_input(1, call.integers("starts", call.take_integers("starts")));
  call.set_input(2, call.integers("ends", call.take_integers("ends")));
  to_input(call, "axes", 3);
}

void softmax(Call& call) {
  if (call.version >= 13) return;
  if (call.find("axis") == nullptr) call.set("axis", std::int64_t{1});
  call.set("flatten", std::int64_t{1});
}

void split(Call& call) {
  if (call.version < 13) to_input(call, "split", 1);
  if (!call.has(1)) call.set("num_outputs", static_cast<std::int64_t>(call.outputs));
}

void top_k(Call& call) {
  if (call.version < 10) call.set_input(1, call.integers("k", {call.take_integer("k", 0)}));
}

struct Rule {
  std::string_view op;
  void (*apply)(Call&);
};

// Sorted. What is not here has had one meaning since opset 7, or meanings that differ by types and defaults that agree.
constexpr Rule rules[] = {
    {"BatchNormalization", batch_normalization},
    {"Clip", clip},
    {"ConstantOfShape", constant_of_shape},
    {"DFT", dft},
    {"Dropout", dropout},
    {"GridSample", grid_sample},
    {"GroupNormalization", group_normalization},
    {"Hardmax", softmax},
    {"LogSoftmax", softmax},
    {"Pad", pad},
    {"ReduceL1", axes<18>},
    {"ReduceL2", axes<18>},
    {"ReduceLogSum", axes<18>},
    {"ReduceLogSumExp", axes<18>},
    {"ReduceMax", axes<18>},
    {"ReduceMean", axes<18>},
    {"ReduceMin", axes<18>},
    {"ReduceProd", axes<18>},
    {"ReduceSum", axes<13>},
    {"ReduceSumSquare", axes<18>},
    {"Resize", resize},
    {"RoiAlign", roi_align},
    {"Scatter", scatter},
    {"Slice", slice},
    {"Softmax", softmax},
    {"Split", split},
    {"Squeeze", axes<13>},
    {"TopK", top_k},
    {"Unsqueeze", axes<13>},
    {"Upsample", upsample},
};
static_assert(std::ranges::is_sorted(rules, {}, &Rule::op));

}  // namespace

void modernise(Call& call) {
  const Rule* rule = std::ranges::lower_bound(rules, call.op, {}, &Rule::op);
  if (rule != std::end(rules) && rule->op == call.op) rule->apply(call);
}

}  // namespace lamina::detail::onnx
