#!/usr/bin/env python3
"""Writes a PyTorch module as a Lamina model file: graph, weights, preprocessing and class names in one .safetensors.

    python3 scripts/export_torch.py torchvision.models:resnet18 resnet18.safetensors --input 3x224x224 \\
        --weights resnet18-f37072fd.pth --preprocess imagenet --labels weights/imagenet_classes.txt
    python3 scripts/export_torch.py my_network.py:Net net.safetensors --input 1x28x28 --golden net-golden.safetensors
    lamina verify --model net.safetensors --golden net-golden.safetensors

The module is traced with torch.fx and run once on random numbers; it must consist of the ops that docs/formats.md
lists. Whatever it has besides is named, all of it at once, and nothing is written. Needs PyTorch, nothing else.
As a library: export(module, "net.safetensors", inputs=[(3, 224, 224)]).
"""

import argparse
import ast
import importlib
import importlib.util
import json
import math
import operator
import re
import struct
import sys
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


class ExportError(Exception):
    """The module cannot be a Lamina model; the message says what in it and where."""


class Unsupported(Exception):
    """One node has no equivalent: what it is, and maybe a detail. ExportError collects them."""


def pair(value):
    return [int(v) for v in value] if isinstance(value, (tuple, list)) else [int(value)] * 2


def same_padding(kernel, dilation):
    total = [d * (k - 1) for k, d in zip(pair(kernel), pair(dilation))]
    if any(t % 2 for t in total):
        raise Unsupported('padding="same" that pads one side more than the other')
    return [t // 2 for t in total]


def conv2d(stride, padding, dilation, groups, kernel):
    if padding == "valid":
        padding = 0
    elif padding == "same":
        padding = same_padding(kernel, dilation)
    return "conv2d", {"stride": pair(stride), "padding": pair(padding), "dilation": pair(dilation), "groups": groups}


def max_pool2d(kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    if return_indices:
        raise Unsupported("max-pooling that returns indices")
    return "max_pool2d", {"kernel": pair(kernel_size), "stride": pair(stride or kernel_size), "padding": pair(padding),
                          "dilation": pair(dilation), "ceil_mode": bool(ceil_mode)}


def avg_pool2d(kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    if divisor_override is not None:
        raise Unsupported("average pooling with divisor_override")
    return "avg_pool2d", {"kernel": pair(kernel_size), "stride": pair(stride or kernel_size), "padding": pair(padding),
                          "ceil_mode": bool(ceil_mode), "count_include_pad": bool(count_include_pad)}


def local_response_norm(size, alpha=1e-4, beta=0.75, k=1.0):
    return "local_response_norm", {"size": size, "alpha": float(alpha), "beta": float(beta), "k": float(k)}


def softmax(dim=None, **_):
    return "softmax", {"dim": 1 if dim is None else dim}


def dropout(p=0.5, training=True, inplace=False):
    if training:
        raise Unsupported("a dropout that stays on after eval()")
    return "dropout", {}


def plain(op):
    return lambda **_: (op, {})


class Exporter(torch.fx.Interpreter):
    """Runs a traced module node by node and writes down what each node is in Lamina's terms."""

    def __init__(self, module):
        tracer = torch.fx.Tracer()
        tracer.record_stack_traces = True
        if tracer.is_leaf_module(module, ""):
            module = nn.Sequential(module)  # tracing looks into the outermost module, whatever it is
        try:
            graph = tracer.trace(module)
        except Exception as error:
            raise ExportError(f"torch.fx cannot trace {type(module).__name__}: {error}\n"
                              "(a forward() whose course depends on values, or that takes other things than tensors, "
                              "has no fixed graph)") from error
        super().__init__(torch.fx.GraphModule(tracer.root, graph))
        self.inputs, self.nodes, self.outputs = [], [], []
        self.tensors = {}   # parameters by name
        self.values = {}    # what PyTorch computes, by node name
        self.name_of = {}   # fx node -> the name of the Lamina node that computes it
        self.problems = {}  # what is unsupported -> where
        self.broken = set()  # its fx nodes
        self.placeholders = sum(node.op == "placeholder" for node in graph.nodes)
        self.taken = set()

    # --- names -------------------------------------------------------------------------------------------------------

    def unique(self, name):
        candidate, count = name, 0
        while candidate in self.taken:
            count += 1
            candidate = f"{name}_{count}"  # as torch.fx counts
        self.taken.add(candidate)
        return candidate

    @staticmethod
    def scope(node):
        """The path of the module whose forward() holds the node: "layer1.0", or ""."""
        stack = list(node.meta.get("nn_module_stack", {}).values())
        return stack[-1][0] if stack and isinstance(stack[-1], tuple) else ""

    def follow_change(self, node, result):
        """An op that works in place has changed its operand for all who use that later."""
        memory = result.untyped_storage().data_ptr()
        for other, value in self.env.items():
            if other is node or other not in self.name_of or not isinstance(value, torch.Tensor):
                continue
            if value.untyped_storage().data_ptr() != memory:
                continue
            if value.shape != result.shape:
                raise Unsupported("an op in place on a view of another shape")
            self.name_of[other] = self.name_of[node]

    def place(self, node):
        """Where a node is, for people: its module, and the line of code that made it."""
        if node.op == "call_module":
            return node.target
        lines = re.findall(r'File "(.+?)", line (\d+)', node.stack_trace or "")
        line = next((f" ({Path(file).name}:{number})" for file, number in reversed(lines) if "/torch/" not in file), "")
        return (self.scope(node) or "forward()") + line

    # --- ops ---------------------------------------------------------------------------------------------------------

    def emit(self, node, op, attrs, sources, result, parameters=None, name=None):
        """Adds a Lamina node that computes `result`."""
        if name is None:
            name = node.target if node.op == "call_module" else ".".join(filter(None, [self.scope(node), op]))
        name = self.unique(name)
        entry = {"name": name, "op": op, "inputs": sources}
        if attrs:
            entry["attrs"] = attrs
        self.nodes.append(entry)
        for key, tensor in (parameters or {}).items():
            if tensor is not None:
                self.tensors[f"{name}.{key}"] = tensor.detach()
        self.values[name] = result.detach().clone()
        return name

    def source(self, argument):
        """The Lamina node that an argument of a node is."""
        if not isinstance(argument, torch.fx.Node):
            raise Unsupported(f"a constant as an operand ({argument!r})")
        if argument not in self.name_of:
            raise Unsupported("a parameter or a number as an operand")
        return self.name_of[argument]

    def convert(self, node, result):
        """Finds the Lamina node that computes what an fx node does, or adds it."""
        if node.target is operator.getitem and node.args[0] in self.broken:
            self.name_of[node] = "?"
            return
        if node.op == "get_attr":
            return
        if node.op == "call_module":
            self.name_of[node] = self.module_node(node, self.fetch_attr(node.target), result)
        elif isinstance(result, torch.Tensor):
            self.name_of[node] = self.function_node(node, result)
        elif isinstance(result, (tuple, list)) and any(isinstance(r, torch.Tensor) for r in result):
            raise Unsupported(self.describe(node))
        # Anything else is a size or the like: it shows in the shapes of what is made with it.

    def module_node(self, node, module, result):
        source = self.source(node.args[0]) if node.args else self.source(next(iter(node.kwargs.values())))
        shape = self.env[node.all_input_nodes[0]].shape

        def emit(op, attrs=None, **parameters):
            return self.emit(node, op, attrs, [source], result, parameters)

        m = module
        kind = type(m)
        if kind is nn.Conv2d:
            if m.padding_mode != "zeros":
                raise Unsupported(f'Conv2d with padding_mode="{m.padding_mode}"')
            return emit(*conv2d(m.stride, m.padding, m.dilation, m.groups, m.kernel_size), weight=m.weight, bias=m.bias)
        if kind is nn.Linear:
            if len(shape) != 2:
                raise Unsupported(f"Linear on {len(shape)} dimensions; expected [N, features]")
            return emit("linear", weight=m.weight, bias=m.bias)
        if kind is nn.BatchNorm2d:
            if m.running_mean is None:
                raise Unsupported("BatchNorm2d without running statistics")
            return emit("batch_norm2d", {"eps": m.eps}, weight=m.weight, bias=m.bias,
                        running_mean=m.running_mean, running_var=m.running_var)
        if kind is nn.ReLU:
            return emit("relu")
        if kind is nn.Sigmoid:
            return emit("sigmoid")
        if kind is nn.MaxPool2d:
            return emit(*max_pool2d(m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode, m.return_indices))
        if kind is nn.AvgPool2d:
            return emit(*avg_pool2d(m.kernel_size, m.stride, m.padding, m.ceil_mode, m.count_include_pad,
                                    m.divisor_override))
        if kind is nn.AdaptiveAvgPool2d:
            return emit("adaptive_avg_pool2d", {"output": list(result.shape[2:])})
        if kind is nn.LocalResponseNorm:
            return emit(*local_response_norm(m.size, m.alpha, m.beta, m.k))
        if kind is nn.Softmax:
            return emit(*softmax(m.dim))
        if kind in (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout):
            return emit("dropout")
        if kind is nn.Flatten:
            return self.reshaped(node, result, name=node.target)
        if kind is nn.Identity:
            return source
        raise Unsupported(self.describe(node))

    FUNCTIONS = {
        "relu": plain("relu"), "relu_": plain("relu"), "sigmoid": plain("sigmoid"), "sigmoid_": plain("sigmoid"),
        "dropout": dropout, "max_pool2d": max_pool2d, "avg_pool2d": avg_pool2d, "softmax": softmax,
        "local_response_norm": local_response_norm,
    }
    RESHAPES = ("flatten", "view", "reshape", "squeeze", "unsqueeze")
    NOTHING = ("contiguous", "clone", "detach")

    def function_node(self, node, result):
        """A call of a function or a method, told by its name: torch.relu, F.relu and x.relu() are the same."""
        name = node.target if node.op == "call_method" else getattr(node.target, "__name__", str(node.target))
        module = getattr(node.target, "__module__", None) or "torch"  # built-in functions of torch have none
        if module.partition(".")[0] not in ("torch", "_operator"):
            raise Unsupported(self.describe(node))
        if name in ("add", "add_", "iadd"):
            return self.add(node, result)
        if name in ("cat", "concat", "concatenate"):
            return self.concat(node, result)
        if name in self.RESHAPES:
            return self.reshaped(node, result)
        if name in self.NOTHING:
            return self.source(node.args[0])
        if name == "mean":
            return self.mean(node, result)
        if name == "adaptive_avg_pool2d":
            return self.emit(node, name, {"output": list(result.shape[2:])}, [self.source(node.args[0])], result)
        if name in self.FUNCTIONS:
            rest = list(node.args[1:])
            options = {k: v for k, v in node.kwargs.items() if k != "input"}
            source = self.source(node.args[0] if node.args else node.kwargs["input"])
            if name in ("relu", "relu_", "sigmoid", "sigmoid_"):
                rest = []
            if name == "softmax":
                options = {k: v for k, v in options.items() if k in ("dim",)}
            op, attrs = self.FUNCTIONS[name](*rest, **options)
            return self.emit(node, op, attrs, [source], result)
        raise Unsupported(self.describe(node))

    def add(self, node, result):
        if node.kwargs.get("alpha", 1) != 1:
            raise Unsupported("add with alpha")
        sources = [self.source(argument) for argument in node.args[:2]]
        if any(self.env[argument].shape != result.shape for argument in node.args[:2]):
            raise Unsupported("add of tensors of different shapes")
        return self.emit(node, "add", {}, sources, result)

    def concat(self, node, result):
        tensors = node.args[0] if node.args else node.kwargs["tensors"]
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", node.kwargs.get("axis", 0))
        if dim % result.dim() == 0:
            raise Unsupported("concat along the batch")
        return self.emit(node, "concat", {"dim": dim}, [self.source(t) for t in tensors], result)

    def reshaped(self, node, result, name=None):
        """What keeps [N, ...] is no node; what makes it [N, the rest] is a flatten."""
        argument = node.args[0] if node.args else node.kwargs["input"]
        before, after = list(self.env[argument].shape), list(result.shape)
        source = self.source(argument)
        if before == after:
            return source
        if after != [BATCH, math.prod(before[1:])]:
            raise Unsupported("a change of shape other than flattening to [N, features]",
                              f" from {self.with_batch(before)} to {self.with_batch(after)}")
        return self.emit(node, "flatten", {}, [source], result, name=name)

    @staticmethod
    def with_batch(shape):
        return "[" + ", ".join(["N" if i == 0 and s == BATCH else str(s) for i, s in enumerate(shape)]) + "]"

    def mean(self, node, result):
        """A mean over height and width is a global average pooling."""
        value = self.env[node.args[0]]
        dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        dims = sorted(d % value.dim() for d in dim) if isinstance(dim, (tuple, list)) else []
        if value.dim() != 4 or dims != [2, 3]:
            raise Unsupported("mean over other dimensions than height and width")
        pooled = self.emit(node, "adaptive_avg_pool2d", {"output": [1, 1]}, [self.source(node.args[0])],
                           result.reshape(*value.shape[:2], 1, 1))
        return pooled if result.dim() == 4 else self.emit(node, "flatten", {}, [pooled], result)

    def describe(self, node):
        if node.op == "call_module":
            return type(self.fetch_attr(node.target)).__name__
        if node.op == "call_method":
            return f"Tensor.{node.target}"
        module = getattr(node.target, "__module__", None) or ""
        return f"{module.replace('_operator', 'operator')}.{getattr(node.target, '__name__', node.target)}".lstrip(".")

    # --- the run -----------------------------------------------------------------------------------------------------

    def run_node(self, node):
        try:
            result = super().run_node(node)
        except Exception as error:
            raise ExportError(f"{self.place(node)}: PyTorch itself fails here: {error}") from error
        if node.op == "placeholder":
            name = self.unique("input" if self.placeholders == 1 else node.name)
            self.name_of[node] = name
            self.inputs.append({"name": name, "dtype": "f32", "shape": ["N", *result.shape[1:]]})
            self.values[name] = result.detach().clone()
        elif node.op == "output":
            self.add_outputs(node.args[0])
        else:
            self.env[node] = result  # the converters look at shapes, also this node's
            try:
                before = len(self.nodes)
                self.convert(node, result)
                if len(self.nodes) > before and self.nodes[-1]["op"] != "flatten":
                    self.follow_change(node, result)
            except Unsupported as problem:
                what, *detail = problem.args
                self.problems.setdefault(what, []).append(self.place(node) + "".join(detail))
                self.broken.add(node)
                self.name_of[node] = "?"  # so that the rest is looked at too; nothing will be written
        return result

    def add_outputs(self, returned):
        found = []
        torch.fx.node.map_arg(returned, found.append)
        for node in found:
            name = self.name_of.get(node)
            if name is None or name in [i["name"] for i in self.inputs]:
                raise ExportError("the module returns something that no op computes")
            self.outputs.append(name)

    def export(self, inputs):
        wanted = self.placeholders
        if wanted != len(inputs):
            raise ExportError(f"forward() takes {wanted} tensors, got {len(inputs)} input shapes")
        try:
            with torch.no_grad():
                self.run(*[torch.randn(BATCH, *shape) for shape in inputs])
        except ExportError as error:
            shapes = ", ".join(shape_text(["N", *shape]) for shape in inputs)
            reason = str(error).split("\n\nWhile executing")[0]  # torch.fx appends its trace
            raise ExportError(f"{reason} (input {shapes})") from error
        if self.problems:
            lines = [f"  {what}: {summary(where)}" for what, where in sorted(self.problems.items())]
            raise ExportError("the model format has no equivalent of\n" + "\n".join(lines))
        return {"version": 1, "inputs": self.inputs, "nodes": self.nodes, "outputs": self.outputs}


def shape_text(shape):
    return "[" + ", ".join(str(extent) for extent in shape) + "]"


def summary(places, shown=4):
    """Where, in short: "features.0.2, features.1.conv.0.2 and 33 more"."""
    rest = len(places) - shown
    return ", ".join(places[:shown]) + (f" and {rest} more" if rest > 0 else "")


def write_safetensors(path, tensors, metadata):
    """By hand: the safetensors package stores metadata in an order that changes from run to run."""
    header, begin, parts = {"__metadata__": metadata}, 0, []
    for name in sorted(tensors):
        values = tensors[name].detach().to(torch.float32).contiguous().cpu().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [begin, begin + len(values)]}
        begin += len(values)
        parts.append(values)
    if not metadata:
        del header["__metadata__"]
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # data then starts at a multiple of 8
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def export(module, path, inputs, labels=None, preprocess=None, golden=None):
    """Writes `module` as the model file `path`, and returns the graph.

    inputs      the shape of each input without the batch: [(3, 224, 224)]
    labels      class names, in the order of the scores
    preprocess  {"resize": ..., "crop": ..., "mean": [...], "std": [...]}: how a photograph becomes the input, with
                "divisor", "order" and "aspect" where it is not as torchvision does it (docs/formats.md)
    golden      also writes the inputs of the trial run and what every node made of them, for `lamina verify`

    Raises ExportError, having written nothing, for a module that has no equivalent.
    """
    was_training = module.training
    module.eval()
    try:
        exporter = Exporter(module)
        graph = exporter.export(inputs)
    finally:
        module.train(was_training)
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
        if scores.dim() != 2 or scores.shape[1] != len(labels):
            raise ExportError(f"{len(labels)} labels for an output of {Exporter.with_batch(list(scores.shape))}")
        metadata["lamina.labels"] = "\n".join(labels)
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


def load_weights(module, path):
    state = torch.load(path, map_location="cpu", weights_only=True)
    state = state.get("state_dict", state)
    if state and all(key.startswith("module.") for key in state):
        state = {key[len("module."):]: value for key, value in state.items()}
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ExportError(f"{path}: {error}") from None


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
    if not isinstance(value, dict) or not set(IMAGENET) <= set(value) <= {*IMAGENET, "divisor", "order", "aspect"}:
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
    parser.add_argument("--golden", type=Path, help="also write every node's values on random input, for lamina verify")
    args = parser.parse_args()
    torch.manual_seed(0)
    try:
        module = load_module(args.module)
        if args.weights:
            load_weights(module, args.weights)
        labels = args.labels.read_text(encoding="utf-8").splitlines() if args.labels else None
        graph = export(module, args.out, args.input, labels, args.preprocess, args.golden)
    except (ExportError, OSError) as error:
        print(f"export_torch.py: {error}", file=sys.stderr)
        return 1
    print(f"wrote {args.out}: {len(graph['nodes'])} nodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
