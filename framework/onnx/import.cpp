#include "lamina/onnx/import.h"

#include <map>
#include <set>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/onnx/call.h"
#include "lamina/onnx/flatten.h"
#include "lamina/onnx/refusals.h"
#include "lamina/ops/element_type.h"

namespace lamina::detail::onnx {
namespace {

// Values of a file as a layer's; lists of texts are one: no op of ONNX has commas in its own.
Attribute attribute_of(float number) { return static_cast<double>(number); }
Attribute attribute_of(std::int64_t number) { return number; }
Attribute attribute_of(const std::string& text) { return text; }
Attribute attribute_of(const std::vector<float>& list) { return std::vector<double>(list.begin(), list.end()); }
Attribute attribute_of(const std::vector<std::int64_t>& list) { return list; }
Attribute attribute_of(const std::vector<std::string>& texts) {
  std::string result;
  for (const std::string& text : texts) result += (&text == texts.data() ? "" : ",") + text;
  return result;
}

class Importer final : public Builder {
 public:
  Importer(const ModelProto& model, bool (*knows)(std::string_view))
      : model_(model), path_(model.file->path()), knows_(knows), tensors_(model.file) {}

  Imported run();

  int constant(std::string name, Tensor value) override;
  int op(std::string name, std::string op, Attributes attributes, std::vector<int> inputs) override;
  Tensor value_of(int node) override {
    ImportedNode& found = result_.nodes[static_cast<std::size_t>(node)];
    found.optional = false;  // what the graph is depends on it
    return found.value;
  }
  Tensor read(const TensorProto& tensor) override { return tensors_.read(tensor); }

 private:
  void add_inputs();
  void add_node(const FlatNode& node);
  Call call_of(const FlatNode& node);
  int node_of(int value);
  int append(ImportedNode node);
  std::string unique_name(std::string name);

  const ModelProto& model_;
  const std::string& path_;
  bool (*knows_)(std::string_view);
  Tensors tensors_;
  FlatGraph flat_;
  std::vector<int> nodes_;                     // of flat_.values; -1: not yet
  std::vector<bool> wanted_;                   // of flat_.values
  std::map<const TensorProto*, Tensor> read_;  // bodies of functions share their tensors
  std::set<std::string, std::less<>> taken_;   // names
  Refusals refusals_;
  Imported result_;
};

std::string Importer::unique_name(std::string name) {
  std::string result = name;
  for (int i = 2; !taken_.insert(result).second; ++i) result = concat(name, '_', i);
  return result;
}

int Importer::append(ImportedNode node) {
  result_.nodes.push_back(std::move(node));
  return static_cast<int>(result_.nodes.size()) - 1;
}

int Importer::constant(std::string name, Tensor value) {
  return append(
      {.kind = ImportedNode::Kind::constant, .name = unique_name(std::move(name)), .value = std::move(value)});
}

int Importer::op(std::string name, std::string op, Attributes attributes, std::vector<int> inputs) {
  while (!inputs.empty() && inputs.back() < 0) inputs.pop_back();
  return append({.kind = ImportedNode::Kind::op,
                 .name = unique_name(std::move(name)),
                 .op = std::move(op),
                 .attributes = std::move(attributes),
                 .inputs = std::move(inputs)});
}

/// The node that holds a value; constants come into being when they are first asked for.
int Importer::node_of(int value) {
  if (value < 0) return -1;
  int& node = nodes_[static_cast<std::size_t>(value)];
  if (node >= 0) return node;
  const FlatValue& flat = flat_.values[static_cast<std::size_t>(value)];
  if (!flat.is_constant()) fail(path_, ": ", quote(flat.name), " is made by no node");
  Tensor tensor = flat.tensor;
  if (flat.stored != nullptr) {
    Tensor& known = read_[flat.stored];
    if (!known.defined()) known = tensors_.read(*flat.stored);
    tensor = known;
  }
  node = append({.kind = ImportedNode::Kind::constant, .name = flat.name, .value = std::move(tensor)});
  if (flat.input == nullptr) return node;
  ImportedNode& constant = result_.nodes[static_cast<std::size_t>(node)];
  constant.optional = true;
  for (const std::int64_t extent : constant.value.shape()) {
    const std::size_t i = constant.shape.size();
    const bool fixed = i >= flat.input->dims.size() || flat.input->dims[i].known;
    constant.shape.push_back(fixed ? extent : open_extent);
  }
  return node;
}

void Importer::add_inputs() {
  std::map<std::string_view, const ValueInfoProto*> declared;
  for (const ValueInfoProto& input : model_.graph.inputs) declared.emplace(input.name, &input);
  std::string_view batch;  // what the model calls it
  for (const int value : flat_.inputs) {
    const FlatValue& flat = flat_.values[static_cast<std::size_t>(value)];
    const ValueInfoProto& input = *declared.at(flat.name);
    const auto refuse = [&](const auto&... parts) {
      fail(ErrorKind::unsupported, path_, ": input ", quote(flat.name), ": ", parts...);
    };
    if (input.kind != "tensor") refuse("expected a tensor, got ", input.kind.empty() ? "no type" : input.kind);
    const ElementType* type = find_element_type(input.data_type);
    if (type == nullptr || !type->dtype) refuse("Lamina has no element type ", element_type_name(input.data_type));
    if (input.dims.size() > Shape::max_rank)
      refuse("expected at most ", Shape::max_rank, " dimensions, got ", input.dims.size());
    std::vector<std::int64_t> shape;
    if (!input.has_shape) shape.push_back(any_extents);
    for (const ValueInfoProto::Dimension& dim : input.dims) {
      const bool known = dim.known && dim.value > 0;  // some exporters write 0 or -1 for what they do not know
      const bool first = shape.empty() && (batch.empty() || dim.param.empty());
      if (!known && first && batch.empty()) batch = dim.param;
      const bool is_batch = !known && (first || (!batch.empty() && dim.param == batch));
      shape.push_back(known ? dim.value : is_batch ? batch_extent : open_extent);
    }
    nodes_[static_cast<std::size_t>(value)] = append(
        {.kind = ImportedNode::Kind::input, .name = flat.name, .shape = std::move(shape), .dtype = *type->dtype});
    result_.inputs.push_back(nodes_[static_cast<std::size_t>(value)]);
  }
}

Call Importer::call_of(const FlatNode& node) {
  Call call{.op = std::string(node.op), .outputs = node.outputs.size(), .version = node.version, .builder = *this};
  for (const int input : node.inputs) call.inputs.push_back(node_of(input));
  for (const int output : node.outputs) {
    call.wanted.push_back(output >= 0 && wanted_[static_cast<std::size_t>(output)]);
    if (call.name.empty() && call.wanted.back()) call.name = flat_.values[static_cast<std::size_t>(output)].name;
  }
  for (const auto& [name, attribute] : node.arguments) {
    const auto add = [&call, key = std::string(name)](const auto& value) {
      if constexpr (requires { attribute_of(value); }) {
        call.attributes.emplace_back(key, attribute_of(value));
      } else {
        call.strange = key;
      }
    };
    std::visit(add, attribute->value);
    const auto* tensor = std::get_if<std::shared_ptr<const TensorProto>>(&attribute->value);
    if (tensor != nullptr && name == "value") call.tensor = tensor->get();
  }
  return call;
}

void Importer::add_node(const FlatNode& node) {
  Call call = call_of(node);
  if (const std::string_view kind = foreign_kind(node); !kind.empty()) {
    refusals_.add(node, kind);
  } else {
    const bool microsoft = is_microsoft(node.domain, node.op);
    if (!microsoft && (node.version < oldest_opset || node.version > newest_opset))
      fail(ErrorKind::unsupported, path_, ": ", node.name, ": expected opset ", oldest_opset, " to ", newest_opset,
           ", got ", node.version);
    try {
      microsoft ? from_microsoft(call) : modernise(call);
      if (!knows_(call.op)) {
        refusals_.add(node, "");
      } else if (!call.strange.empty()) {
        fail("attribute ", quote(call.strange), " is of a type that no such op has");
      }
    } catch (const Error& error) {
      refusals_.add(node, error.what());
    }
  }
  // Refused ones too, so that all that follow can be looked at.
  while (!call.inputs.empty() && call.inputs.back() < 0) call.inputs.pop_back();
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (!call.wanted[i]) continue;
    const auto value = static_cast<std::size_t>(node.outputs[i]);
    Attributes attributes = call.attributes;
    if (i > 0) attributes.emplace_back("output", static_cast<std::int64_t>(i));
    nodes_[value] = append({.kind = ImportedNode::Kind::op,
                            .name = flat_.values[value].name,
                            .op = call.op,
                            .attributes = std::move(attributes),
                            .inputs = call.inputs});
  }
}

Imported Importer::run() {
  flat_ = flatten(model_, tensors_);
  nodes_.assign(flat_.values.size(), -1);
  wanted_.assign(flat_.values.size(), false);
  const auto want = [&](int value) {
    if (value >= 0) wanted_[static_cast<std::size_t>(value)] = true;
  };
  for (const int node : flat_.order) {
    for (const int input : flat_.nodes[static_cast<std::size_t>(node)].inputs) want(input);
  }
  for (const int output : flat_.outputs) want(output);
  for (const FlatValue& value : flat_.values) taken_.insert(value.name);

  add_inputs();
  for (const int node : flat_.order) add_node(flat_.nodes[static_cast<std::size_t>(node)]);
  for (const int output : flat_.outputs) result_.outputs.push_back(node_of(output));
  refusals_.finish(path_);

  result_.name = model_.graph.name;
  result_.producer = model_.producer_name;
  if (!model_.producer_version.empty()) result_.producer += ' ' + model_.producer_version;
  for (const OperatorSetIdProto& opset : model_.opsets) {
    if (opset.domain.empty() || opset.domain == "ai.onnx") result_.opset = opset.version;
  }
  result_.metadata = model_.metadata;
  return std::move(result_);
}

}  // namespace

Imported import_model(std::shared_ptr<const MappedFile> file, bool (*knows)(std::string_view op)) {
  const ModelProto model = decode(std::move(file));
  return Importer(model, knows).run();
}

}  // namespace lamina::detail::onnx
