#!/usr/bin/env python3
"""Writes a PyTorch module as a Lamina model file: graph, weights, preprocessing and class names in one .safetensors.

    python3 scripts/export_torch.py torchvision.models:resnet18 resnet18.safetensors --input 3x224x224 \\
        --weights resnet18-f37072fd.pth --preprocess imagenet --labels weights/imagenet_classes.txt
    python3 scripts/export_torch.py my_network.py:Net net.safetensors --input 1x28x28 --golden net-golden.safetensors
    lamina verify --model net.safetensors --golden net-golden.safetensors

The module is traced by torch.export and run once on random numbers. What it computes must be ATen functions that have an
equivalent among Lamina's ops; whatever it has besides is named, all of it at once, and nothing is written. What does not
depend on the input (normalised or parametrised weights, position tables) is computed once, here. Nodes are called as the
modules that they are, so state dicts go on loading. Needs PyTorch 2.6 or newer, nothing else.
As a library: export(module, "net.safetensors", inputs=[(3, 224, 224)]).
"""

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.util
import inspect
import json
import math
import re
import struct
import sys
import warnings
from collections import Counter
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as error:
    if __name__ != "__main__":
        raise
    sys.exit(f"export_torch.py needs PyTorch: {error}; python3 -m pip install torch")

IMAGENET = {"resize": 256, "crop": 224, "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
BATCH = 2  # of the trial run: not 1, so that code which mixes up images with one another shows
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
ONNX_TYPES = {torch.float32: 1, torch.float64: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6,
              torch.int64: 7, torch.bool: 9}  # numbers of TensorProto.DataType; doubles are stored as floats


class ExportError(Exception):
    """The module cannot be a Lamina model; the message says what in it and where."""


class Unsupported(Exception):
    """One node has no equivalent: what it is, and maybe a detail. ExportError collects them."""


class OnBatch(Unsupported):
    """It would have one, if the batch were a number."""


# --- tracing -----------------------------------------------------------------------------------------------------------
# torch.export writes a module as calls of ATen's functions. Those with a converter below stay as they are, the others are
# taken apart by PyTorch until nothing is left that they are made of, and then named.

# Functions whose result depends on nothing but the shape of what they are given.
SHAPE_ONLY = {"new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like"}
CONVERTERS = {}  # name of an ATen function -> what writes it: (exporter, node, arguments by name, result) -> a name


def converts(*names):
    def enter(function):
        CONVERTERS.update(dict.fromkeys(names, function))
        return function
    return enter


@torch.library.custom_op("lamina_export::local_response_norm", mutates_args=())
def local_response_norm_op(x: torch.Tensor, size: int, alpha: float, beta: float, k: float) -> torch.Tensor:
    return local_response_norm_of_torch(x, size, alpha, beta, k).clone()


@local_response_norm_op.register_fake
def _(x, size, alpha, beta, k):
    return torch.empty_like(x)


local_response_norm_of_torch = F.local_response_norm


@contextlib.contextmanager
def whole_functions():
    """Functions of PyTorch that are Python code, as one node each."""
    F.local_response_norm = lambda input, size, alpha=1e-4, beta=0.75, k=1.0: local_response_norm_op(
        input, size, float(alpha), float(beta), float(k))
    try:
        yield
    finally:
        F.local_response_norm = local_response_norm_of_torch


def decompositions():
    table = torch.export.default_decompositions()
    for name in CONVERTERS:
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            table.pop(getattr(packet, overload), None)
    return table


def trace(module, arguments, batch):
    """torch.export's program; the first extent of every input is a symbol unless the batch is a number."""
    shapes = tuple({0: torch.export.Dim.AUTO} for _ in arguments) if batch is None else None
    with warnings.catch_warnings(), whole_functions():
        warnings.simplefilter("ignore")
        varargs = inspect.signature(module.forward).parameters.values()
        if shapes is not None and any(p.kind is p.VAR_POSITIONAL for p in varargs):
            shapes = (shapes,)
        program = torch.export.export(module, arguments, dynamic_shapes=shapes, strict=False)
        return program.run_decompositions(decompositions())


def symbolic(value):
    """Whether an extent is not the same for every batch."""
    return isinstance(value, torch.SymInt) and not value.node.expr.is_number


class Exporter(torch.fx.Interpreter):
    """Runs a module's ATen functions one by one, and writes down what each is in Lamina's terms."""

    def __init__(self, module, batch=None, keep=True):
        self.net = module
        self.batch, self.keep = batch, keep
        self.inputs, self.nodes, self.outputs = [], [], []
        self.tensors = {}    # parameters by name
        self.values = {}     # what PyTorch computes, by node name
        self.shape_of = {}   # the same values' shapes
        self.name_of = {}    # fx node -> the name of the Lamina node that computes it, or a list of names
        self.fixed = {}      # fx node -> its value, where that is the same whatever the input is
        self.key_of = {}     # fx node of a parameter or buffer -> its name in state dicts
        self.constants = {}  # what constant nodes there are already
        self.problems = {}   # what is unsupported -> where
        self.on_batch = False
        self.taken = set()

    def export(self, inputs, given=None):
        """The graph; `values` and `tensors` are what goes into files beside it. The trial run is on `given`, tensors with
        a batch in front, instead of random numbers."""
        self.check_count(len(inputs))
        dtype = next((p.dtype for p in self.net.parameters() if p.is_floating_point()), torch.float32)
        if dtype in (torch.float16, torch.bfloat16):  # the file is of float32, whatever it was trained in
            self.net, dtype = copy.deepcopy(self.net).float(), torch.float32
        batch = BATCH if self.batch is None else self.batch
        arguments = tuple(given or (torch.randn(batch, *shape, dtype=dtype) for shape in inputs))
        shapes = ", ".join(shape_text(["N", *shape]) for shape in inputs)
        try:
            with torch.no_grad():
                self.net(*arguments)
        except Exception as error:
            raise ExportError(f"PyTorch itself fails here: {short(error)} (input {shapes})") from error
        try:
            program = trace(self.net, arguments, self.batch)
        except Exception as error:
            raise ExportError(
                f"torch.export cannot trace {type(self.net).__name__}: {short(error)}\n"
                "(a forward() whose course depends on values, or that takes other things than tensors, has no fixed "
                f"graph{'' if self.batch else '; one that depends on the batch has one if --batch says it'})") from error
        self.read(program)
        try:
            with torch.no_grad():
                self.run(*self.parameters, *arguments)
        except ExportError as error:
            raise ExportError(f"{error} (input {shapes})") from error
        if self.problems:
            lines = [f"  {what}: {summary(where)}" for what, where in sorted(self.problems.items())]
            hint = "\n(it may have one for a batch that is a number: --batch)" if self.on_batch else ""
            raise ExportError("the model format has no equivalent of\n" + "\n".join(lines) + hint)
        return self.written()

    def written(self):
        """What is needed for the outputs."""
        needed, users = set(self.outputs), {node["name"]: node["inputs"] for node in self.nodes}
        waiting = list(self.outputs)
        while waiting:
            for name in users.get(waiting.pop(), []):
                if name and name not in needed:
                    needed.add(name)
                    waiting.append(name)
        nodes = [node for node in self.nodes if node["name"] in needed]
        for name in {node["name"] for node in self.nodes} - needed:
            self.values.pop(name, None)
        self.tensors = {key: tensor for key, tensor in self.tensors.items()
                        if key in needed or key.rpartition(".")[0] in needed}
        return {"version": 1, "inputs": self.inputs, "nodes": nodes, "outputs": self.outputs}

    def check_count(self, given):
        parameters = list(inspect.signature(self.net.forward).parameters.values())
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        least = sum(p.default is p.empty for p in positional)
        if not least <= given <= len(positional):
            wanted = str(least) if least == len(positional) else f"{least} to {len(positional)}"
            raise ExportError(f"forward() takes {wanted} tensors, got {given} input shapes")

    def read(self, program):
        """Which of the program's inputs are parameters, and who owns what."""
        super().__init__(program.graph_module)
        kinds = torch.export.graph_signature.InputKind
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        state, constants = program.state_dict, program.constants
        self.parameters, user = [], []
        for node, spec in zip(placeholders, program.graph_signature.input_specs):
            if spec.kind == kinds.USER_INPUT:
                user.append(node)
                continue
            value = state[spec.target] if spec.target in state else constants[spec.target]
            self.parameters.append(value)
            self.fixed[node] = value
            self.key_of[node] = spec.target
        self.user = [node for node in user if isinstance(node.meta.get("val"), torch.Tensor)]
        # A leaf module's last function is the one that is called as the module is.
        self.last = {}
        for node in program.graph.nodes:
            if node.op == "call_function" and self.leaf(node):
                self.last[self.leaf(node)] = node

    # --- names ---------------------------------------------------------------------------------------------------------

    def unique(self, name):
        candidate, count = name, 0
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"
        self.taken.add(candidate)
        return candidate

    @staticmethod
    def calls(node):
        """[(one call of a module, its path)], the innermost last."""
        return [(key, path) for key, (path, _) in node.meta.get("nn_module_stack", {}).items()]

    def scope(self, node):
        """The path of the module whose forward() holds the node: "layer1.0", or ""."""
        calls = self.calls(node)
        return calls[-1][1] if calls else ""

    def leaf(self, node):
        """The call of a module without children that the node belongs to."""
        calls = self.calls(node)
        if not calls or not calls[-1][1]:
            return None
        try:
            module = self.net.get_submodule(calls[-1][1])
        except AttributeError:
            return None
        return None if list(module.children()) else calls[-1][0]

    def place(self, node):
        """Where a node is, for people: its module, and the line of code that made it."""
        if self.leaf(node):
            return self.scope(node)
        lines = re.findall(r'File "(.+?)", line (\d+)', node.meta.get("stack_trace") or "")
        line = next((f" ({Path(file).name}:{number})" for file, number in reversed(lines) if "/torch/" not in file), "")
        return (self.scope(node) or "forward()") + line

    # --- nodes ---------------------------------------------------------------------------------------------------------

    def emit(self, op, sources, result=None, attrs=None, parameters=None, name=None, shape=None):
        """Adds a Lamina node, and returns its name. Of one that is only a step on the way `result` is unknown."""
        node = self.node
        if name is None and result is not None and self.last.get(self.leaf(node)) is node:
            name = self.scope(node)
        name = self.unique(name or ".".join(filter(None, [self.scope(node), op if op.islower() else snake(op)])))
        entry = {"name": name, "op": op, "inputs": sources}
        if attrs:
            entry["attrs"] = attrs
        self.nodes.append(entry)
        for key, tensor in (parameters or {}).items():
            if tensor is not None:
                self.tensors[f"{name}.{key}"] = tensor.detach()
        if isinstance(result, torch.Tensor):
            self.shape_of[name] = list(result.shape)
            if self.keep and result.dtype in FLOATS:  # what verify compares
                self.values[name] = result.detach().clone()
        return name

    def constant(self, value, name=None):
        """A node that is a tensor."""
        value = value.detach()
        if value.dtype == torch.float64 or value.dtype in (torch.float16, torch.bfloat16):
            value = value.float()
        if value.dtype not in ONNX_TYPES:
            raise Unsupported(f"a constant of type {value.dtype}")
        small = (str(value.dtype), tuple(value.shape), tuple(value.flatten().tolist())) if value.numel() <= 64 else None
        if name is None and small in self.constants:
            return self.constants[small]
        key = self.unique(name or ".".join(filter(None, [self.scope(self.node), "constant"])))
        self.nodes.append({"name": key, "op": "Constant", "inputs": []})
        self.tensors[key] = value
        if name is None and small is not None:
            self.constants[small] = key
        return key

    def integers(self, values):
        return self.constant(torch.tensor([int(v) for v in values], dtype=torch.int64))

    def source(self, argument, dtype=None):
        """The Lamina node that an argument of a node is; numbers and constants become nodes, of the type if it is given."""
        if isinstance(argument, torch.SymInt) or isinstance(argument, torch.fx.Node) and \
                isinstance(argument.meta.get("val"), torch.SymInt) and argument not in self.fixed:
            raise OnBatch("computing with the batch")
        if isinstance(argument, (bool, int, float)):
            return self.constant(torch.tensor(argument, dtype=dtype or (torch.float32 if isinstance(argument, float)
                                                                         else torch.int64)))
        if not isinstance(argument, torch.fx.Node):
            raise Unsupported(f"an operand {argument!r}")
        if argument in self.fixed:
            value = self.fixed[argument]
            if not isinstance(value, torch.Tensor):
                return self.source(value, dtype)
            if dtype is not None and value.dtype != dtype:
                return self.constant(value.to(dtype))
            if argument not in self.name_of:
                self.name_of[argument] = self.constant(value, self.key_of.get(argument))
            return self.name_of[argument]
        name = self.name_of.get(argument)
        if not isinstance(name, str):
            raise Unsupported("what no op computes")
        if dtype is not None and type_number(dtype) != type_number(self.value(argument).dtype):
            return self.emit("Cast", [name], attrs={"to": type_number(dtype)})
        return name

    def value(self, argument):
        """What an argument is in the trial run."""
        return self.env[argument] if isinstance(argument, torch.fx.Node) else argument

    def known(self, argument):
        """The value of an argument that has to be the same whatever the input is: a tensor, a number."""
        if not isinstance(argument, torch.fx.Node):
            return argument
        if argument not in self.fixed:
            raise Unsupported("parameters that depend on the input")
        return self.fixed[argument]

    def numbers(self, argument):
        """A list of numbers; extents that depend on the batch are refused."""
        for item in argument if isinstance(argument, (list, tuple)) else [argument]:
            if isinstance(item, torch.fx.Node) and item not in self.fixed:
                raise OnBatch("sizes that depend on the batch")
        return [self.known(item) for item in argument] if isinstance(argument, (list, tuple)) else self.known(argument)

    # --- the run -------------------------------------------------------------------------------------------------------

    def run_node(self, node):
        self.node = node
        try:
            result = super().run_node(node)
        except Exception as error:
            raise ExportError(f"{self.place(node)}: PyTorch itself fails here: {short(error)}") from error
        if node.op == "placeholder":
            if node in self.user:
                self.add_input(node, result)
        elif node.op == "output":
            self.add_outputs(node)
        elif node.op == "call_function":
            self.env[node] = result  # the converters look at shapes, also this node's
            self.convert(node, result)
        return result

    def add_input(self, node, result):
        name = self.unique("input" if len(self.user) == 1 else node.name)
        self.name_of[node] = name
        batch = "N" if self.batch is None and symbolic(node.meta["val"].shape[0]) else result.shape[0]
        if self.batch is None and batch != "N":
            raise ExportError("its course depends on the batch: --batch says for which it is to be exported")
        dtype = "f32" if result.dtype in FLOATS else str(result.dtype).replace("torch.int", "i")
        self.inputs.append({"name": name, "dtype": dtype, "shape": [batch, *result.shape[1:]]})
        self.shape_of[name] = list(result.shape)
        self.values[name] = result.detach().clone()

    def add_outputs(self, node):
        for argument in node.all_input_nodes:
            name = self.name_of.get(argument)
            if argument in self.fixed or not isinstance(name, str) or name in [i["name"] for i in self.inputs]:
                if not self.problems:
                    raise ExportError("the module returns something that no op computes")
                continue
            self.outputs.append(name)
            self.values.setdefault(name, self.env[argument].detach().clone())

    def convert(self, node, result):
        """Finds the Lamina node that computes what an fx node does, or adds it."""
        used = node.all_input_nodes
        extents = [v for v in leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
        fixed = all(argument in self.fixed for argument in used) or self.function(node) in SHAPE_ONLY
        if fixed and not any(symbolic(extent) for value in extents for extent in value.shape):
            self.fixed[node] = result
            return
        if not isinstance(result, (torch.Tensor, tuple, list)):
            if not any(symbolic(value) for value in [node.meta.get("val")]):
                self.fixed[node] = result  # an extent that does not depend on the batch, after all
            return  # anything else shows in the shapes of what is made with it
        if getattr(node.target, "__name__", "") == "getitem":
            names = self.name_of.get(node.args[0])
            if isinstance(names, list) and names[node.args[1]] is not None:
                self.name_of[node] = names[node.args[1]]
            elif callable(names):
                self.name_of[node] = names(node.args[1], result)
            return
        if any(self.name_of.get(argument) == "?" for argument in used):
            self.name_of[node] = "?"  # of no use without what it is made of
            return
        try:
            self.name_of[node] = self.convert_function(node, result)
        except Unsupported as problem:
            what, *detail = problem.args
            self.on_batch |= isinstance(problem, OnBatch)
            self.refuse(node, what, *detail)
        except Exception as error:  # a form of the function that its converter does not know
            self.refuse(node, f"this form of {self.function(node)} ({type(error).__name__}: {short(error)[:80]})")

    def refuse(self, node, what, *detail):
        self.problems.setdefault(what, []).append(self.place(node) + "".join(detail))
        self.name_of[node] = "?"  # so that the rest is looked at too; nothing will be written

    @staticmethod
    def function(node):
        """The name of what a node calls, without its overload."""
        schema = getattr(node.target, "_schema", None)
        return schema.name.partition("::")[2] if schema is not None else str(node.target)

    def convert_function(self, node, result):
        schema = getattr(node.target, "_schema", None)
        converter = CONVERTERS.get(self.function(node))
        if converter is None:
            raise Unsupported(schema.name.replace("::", ".") if schema is not None else self.function(node))
        arguments = {a.name: a.default_value for a in schema.arguments}
        arguments |= dict(zip((a.name for a in schema.arguments), node.args)) | node.kwargs
        return converter(self, node, Arguments(arguments), result)

    def dims(self, argument):
        """The extents of an argument, None where the batch decides."""
        value = argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument
        return [None if self.batch is None and symbolic(extent) else int(extent) for extent in value.shape]

    def extents(self, node, source):
        """The operand of Reshape that gives the node's shape."""
        shape = self.dims(node)
        if shape.count(None) > 1:  # those that are as they were need no number
            value, old = node.meta["val"].shape, source.meta["val"].shape
            shape = [0 if extent is None and i < len(old) and value[i].node.expr == getattr(
                getattr(old[i], "node", None), "expr", None) else extent for i, extent in enumerate(shape)]
        if shape.count(None) > 1:
            raise OnBatch("a change of shape with two extents that depend on the batch")
        return self.integers([-1 if extent is None else extent for extent in shape])

    def batch_vector(self, expression):
        """A node of one number: the extent that is an expression of the batch."""
        for placeholder in self.user:
            extent = placeholder.meta["val"].shape[0]
            if not symbolic(extent):
                continue
            ratio = expression / extent.node.expr
            if ratio.is_number and ratio.is_integer:
                found = self.emit("Shape", [self.name_of[placeholder]], attrs={"start": 0, "end": 1})
                return found if ratio == 1 else self.emit("Mul", [found, self.integers([int(ratio)])])
        raise OnBatch("a size that depends on the batch in another way than as a multiple of it")

    def shape_vector(self, node, least=None):
        """The operand of Expand that gives the node's shape; where `least` has an extent, it need not be said."""
        shape = self.dims(node)
        if None not in shape:
            return self.integers(shape)
        value, parts = node.meta["val"].shape, []
        if least is not None:
            old = [1] * (len(shape) - least.dim()) + list(least.shape)
            shape = [1 if extent is None and symbolic(old[i]) else extent for i, extent in enumerate(shape)]
            if None not in shape:
                return self.integers(shape)
        for i, extent in enumerate(shape):
            parts.append(self.integers([extent]) if extent is not None else self.batch_vector(value[i].node.expr))
        return self.emit("Concat", parts, attrs={"axis": 0})


def type_number(dtype):
    if dtype not in ONNX_TYPES:
        raise Unsupported(f"values of type {str(dtype).removeprefix('torch.')}")
    return ONNX_TYPES[dtype]


class Arguments(dict):
    """A function's arguments by name."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def leaves(value):
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, (tuple, list)) else [value]


def snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def short(error):
    return " ".join(str(error).split("\n\nWhile executing")[0].split())[:600]


# --- layers with parameters --------------------------------------------------------------------------------------------


def pair(value):
    value = [int(v) for v in value] if isinstance(value, (tuple, list)) else [int(value)] * 2
    return value * 2 if len(value) == 1 else value


def owner(self, argument):
    """What a layer is called whose weights are a parameter: as the module that has it."""
    key = self.key_of.get(argument, "")
    return key.removesuffix(".weight") if key.endswith(".weight") else None


@converts("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution")
def convolution(self, node, a, result):
    x = a.get("input")
    spatial = result.dim() - 2
    if self.value(x).dim() != result.dim() or self.value(a.weight).dim() != result.dim():
        raise Unsupported("a convolution of one image without a batch")

    def each(value):
        value = list(value) if isinstance(value, (list, tuple)) else [value]
        return [int(v) for v in (value * spatial if len(value) == 1 else value)]

    kernel = list(self.value(a.weight).shape[2:])
    stride, dilation = each(a.stride), each(a.dilation)
    padding = a.padding
    if padding == "valid":
        padding = 0
    elif padding == "same":
        total = [d * (k - 1) for k, d in zip(kernel, dilation)]
        padding = [t // 2 for t in total]
        ends = [t - t // 2 for t in total]
    transposed = "transpose" in node.target._schema.name or a.get("transposed", False)
    begins = each(padding)
    ends = begins if a.padding != "same" else ends
    weight, bias = a.weight, a.bias
    if not transposed and spatial == 2 and begins == ends and weight in self.fixed and (
            bias is None or bias in self.fixed):
        return self.emit("conv2d", [self.source(x)], result,
                         {"stride": stride, "padding": begins, "dilation": dilation, "groups": int(a.groups)},
                         {"weight": self.fixed[weight], "bias": None if bias is None else self.fixed[bias]},
                         name=owner(self, weight))
    attrs = {"strides": stride, "pads": begins + ends, "dilations": dilation, "group": int(a.groups)}
    if transposed:
        attrs["output_padding"] = each(a.output_padding)
    sources = [self.source(v) for v in (x, weight, bias) if v is not None]
    return self.emit("ConvTranspose" if transposed else "Conv", sources, result, attrs, name=owner(self, weight))


@converts("linear")
def linear(self, node, a, result):
    x, weight, bias = a.get("input"), a.weight, a.bias
    if weight in self.fixed and (bias is None or bias in self.fixed) and self.value(x).dim() >= 2 \
            and self.value(weight).dim() == 2:
        return self.emit("linear", [self.source(x)], result, None,
                         {"weight": self.fixed[weight], "bias": None if bias is None else self.fixed[bias]},
                         name=owner(self, weight))
    turned = self.emit("Transpose", [self.source(weight)], attrs={"perm": [1, 0]})
    product = self.emit("MatMul", [self.source(x), turned], None if bias is not None else result)
    return product if bias is None else self.emit("Add", [product, self.source(bias)], result)


@converts("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm")
def batch_norm(self, node, a, result):
    if isinstance(result, (tuple, list)):
        result = result[0]
    if a.get("training") or a.running_mean is None:
        raise Unsupported("a batch norm without running statistics")
    x = a.get("input")
    tensors = {key: None if a[key] is None else self.known(a[key])
               for key in ("weight", "bias", "running_mean", "running_var")}
    mean = tensors["running_mean"]
    if (tensors["weight"] is None) != (tensors["bias"] is None):
        tensors["weight"] = torch.ones_like(mean) if tensors["weight"] is None else tensors["weight"]
        tensors["bias"] = torch.zeros_like(mean) if tensors["bias"] is None else tensors["bias"]
    name = owner(self, a.weight) if a.weight is not None else None
    if name is None and a.running_mean in self.key_of:
        name = self.key_of[a.running_mean].rpartition(".")[0]
    if self.value(x).dim() == 4:
        found = self.emit("batch_norm2d", [self.source(x)], result, {"eps": float(a.eps)}, tensors, name=name)
    else:
        def operand(key, other):
            if tensors[key] is None:
                return self.constant(torch.full_like(mean, other))
            return self.source(a[key]) if a[key] is not None else self.constant(tensors[key])

        found = self.emit("BatchNormalization", [self.source(x), operand("weight", 1), operand("bias", 0),
                                                 operand("running_mean", 0), operand("running_var", 1)],
                          result, {"epsilon": float(a.eps)}, name=name)
    return found if "native" not in node.target._schema.name else [found, None, None]


def scale(self, argument, shape):
    """A norm's scale or offset, which ONNX wants to be there."""
    return self.source(argument) if argument is not None else self.constant(torch.ones(shape))


@converts("layer_norm")
def layer_norm(self, node, a, result):
    shape = [int(extent) for extent in self.numbers(a.normalized_shape)]
    sources = [self.source(a.get("input")), scale(self, a.weight, shape)]
    if a.bias is not None:
        sources.append(self.source(a.bias))
    return self.emit("LayerNormalization", sources, result, {"axis": -len(shape), "epsilon": float(a.eps)},
                     name=owner(self, a.weight))


@converts("rms_norm")
def rms_norm(self, node, a, result):
    shape = [int(extent) for extent in self.numbers(a.normalized_shape)]
    eps = torch.finfo(result.dtype).eps if a.eps is None else a.eps
    return self.emit("RMSNormalization", [self.source(a.get("input")), scale(self, a.weight, shape)], result,
                     {"axis": -len(shape), "epsilon": float(eps)}, name=owner(self, a.weight))


@converts("group_norm", "instance_norm")
def group_norm(self, node, a, result):
    channels = [result.shape[1]]
    weight = scale(self, a.weight, channels)
    bias = self.source(a.bias) if a.bias is not None else self.constant(torch.zeros(channels))
    attrs = {"epsilon": float(a.eps)}
    if "num_groups" in a:
        return self.emit("GroupNormalization", [self.source(a.get("input")), weight, bias], result,
                         {**attrs, "num_groups": int(a.num_groups)}, name=owner(self, a.weight))
    if not a.use_input_stats:
        raise Unsupported("an instance norm with running statistics")
    return self.emit("InstanceNormalization", [self.source(a.get("input")), weight, bias], result, attrs,
                     name=owner(self, a.weight))


@converts("local_response_norm")
def local_response_norm(self, node, a, result):
    return self.emit("local_response_norm", [self.source(a.x)], result,
                     {"size": int(a.size), "alpha": float(a.alpha), "beta": float(a.beta), "k": float(a.k)})


@converts("embedding")
def embedding(self, node, a, result):
    return self.emit("Gather", [self.source(a.weight), self.source(a.indices)], result, {"axis": 0},
                     name=owner(self, a.weight))


# --- functions of one element ------------------------------------------------------------------------------------------

UNARY = {"abs": "Abs", "neg": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "rsqrt": "Rsqrt",
         "reciprocal": "Reciprocal", "tanh": "Tanh", "erf": "Erf", "sin": "Sin", "cos": "Cos", "tan": "Tan",
         "floor": "Floor", "ceil": "Ceil", "round": "Round", "sign": "Sign", "mish": "Mish", "silu": "Swish",
         "hardswish": "HardSwish", "selu": "Selu", "isnan": "IsNaN", "isinf": "IsInf", "relu": "relu",
         "sigmoid": "sigmoid", "sinh": "Sinh", "cosh": "Cosh", "asin": "Asin", "acos": "Acos", "atan": "Atan"}


@converts(*UNARY)
def unary(self, node, a, result):
    if a.get("decimals"):
        raise Unsupported("rounding to decimals")
    x = next(iter(a.values()))
    name = self.function(node)
    return self.emit(UNARY[name], [self.source(x, result.dtype if result.dtype != torch.bool else None)], result)


@converts("relu6", "hardtanh", "clamp", "clamp_min", "clamp_max", "clip")
def clamp(self, node, a, result):
    bounds = [0, 6] if node.target._schema.name == "aten::relu6" else [
        a.get("min_val", a.get("min")), a.get("max_val", a.get("max"))]
    sources = [self.source(a.self, result.dtype)]
    if any(isinstance(bound, torch.fx.Node) and self.value(bound).dim() for bound in bounds):
        for op, bound in (("Max", bounds[0]), ("Min", bounds[1])):
            if bound is not None:
                sources = [self.emit(op, [*sources, self.source(bound, result.dtype)], result)]
        return sources[0]
    sources += ["" if bound is None else self.source(bound, result.dtype) for bound in bounds]
    while not sources[-1]:
        sources.pop()
    return self.emit("Clip", sources, result)


@converts("hardsigmoid")
def hardsigmoid(self, node, a, result):
    return self.emit("HardSigmoid", [self.source(a.self)], result, {"alpha": 1 / 6, "beta": 0.5})


@converts("elu", "celu", "leaky_relu", "gelu", "softplus", "hardshrink", "softshrink")
def activation(self, node, a, result):
    x, name = self.source(a.self), self.function(node)
    if name == "elu":
        if a.scale != 1 or a.input_scale != 1:
            raise Unsupported("ELU with scales")
        return self.emit("Elu", [x], result, {"alpha": float(a.alpha)})
    if name == "celu":
        return self.emit("Celu", [x], result, {"alpha": float(a.alpha)})
    if name == "leaky_relu":
        return self.emit("LeakyRelu", [x], result, {"alpha": float(a.negative_slope)})
    if name == "gelu":
        return self.emit("Gelu", [x], result, {"approximate": a.approximate})
    if name == "softplus":
        if a.beta != 1:
            x = self.emit("Mul", [x, self.source(float(a.beta))])
            return self.emit("Div", [self.emit("Softplus", [x]), self.source(float(a.beta))], result)
        return self.emit("Softplus", [x], result)
    return self.emit("Shrink", [x], result, {"lambd": float(a.lambd), "bias": 0.0 if name == "hardshrink"
                                             else float(a.lambd)})


@converts("prelu")
def prelu(self, node, a, result):
    slope = self.value(a.weight)
    if slope.numel() > 1:  # one for each channel
        name = self.constant(self.known(a.weight).reshape(-1, *[1] * (result.dim() - 2)))
    else:
        name = self.source(a.weight)
    return self.emit("PRelu", [self.source(a.self), name], result)


@converts("logical_not", "bitwise_not")
def logical_not(self, node, a, result):
    if result.dtype != torch.bool:
        return self.emit("BitwiseNot", [self.source(a.self)], result)
    return self.emit("Not", [self.source(a.self, torch.bool)], result)


@converts("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
def dropout(self, node, a, result):
    if a.train and a.p:
        raise Unsupported("a dropout that stays on after eval()")
    return self.emit("dropout", [self.source(a.input)], result)


@converts("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "to", "_to_copy", "type_as", "_assert_tensor_metadata",
          "view_as_real_copy", "requires_grad_", "float")
def nothing(self, node, a, result):
    x = a.get("self", a.get("a"))
    if self.value(x).dtype == result.dtype or result.dtype in FLOATS and self.value(x).dtype in FLOATS:
        return self.source(x)
    return self.emit("Cast", [self.source(x)], result, {"to": type_number(result.dtype)})


# --- functions of two --------------------------------------------------------------------------------------------------

BINARY = {"mul": "Mul", "minimum": "Min", "maximum": "Max", "eq": "Equal", "lt": "Less", "le": "LessOrEqual",
          "gt": "Greater", "ge": "GreaterOrEqual", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
          "pow": "Pow", "bitwise_and": "BitwiseAnd", "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor"}


def operands(self, a, result):
    """Both, of the type that PyTorch computes in."""
    one, two = list(a.values())[:2]
    if result.dtype == torch.bool:
        dtype = torch.result_type(self.value(one), self.value(two))
    else:
        dtype = result.dtype
    return [self.source(one, dtype), self.source(two, dtype)]


@converts(*BINARY)
def binary(self, node, a, result):
    name = self.function(node)
    op = BINARY[name]
    if op.startswith("Bitwise") and result.dtype == torch.bool:
        op = op.removeprefix("Bitwise")
    if name.startswith("logical"):
        return self.emit(op, [self.source(v, torch.bool) for v in list(a.values())[:2]], result)
    if name == "pow" and a.exponent == 2:
        x = self.source(a.self, result.dtype)
        return self.emit("Mul", [x, x], result)
    return self.emit(op, operands(self, a, result), result)


@converts("ne")
def ne(self, node, a, result):
    return self.emit("Not", [self.emit("Equal", operands(self, a, result))], result)


@converts("add", "sub", "rsub")
def add(self, node, a, result):
    left, right = operands(self, a, result)
    name = self.function(node)
    if a.alpha != 1:
        right, left = self.emit("Mul", [right if name != "rsub" else left, self.source(a.alpha, result.dtype)]), (
            left if name != "rsub" else right)
    elif name == "rsub":
        left, right = right, left
    both = [v for v in list(a.values())[:2] if isinstance(v, torch.fx.Node) and v not in self.fixed]
    plain = len(both) == 2 and all(self.value(v).shape == result.shape for v in both) and result.dtype in FLOATS
    op = "Sub" if name != "add" else "add" if plain and a.alpha == 1 else "Add"
    return self.emit(op, [left, right], result)


@converts("div")
def div(self, node, a, result):
    rounding = a.get("rounding_mode")
    quotient = self.emit("Div", operands(self, a, result), result if rounding is None else None)
    if rounding is None:
        return quotient
    if rounding == "floor" and result.dtype in FLOATS:
        return self.emit("Floor", [quotient], result)
    raise Unsupported("a division that rounds")


@converts("remainder", "fmod")
def remainder(self, node, a, result):
    if "remainder" in node.target._schema.name and result.dtype in FLOATS:
        left, right = operands(self, a, result)
        whole = self.emit("Floor", [self.emit("Div", [left, right])])
        return self.emit("Sub", [left, self.emit("Mul", [whole, right])], result)
    return self.emit("Mod", operands(self, a, result), result, {"fmod": int("fmod" in node.target._schema.name)})


@converts("where")
def where(self, node, a, result):
    return self.emit("Where", [self.source(a.condition, torch.bool), self.source(a.self, result.dtype),
                               self.source(a.other, result.dtype)], result)


@converts("masked_fill")
def masked_fill(self, node, a, result):
    return self.emit("Where", [self.source(a.mask), self.source(a.value, result.dtype), self.source(a.self)], result)


# --- products ----------------------------------------------------------------------------------------------------------


@converts("matmul", "mm", "bmm")
def matmul(self, node, a, result):
    return self.emit("MatMul", [self.source(v) for v in list(a.values())[:2]], result)


@converts("addmm", "baddbmm")
def addmm(self, node, a, result):
    sources = [self.source(v) for v in list(a.values())[:3]]
    if a.alpha != 1 or a.beta != 1:
        raise Unsupported("addmm with alpha or beta")
    return self.emit("Add", [self.emit("MatMul", sources[1:]), sources[0]], result)


@converts("einsum")
def einsum(self, node, a, result):
    return self.emit("Einsum", [self.source(v) for v in a.tensors], result, {"equation": a.equation.replace(" ", "")})


@converts("scaled_dot_product_attention")
def attention(self, node, a, result):
    if a.dropout_p:
        raise Unsupported("attention with a dropout that stays on after eval()")
    query = self.value(a.query)
    scale_of = float(a.scale) if a.scale is not None else query.shape[-1] ** -0.5
    sources = [self.source(v) for v in (a.query, a.key, a.value)]
    if query.dim() == 4 and (a.attn_mask is None or self.value(a.attn_mask).dim() <= 4):
        if a.attn_mask is not None:
            sources.append(self.source(a.attn_mask))
        return self.emit("Attention", sources, result, {"scale": scale_of, "is_causal": int(a.is_causal)})
    if a.is_causal:
        raise Unsupported(f"causal attention on {query.dim()} dimensions")
    order = [*range(query.dim() - 2), query.dim() - 1, query.dim() - 2]
    keys = self.emit("Transpose", sources[1:2], attrs={"perm": order})
    scores = self.emit("Mul", [self.emit("MatMul", [sources[0], keys]), self.source(scale_of)])
    if a.attn_mask is not None:
        mask = self.source(a.attn_mask)
        if self.value(a.attn_mask).dtype == torch.bool:
            scores = self.emit("Where", [mask, scores, self.source(-math.inf)])
        else:
            scores = self.emit("Add", [scores, mask])
    return self.emit("MatMul", [self.emit("Softmax", [scores], attrs={"axis": -1}), sources[2]], result)


# --- shapes and moves --------------------------------------------------------------------------------------------------


def reshaped(self, node, x, result):
    if self.dims(x) == self.dims(node):
        if self.dims(node).count(None) <= 1:
            return self.source(x)
    before, after = list(self.value(x).shape), list(result.shape)
    if len(after) == 2 and len(before) > 2 and after == [before[0], math.prod(before[1:])]:
        return self.emit("flatten", [self.source(x)], result)
    return self.emit("Reshape", [self.source(x), self.extents(node, x)], result)


@converts("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as")
def reshape(self, node, a, result):
    return reshaped(self, node, a.self, result)


def permuted(self, x, order, result):
    if order == list(range(len(order))):
        return self.source(x)
    return self.emit("Transpose", [self.source(x)], result, {"perm": order})


@converts("permute", "transpose", "t", "movedim", "swapaxes", "swapdims", "numpy_T")
def permute(self, node, a, result):
    rank = result.dim()
    marked = torch.empty([1] * rank).expand(*range(2, rank + 2)) if rank else torch.empty(())
    others = {k: v for k, v in a.items() if k != "self"}
    moved = node.target(marked, **others)
    return permuted(self, a.self, [extent - 2 for extent in moved.shape], result)


@converts("expand", "expand_as", "broadcast_to")
def expand(self, node, a, result):
    if self.dims(a.self) == self.dims(node) and None not in self.dims(node):
        return self.source(a.self)
    x = self.source(a.self)
    return self.emit("Expand", [x, self.shape_vector(node, self.meta_of(a.self))], result)


def meta_of(self, argument):
    return argument.meta["val"]


Exporter.meta_of = meta_of


@converts("slice", "narrow")
def slice_(self, node, a, result):
    dim = a.dim % result.dim()
    if self.dims(a.self) == self.dims(node) and self.dims(node)[dim] is not None:
        return self.source(a.self)
    narrow = "narrow" in node.target._schema.name
    begin = self.numbers(a.start) or 0
    end = begin + self.numbers(a.length) if narrow else self.numbers(a.end)
    end = 2**63 - 1 if end is None else end
    return self.emit("Slice", [self.source(a.self), self.integers([begin]), self.integers([end]), self.integers([dim]),
                               self.integers([1 if narrow else a.step])], result)


@converts("slice_scatter", "select_scatter")
def slice_scatter(self, node, a, result):
    """As the parts before, in and after the slice, joined."""
    dim = a.dim % result.dim()
    source = self.source(a.src, result.dtype)
    if "select" in self.function(node):
        begin = self.numbers(a.index) % result.shape[dim]
        end, step = begin + 1, 1
        source = self.emit("Unsqueeze", [source, self.integers([dim])])
    else:
        begin, end, step = self.numbers(a.start) or 0, self.numbers(a.end), a.step
    begin, end, _ = slice(begin, end).indices(result.shape[dim])
    if step != 1 or self.dims(node)[dim] is None:
        raise Unsupported("writing to every n-th element, or to a part of the batch")
    x, along, parts = self.source(a.get("self", a.get("input")), result.dtype), self.integers([dim]), []
    if begin > 0:
        parts.append(self.emit("Slice", [x, self.integers([0]), self.integers([begin]), along]))
    parts.append(source)
    if end < result.shape[dim]:
        parts.append(self.emit("Slice", [x, self.integers([end]), self.integers([2**63 - 1]), along]))
    return source if len(parts) == 1 else self.emit("Concat", parts, result, {"axis": dim})


@converts("copy")
def copy_(self, node, a, result):
    if self.dims(a.src) == self.dims(node):
        return self.source(a.src, result.dtype)
    return self.emit("Expand", [self.source(a.src, result.dtype), self.shape_vector(node)], result)


@converts("select")
def select(self, node, a, result):
    index = self.constant(torch.tensor(self.numbers(a.index)))
    return self.emit("Gather", [self.source(a.self), index], result, {"axis": a.dim % self.value(a.self).dim()})


@converts("split", "split_with_sizes", "chunk", "tensor_split")
def split(self, node, a, result):
    x = self.source(a.self)
    dim = a.dim % self.value(a.self).dim()
    if self.dims(a.self)[dim] is None:
        raise OnBatch("splitting the batch")
    sizes = self.integers([part.shape[dim] for part in result])
    return lambda i, part: self.emit("Split", [x, sizes], part, {"axis": dim, "output": i} if i else {"axis": dim})


@converts("unbind")
def unbind(self, node, a, result):
    x = self.source(a.self)
    dim = a.dim % self.value(a.self).dim()
    return lambda i, part: self.emit("Gather", [x, self.constant(torch.tensor(i))], part, {"axis": dim})


@converts("cat", "concat", "concatenate")
def concat(self, node, a, result):
    kept = [v for v in a.tensors if self.value(v).numel() or self.value(v).dim() > 1]
    sources = [self.source(v, result.dtype) for v in kept]
    dim = a.dim % result.dim()
    if dim and result.dtype in FLOATS and all(v not in self.fixed for v in kept) and len(sources) > 1:
        return self.emit("concat", sources, result, {"dim": dim})
    return self.emit("Concat", sources, result, {"axis": dim})


@converts("stack")
def stack(self, node, a, result):
    dim = a.dim % result.dim()
    sources = [self.emit("Unsqueeze", [self.source(v, result.dtype), self.integers([dim])]) for v in a.tensors]
    return self.emit("Concat", sources, result, {"axis": dim})


@converts("repeat", "tile")
def repeat(self, node, a, result):
    times = self.numbers(next(value for key, value in a.items() if key != "self"))
    rank = self.value(a.self).dim()
    times = [1] * (rank - len(times)) + list(times)
    x = self.source(a.self)
    if len(times) > rank:
        x = self.emit("Unsqueeze", [x, self.integers(range(len(times) - rank))])
    return self.emit("Tile", [x, self.integers(times)], result)


@converts("pad", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d")
def pad(self, node, a, result):
    name = self.function(node)
    mode = a.get("mode") or {"r": "reflect" if "refl" in name else "replicate"}.get(name[0], "constant")
    widths = [int(v) for v in self.numbers(a.get("pad", a.get("padding")))]
    pairs = [widths[i:i + 2] for i in range(0, len(widths), 2)][::-1]  # the last dimension comes first
    rank = result.dim()
    axes = range(rank - len(pairs), rank)
    if mode == "constant" and not any(widths):
        return self.source(a.self)
    value = a.get("value")
    return self.emit("Pad", [self.source(a.self), self.integers([p[0] for p in pairs] + [p[1] for p in pairs]),
                             self.source(0 if value is None else value, result.dtype), self.integers(axes)], result,
                     {"mode": {"constant": "constant", "reflect": "reflect", "replicate": "edge",
                               "circular": "wrap"}[mode]})


@converts("roll")
def roll(self, node, a, result):
    x, dims = self.source(a.self), list(a.dims)
    if not dims:
        raise Unsupported("a roll of the flattened tensor")
    for i, (shift, dim) in enumerate(zip(self.numbers(a.shifts), dims)):  # as two slices that change places
        extent = result.shape[dim]
        at = self.integers([-shift % extent])
        along = self.integers([dim % result.dim()])
        if -shift % extent:
            parts = [self.emit("Slice", [x, at, self.integers([2**63 - 1]), along]),
                     self.emit("Slice", [x, self.integers([0]), at, along])]
            x = self.emit("Concat", parts, result if i == len(dims) - 1 else None, {"axis": dim % result.dim()})
    return x


@converts("flip")
def flip(self, node, a, result):
    count = len(a.dims)
    return self.emit("Slice", [self.source(a.self), self.integers([-1] * count), self.integers([-2**63 + 1] * count),
                               self.integers([d % result.dim() for d in a.dims]), self.integers([-1] * count)], result)


@converts("pixel_shuffle")
def pixel_shuffle(self, node, a, result):
    return self.emit("DepthToSpace", [self.source(a.self)], result, {"blocksize": int(a.upscale_factor), "mode": "CRD"})


@converts("index")
def index(self, node, a, result):
    given = [(i, v) for i, v in enumerate(a.indices) if v is not None]
    x = self.source(a.self)
    if any(self.value(v).dtype == torch.bool for _, v in given):
        raise Unsupported("indexing by a mask")
    if len(given) == 1:
        dim, indices = given[0]
        return self.emit("Gather", [x, self.source(indices)], result, {"axis": dim})
    first, last = given[0][0], given[-1][0]
    if last - first + 1 != len(given) or not all(v in self.fixed for _, v in given):
        raise Unsupported("indexing by several tensors that depend on the input or do not stand together")
    # As one index into those dimensions flattened.
    value = self.value(a.self)
    extents = value.shape[first:last + 1]
    flat = 0
    for extent, (_, v) in zip(extents, given):
        flat = flat * extent + torch.where(self.fixed[v] < 0, self.fixed[v] + extent, self.fixed[v])
    shape = [0] * first + [math.prod(extents)] + list(value.shape[last + 1:])
    if any(extent is None for extent in self.dims(a.self)[first:]):
        raise OnBatch("indexing the batch")
    x = self.emit("Reshape", [x, self.integers(shape)])
    return self.emit("Gather", [x, self.constant(flat)], result, {"axis": first})


@converts("index_select")
def index_select(self, node, a, result):
    return self.emit("Gather", [self.source(a.self), self.source(a.index)], result, {"axis": a.dim % result.dim()})


@converts("gather")
def gather(self, node, a, result):
    return self.emit("GatherElements", [self.source(a.self), self.source(a.index)], result,
                     {"axis": a.dim % result.dim()})


@converts("tril", "triu")
def trilu(self, node, a, result):
    return self.emit("Trilu", [self.source(a.self), self.source(int(a.diagonal))], result,
                     {"upper": int("triu" in node.target._schema.name)})


@converts("full", "zeros", "ones", "new_zeros", "new_ones", "new_full", "full_like", "zeros_like", "ones_like")
def full(self, node, a, result):
    """As large as the batch says."""
    value = self.constant(result.flatten()[0])
    return self.emit("Expand", [value, self.shape_vector(node)], result)


# --- over dimensions ---------------------------------------------------------------------------------------------------

REDUCTIONS = {"mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin", "prod": "ReduceProd",
              "logsumexp": "ReduceLogSumExp"}


def dims_of(argument, rank):
    dims = argument if isinstance(argument, (list, tuple)) else [] if argument is None else [argument]
    return sorted(d % rank for d in dims) if len(dims) else list(range(rank))


def reduced(self, op, x, dims, keep, result=None):
    return self.emit(op, [x, self.integers(dims)], result, {"keepdims": int(keep)})


@converts(*REDUCTIONS)
def reduction(self, node, a, result):
    x, rank = a.self, self.value(a.self).dim()
    dims, keep = dims_of(a.get("dim"), rank), bool(a.get("keepdim", False))
    name = self.function(node)
    if name == "mean" and rank == 4 and dims == [2, 3]:
        shape = (*result.shape[:2], 1, 1)
        pooled = self.emit("adaptive_avg_pool2d", [self.source(x)], result.reshape(shape), {"output": [1, 1]})
        return pooled if keep else self.emit("flatten", [pooled], result)
    if 0 in dims and self.dims(x)[0] is None and name not in ("amax", "amin"):
        raise Unsupported(f"{name} over the batch")
    return reduced(self, REDUCTIONS[name], self.source(x, result.dtype), dims, keep, result)


@converts("var", "std", "var_mean", "std_mean")
def variance(self, node, a, result):
    both = isinstance(result, (tuple, list))
    name = node.target._schema.name
    x, value = self.source(a.self), self.value(a.self)
    dims, keep = dims_of(a.get("dim"), value.dim()), bool(a.get("keepdim", False))
    correction = a["correction"] if "correction" in a else int(bool(a.get("unbiased", True)))
    correction = 1 if correction is None else correction
    count = math.prod(value.shape[d] for d in dims)
    if 0 in dims and self.dims(a.self)[0] is None:
        raise Unsupported("a variance over the batch")
    mean = reduced(self, "ReduceMean", x, dims, True)
    off = self.emit("Sub", [x, mean])
    total = reduced(self, "ReduceSum", self.emit("Mul", [off, off]), dims, keep)
    first = result[0] if both else result
    divisor = self.source(float(max(count - correction, 0)))
    if "std" in name:
        found = self.emit("Sqrt", [self.emit("Div", [total, divisor])], first)
    else:
        found = self.emit("Div", [total, divisor], first)
    if not both:
        return found
    return [found, mean if keep else reduced(self, "ReduceMean", x, dims, False, result[1])]


@converts("linalg_vector_norm", "norm")
def norm(self, node, a, result):
    order = a.get("ord", a.get("p"))
    op = {1: "ReduceL1", 2: "ReduceL2", None: "ReduceL2", math.inf: "ReduceMax"}.get(order)
    if op is None:
        raise Unsupported(f"a norm of order {order}")
    x = self.source(a.self)
    if op == "ReduceMax":
        x = self.emit("Abs", [x])
    return reduced(self, op, x, dims_of(a.dim, self.value(a.self).dim()), bool(a.keepdim), result)


@converts("argmax", "argmin")
def argmax(self, node, a, result):
    if a.dim is None:
        raise Unsupported("argmax over all dimensions")
    return self.emit("ArgMax" if "max" in node.target._schema.name else "ArgMin", [self.source(a.self)], result,
                     {"axis": a.dim % self.value(a.self).dim(), "keepdims": int(a.keepdim)})


@converts("max", "min")
def max_(self, node, a, result):
    op = "Max" if node.target._schema.name.endswith("max") else "Min"
    if "other" in a:
        return self.emit(op, operands(self, a, result), result)
    x, rank = self.source(a.self), self.value(a.self).dim()
    if "dim" not in a:
        return reduced(self, f"Reduce{op}", x, list(range(rank)), False, result)
    dim, keep = a.dim % rank, bool(a.keepdim)

    def part(i, value):
        if i == 0:
            return reduced(self, f"Reduce{op}", x, [dim], keep, value)
        return self.emit(f"Arg{op}", [x], value, {"axis": dim, "keepdims": int(keep)})
    return part


@converts("topk", "sort")
def topk(self, node, a, result):
    dim = a.dim % self.value(a.self).dim()
    k = int(self.numbers(a.k)) if "k" in a else result[0].shape[dim]
    sources = [self.source(a.self), self.integers([k])]
    attrs = {"axis": dim, "largest": int(a.get("largest", a.get("descending", False))), "sorted": 1}
    return lambda i, part: self.emit("TopK", sources, part, {**attrs, "output": i} if i else attrs)


@converts("cumsum")
def cumsum(self, node, a, result):
    return self.emit("CumSum", [self.source(a.self, result.dtype), self.source(a.dim % result.dim())], result)


@converts("softmax", "_softmax", "log_softmax", "_log_softmax", "special_softmax")
def softmax(self, node, a, result):
    x, dim = self.source(a.self, result.dtype), a.dim % result.dim()
    if "log" in node.target._schema.name:
        return self.emit("LogSoftmax", [x], result, {"axis": dim})
    if result.dim() in (2, 4) and dim == 1:
        return self.emit("softmax", [x], result, {"dim": dim})
    return self.emit("Softmax", [x], result, {"axis": dim})


# --- pooling and resizing ----------------------------------------------------------------------------------------------


@converts("max_pool2d", "max_pool2d_with_indices", "max_pool1d", "max_pool3d")
def max_pool(self, node, a, result):
    with_indices = isinstance(result, (tuple, list))
    value = result[0] if with_indices else result
    x = self.source(a.self)
    if value.dim() == 4 and value.dim() == self.value(a.self).dim():
        kernel = pair(a.kernel_size)
        found = self.emit("max_pool2d", [x], value, {
            "kernel": kernel, "stride": pair(a.stride) if len(a.stride) else kernel, "padding": pair(a.padding),
            "dilation": pair(a.dilation), "ceil_mode": bool(a.ceil_mode)})
        return [found, None] if with_indices else found
    raise Unsupported(f"max-pooling of {self.value(a.self).dim()} dimensions")


@converts("avg_pool2d", "avg_pool1d")
def avg_pool(self, node, a, result):
    if a.get("divisor_override") is not None:
        raise Unsupported("average pooling with divisor_override")
    x = self.source(a.self)
    if self.value(a.self).dim() == 4:
        kernel = pair(a.kernel_size)
        return self.emit("avg_pool2d", [x], result, {
            "kernel": kernel, "stride": pair(a.stride) if len(a.stride) else kernel, "padding": pair(a.padding),
            "ceil_mode": bool(a.ceil_mode), "count_include_pad": bool(a.count_include_pad)})
    if self.value(a.self).dim() == 3 and "avg_pool1d" in node.target._schema.name:
        return self.emit("AveragePool", [x], result, {
            "kernel_shape": list(a.kernel_size), "strides": list(a.stride) or list(a.kernel_size),
            "pads": list(a.padding) * 2, "ceil_mode": int(a.ceil_mode), "count_include_pad": int(a.count_include_pad)})
    raise Unsupported(f"average pooling of {self.value(a.self).dim()} dimensions")


@converts("adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool1d", "adaptive_max_pool2d")
def adaptive_pool(self, node, a, result):
    if "max" in node.target._schema.name:
        found = self.emit("AdaptiveMaxPool", [self.source(a.self)], result[0], {"output": list(result[0].shape[2:])})
        return [found, None]
    if result.dim() == 4:
        return self.emit("adaptive_avg_pool2d", [self.source(a.self)], result, {"output": list(result.shape[2:])})
    return self.emit("AdaptiveAvgPool", [self.source(a.self)], result, {"output": list(result.shape[2:])})


@converts("upsample_nearest2d", "upsample_nearest1d", "_upsample_nearest_exact2d", "upsample_bilinear2d",
          "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "upsample_linear1d")
def upsample(self, node, a, result):
    name = self.function(node)
    mode = "nearest" if "nearest" in name else "cubic" if "cubic" in name else "linear"
    aligned = bool(a.get("align_corners", False))
    rule = "half_pixel" if mode != "nearest" or "exact" in name else "asymmetric"
    if rule == "half_pixel" and mode != "nearest":
        rule = "align_corners" if aligned else "pytorch_half_pixel"
    given = next(iter(a.values()))
    attrs = {"mode": mode, "coordinate_transformation_mode": rule}
    if mode == "nearest":
        attrs["nearest_mode"] = "floor" if rule == "asymmetric" else "round_prefer_ceil"
    if mode == "cubic":
        attrs["cubic_coeff_a"] = -0.5 if name.endswith("_aa") else -0.75
    if name.endswith("_aa"):
        attrs |= {"antialias": 1, "exclude_outside": int(mode == "cubic")}
    rank = result.dim()
    attrs["axes"] = list(range(2, rank))
    factors = a.get("scale_factors") or [a[key] for key in ("scales_h", "scales_w", "scales") if a.get(key)]
    if factors and len(factors) == rank - 2:  # PyTorch computes places by the factor where it is given one
        scales = self.constant(torch.tensor([float(f) for f in factors]))
        return self.emit("Resize", [self.source(given), "", scales], result, attrs)
    return self.emit("Resize", [self.source(given), "", "", self.integers(result.shape[2:])], result, attrs)


@converts("grid_sampler", "grid_sampler_2d")
def grid_sample(self, node, a, result):
    return self.emit("GridSample", [self.source(a.input), self.source(a.grid)], result, {
        "mode": ["linear", "nearest", "cubic"][a.interpolation_mode],
        "padding_mode": ["zeros", "border", "reflection"][a.padding_mode], "align_corners": int(a.align_corners)})


# --- files -------------------------------------------------------------------------------------------------------------


def shape_text(shape):
    return "[" + ", ".join(str(extent) for extent in shape) + "]"


def summary(places, shown=4):
    """Where, in short: "features.0.2, features.1.conv.0.2 and 33 more"."""
    places = list(dict.fromkeys(places))
    rest = len(places) - shown
    return ", ".join(places[:shown]) + (f" and {rest} more" if rest > 0 else "")


TYPES = {torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32",
         torch.int64: "I64"}


def write_safetensors(path, tensors, metadata):
    """By hand: the safetensors package stores metadata in an order that changes from run to run."""
    header, begin, parts = {"__metadata__": metadata}, 0, []
    for name in sorted(tensors):
        tensor = tensors[name].detach().contiguous().cpu()
        dtype = TYPES.get(tensor.dtype, "F32")
        array = (tensor.to(torch.float32) if dtype == "F32" else tensor).numpy()
        values = array.astype(array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [begin, begin + len(values)]}
        begin += len(values)
        parts.append(values)
    if not metadata:
        del header["__metadata__"]
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # data then starts at a multiple of 8
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(parts)


def export(module, path, inputs, labels=None, preprocess=None, golden=None, batch=None, description=None):
    """Writes `module` as the model file `path`, and returns the graph.

    inputs      the shape of each input without the batch: [(3, 224, 224)]
    labels      class names, in the order of the scores
    preprocess  {"resize": ..., "crop": ..., "mean": [...], "std": [...]}: how a photograph becomes the input, with
                "divisor", "order", "aspect" and so on where it is not as torchvision does it (docs/formats.md)
    golden      also writes the inputs of the trial run and what every node made of them, for `lamina verify`
    batch       the only batch that the file is for; by default it is for any
    description what the model is for, as one would go on after its name: "reads handwritten digits"

    Raises ExportError, having written nothing, for a module that has no equivalent.
    """
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        exporter = Exporter(module, batch, keep=golden is not None)
        graph = exporter.export(inputs)
    finally:
        for part in training:
            part.training = True
    metadata = {"lamina.graph": json.dumps(graph, separators=(",", ":"))}
    if preprocess is not None:
        crop = preprocess["crop"]
        if [i["shape"][1:] for i in exporter.inputs] != [[3, crop, crop]]:
            raise ExportError(f"a crop of {crop} makes photographs [N, 3, {crop}, {crop}], the input is "
                              f"{shape_text(exporter.inputs[0]['shape'])}; --preprocess takes JSON that says otherwise, "
                              f"{json.dumps(preprocess | {'crop': 'PIXELS', 'resize': 'PIXELS'})}")
        metadata["lamina.preprocess"] = json.dumps(preprocess)
    if labels is not None:
        scores = exporter.values[exporter.outputs[0]]
        classes = scores.shape[1] if scores.dim() in (2, 4) else None
        if classes != len(labels):
            raise ExportError(f"{len(labels)} labels for an output of {shape_text(['N', *scores.shape[1:]])}")
        metadata["lamina.labels"] = "\n".join(labels)
    if description:
        metadata["lamina.description"] = description
    write_safetensors(path, exporter.tensors, metadata)
    if golden is not None:
        write_safetensors(golden, exporter.values, {})
    return graph


# --- the command line ------------------------------------------------------------------------------------------------


def load_module(text):
    """The module that "package.module:name", "file.py:name" or "...:name(key=value)" says."""
    place, colon, call = text.rpartition(":")
    if not colon:
        raise ExportError(f"{text}: expected MODULE:NAME, such as torchvision.models:resnet18 or my_network.py:Net")
    try:
        tree = ast.parse(call, mode="eval").body
        if isinstance(tree, ast.Call) and tree.args:
            raise ValueError
        arguments = {k.arg: ast.literal_eval(k.value) for k in tree.keywords} if isinstance(tree, ast.Call) else {}
        name = tree.func.id if isinstance(tree, ast.Call) else tree.id
    except (SyntaxError, ValueError, AttributeError):
        raise ExportError(f"{call}: expected a name, or a call with keywords such as Net(classes=10)") from None
    if place.endswith(".py"):
        if not Path(place).is_file():
            raise ExportError(f"{place}: there is no such file")
        sys.path.insert(0, str(Path(place).resolve().parent))
        spec = importlib.util.spec_from_file_location(Path(place).stem, place)
        source = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(source)
    else:
        try:
            source = importlib.import_module(place)
        except ImportError as error:
            raise ExportError(f"cannot import {place}: {error}") from None
    found = getattr(source, name, None)
    if found is None:
        raise ExportError(f"{place} has no {name}")
    try:
        module = found if isinstance(found, nn.Module) else found(**arguments)
    except TypeError as error:
        raise ExportError(f"{text}: {error}; {name}(key=value) passes arguments") from None
    if not isinstance(module, nn.Module):
        raise ExportError(f"{text}: expected a torch.nn.Module, got {type(module).__name__}")
    return module


WRAPPERS = ("state_dict", "model_state_dict", "model", "params", "params_ema", "ema", "net")
PREFIXES = ("module.", "_orig_mod.", "model.")


def read_state(path):
    """The state dict that a file holds, in whatever training scripts wrap one."""
    with open(path, "rb") as file:
        begin = file.read(9)
    if begin[8:] == b"{":
        return read_safetensors(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        whole = "Unsupported global" in str(error) or "WeightsUnpickler" in str(error)
        raise ExportError(f"{path}: " + ("it holds objects of Python, maybe a whole module; save module.state_dict() instead"
                                         if whole else f"it is no state dict: {short(error)[:200]}")) from None
    for _ in range(3):
        found = next((state[key] for key in WRAPPERS if isinstance(state, dict) and isinstance(state.get(key), dict)), None)
        if found is None:
            break
        state = found
    if not isinstance(state, dict):
        raise ExportError(f"{path}: expected a state dict, got {type(state).__name__}")
    return {key: value for key, value in state.items() if isinstance(value, torch.Tensor)}


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    types = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
             **{name: dtype for dtype, name in TYPES.items()}}
    state = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name != "__metadata__" and entry["dtype"] in types:
            first, end = entry["data_offsets"]
            part = bytearray(data[8 + length + first:8 + length + end])
            state[name] = (torch.frombuffer(part, dtype=types[entry["dtype"]]) if part else torch.empty(
                0, dtype=types[entry["dtype"]])).reshape(entry["shape"])
    return state


def load_weights(module, path):
    state, wanted = read_state(path), module.state_dict()
    for prefix in PREFIXES * 2:
        if state and all(key.startswith(prefix) for key in state) and not all(key.startswith(prefix) for key in wanted):
            state = {key[len(prefix):]: value for key, value in state.items()}
    missing = [key for key in wanted if key not in state and not key.endswith("num_batches_tracked")]
    sizes = [f"{key} {shape_text(state[key].shape)} instead of {shape_text(wanted[key].shape)}"
             for key in wanted if key in state and state[key].shape != wanted[key].shape]
    said = [f"{len(missing)} of {len(wanted)} tensors missing: {summary(missing)}"] if missing else []
    said += [f"size mismatch: {summary(sizes)}"] if sizes else []
    if said:
        raise ExportError(f"{path}: " + "; ".join(said))
    unused = [key for key in state if key not in wanted]
    if unused:
        print(f"export_torch.py: {path}: not used: {summary(unused)}", file=sys.stderr)
    module.load_state_dict(state, strict=False)


def input_shape(text):
    try:
        return tuple(int(extent) for extent in text.lower().split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected extents such as 3x224x224, got {text!r}") from None


def preprocessing(text):
    if text == "imagenet":
        return IMAGENET
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    others = {"divisor", "order", "aspect", "fill", "rounding", "placement", "antialias"}
    if not isinstance(value, dict) or not set(IMAGENET) <= set(value) <= {*IMAGENET, *others}:
        raise argparse.ArgumentTypeError(f"expected imagenet or JSON such as {json.dumps(IMAGENET)}")
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module", help="MODULE:NAME or FILE.py:NAME of a torch.nn.Module, or of what makes one when "
                                       "it is called; NAME(key=value) passes arguments")
    parser.add_argument("out", type=Path, help="the model file to write")
    parser.add_argument("--input", type=input_shape, action="append", required=True, metavar="CxHxW",
                        help="shape of an input without the batch; once for each input")
    parser.add_argument("--weights", type=Path, help="a state dict (.pth) to load first")
    parser.add_argument("--labels", type=Path, help="class names, one on each line")
    parser.add_argument("--preprocess", type=preprocessing, help="imagenet, or JSON: how a photograph becomes the input")
    parser.add_argument("--batch", type=int, help="the only batch that the file is for; by default it is for any")
    parser.add_argument("--description", help="what the model is for: \"reads handwritten digits\"; lamina classify says it "
                                              "of photographs that the model is not sure of")
    parser.add_argument("--golden", type=Path, help="also write every node's values on random input, for lamina verify")
    args = parser.parse_args()
    torch.manual_seed(0)
    try:
        module = load_module(args.module)
        if args.weights:
            load_weights(module, args.weights)
        labels = args.labels.read_text(encoding="utf-8").splitlines() if args.labels else None
        graph = export(module, args.out, args.input, labels, args.preprocess, args.golden, args.batch,
                       args.description)
    except (ExportError, OSError) as error:
        print(f"export_torch.py: {error}", file=sys.stderr)
        return 1
    print(f"wrote {args.out}: {len(graph['nodes'])} nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
