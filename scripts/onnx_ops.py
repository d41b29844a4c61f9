"""Which ops an ONNX file has, and what their nodes look like."""

from collections import Counter, defaultdict

import onnx

LONG = 8  # values of an attribute that are shown


def describe(path):
    """{op: {"count": nodes, "variants": {attributes and operands: nodes}}, "batched_matmul": bool}"""
    model = onnx.load(str(path), load_external_data=False)
    graph = model.graph
    shapes = {v.name: v.type.tensor_type for v in [*graph.input, *graph.output, *graph.value_info]}
    constants = {t.name: t for t in graph.initializer}
    constants |= {n.output[0]: a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute if a.name == "value"}
    found = defaultdict(lambda: {"count": 0, "variants": Counter()})
    found["batched_matmul"] = False
    for node in graph.node:
        name = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        entry = found[name]
        entry["count"] += 1
        attributes = [f"{a.name}={text(a)}" for a in sorted(node.attribute, key=lambda a: a.name)]
        operands = [operand(n, shapes, constants) for n in node.input]
        if node.op_type in ("Conv", "MaxPool", "AveragePool", "ConvTranspose"):  # sizes do not matter, kinds do
            attributes = [kind(a) for a in sorted(node.attribute, key=lambda a: a.name) if kind(a)]
        entry["variants"][", ".join([*operands, *attributes])] += 1
        if node.op_type in ("MatMul", "Attention", "Einsum") and not any(n in constants for n in node.input):
            found["batched_matmul"] = True
    return dict(found)


def operand(name, shapes, constants):
    """Type and rank of an operand: "f32[4]"; "const f32[1]"; "-" where it is absent."""
    if not name:
        return "-"
    if name in constants:
        tensor = constants[name]
        return f"const {type_name(tensor.data_type)}[{len(tensor.dims)}]"
    if name not in shapes:
        return "?"
    return f"{type_name(shapes[name].elem_type)}[{len(shapes[name].shape.dim)}]"


def type_name(number):
    return onnx.TensorProto.DataType.Name(number).lower().replace("float16", "f16").replace("float", "f32")


def text(attribute):
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, onnx.TensorProto):
        return f"{type_name(value.data_type)}{list(value.dims)}"
    if isinstance(value, onnx.GraphProto):
        return "graph"
    if isinstance(value, (list, tuple)) and len(value) > LONG:
        return f"{len(value)} values"
    return str(list(value) if not isinstance(value, (int, str)) else value)


def kind(attribute):
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name == "pads":
        half = len(value) // 2
        return "" if value[:half] == value[half:] else "pads asymmetric"
    if attribute.name == "dilations":
        return "dilated" if any(v != 1 for v in value) else ""
    if attribute.name in ("kernel_shape", "strides"):
        return ""
    if attribute.name == "group":
        return "grouped" if value != 1 else ""
    return f"{attribute.name}={text(attribute)}"
