"""JAX's part in compare_pytorch_model.py: the network's ONNX file node by node in jax.numpy, compiled by XLA as a whole. The
same talk as race/contestant.py: it says "ready" when it has compiled, and times itself when it is told to.

Times are of calls one after another that are waited for together, as JAX is used: XLA puts its launches into CUDA graphs
where it can, and has no events to time them by. Other ops than those of the table in OPS are an error, and JAX is out of
that race."""

import json
import math
import os
import statistics
import sys
import tempfile
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others prepare on the same GPU
import jax
import jax.numpy as jnp
import numpy as np
import onnx
from jax import lax
from onnx import numpy_helper

from race.networks import export, image_shape

TYPES = {"fp32": jnp.float32, "tf32": jnp.float32, "fp16": jnp.float16, "bf16": jnp.bfloat16}


def pairs(pads):
    """ONNX's begins and ends as a pair for each axis."""
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:]))


def conv(x, w, b=None, *, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1, **_):
    y = lax.conv_general_dilated(x, w, strides, pairs(pads), rhs_dilation=dilations, feature_group_count=group)
    return y if b is None else y + b[:, None, None]


def pool(x, start, combine, kernel_shape, strides, pads, ceil_mode):
    sides = pairs(pads)
    if ceil_mode:  # as much more at the end as the last window needs, which begins inside
        for i, (k, s) in enumerate(zip(kernel_shape, strides)):
            extent = x.shape[2 + i] + sum(sides[i])
            out = math.ceil((extent - k) / s) + 1
            out -= (out - 1) * s >= x.shape[2 + i] + sides[i][0]
            sides[i] = (sides[i][0], sides[i][1] + max(0, (out - 1) * s + k - extent))
    return lax.reduce_window(x, np.array(start, x.dtype), combine, (1, 1, *kernel_shape), (1, 1, *strides), [(0, 0), (0, 0), *sides])


def max_pool(x, *, kernel_shape, strides=(1, 1), pads=(0, 0, 0, 0), ceil_mode=0, **_):
    return pool(x, -jnp.inf, lax.max, kernel_shape, strides, pads, ceil_mode)


def average_pool(x, *, kernel_shape, strides=(1, 1), pads=(0, 0, 0, 0), ceil_mode=0, **_):
    return pool(x, 0, lax.add, kernel_shape, strides, pads, ceil_mode) / math.prod(kernel_shape)


def batch_norm(x, scale, bias, mean, var, *, epsilon=1e-5, **_):
    factor = scale / np.sqrt(var + epsilon)
    return x * factor[:, None, None].astype(x.dtype) + (bias - mean * factor)[:, None, None].astype(x.dtype)


def layer_norm(x, scale, bias, *, epsilon=1e-5, **_):
    f = x.astype(jnp.float32)
    f = (f - f.mean(-1, keepdims=True)) * lax.rsqrt(f.var(-1, keepdims=True) + epsilon)
    return f.astype(x.dtype) * scale + bias


def resize(x, _roi=None, _scales=None, sizes=None, **_):
    return jax.image.resize(x, tuple(int(n) for n in sizes), "linear", antialias=False)


def slices(x, starts, ends, axes=None, steps=None):
    index = [slice(None)] * x.ndim
    for i, axis in enumerate(range(len(starts)) if axes is None else axes):
        index[axis] = slice(int(starts[i]), int(min(ends[i], 2**31)), int(steps[i]) if steps is not None else 1)
    return x[tuple(index)]


def module(*operands):
    """numpy where all is known, so that shapes are numbers."""
    return np if all(isinstance(o, np.ndarray) or np.isscalar(o) or o is None for o in operands) else jnp


OPS = {
    "Conv": conv, "MaxPool": max_pool, "AveragePool": average_pool, "BatchNormalization": batch_norm, "Resize": resize,
    "LayerNormalization": layer_norm, "Slice": slices, "Identity": lambda x: x, "Relu": lambda x: jnp.maximum(x, 0),
    "GlobalAveragePool": lambda x: x.mean((2, 3), keepdims=True), "Sigmoid": jax.nn.sigmoid, "Erf": lax.erf,
    "HardSwish": jax.nn.hard_swish, "HardSigmoid": lambda x, **_: jax.nn.hard_sigmoid(x),
    "Softmax": lambda x, axis=-1, **_: jax.nn.softmax(x, axis), "MatMul": lambda a, b: a @ b,
    "Gemm": lambda a, b, c=0, transB=0, **_: a @ (b.T if transB else b) + c,
    "Clip": lambda x, low=None, high=None: module(x).clip(x, low, high), "Sqrt": lambda x: module(x).sqrt(x),
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b, "Mod": lambda a, b, **_: a % b,
    "Div": lambda a, b: a // b if a.dtype.kind == "i" else a / b, "Equal": lambda a, b: module(a, b).equal(a, b),
    "Where": lambda c, a, b: module(c, a, b).where(c, a, b), "Shape": lambda x: np.array(x.shape),
    "Transpose": lambda x, perm: x.transpose(perm), "Flatten": lambda x, axis=1: x.reshape(math.prod(x.shape[:axis]), -1),
    "Reshape": lambda x, s, **_: x.reshape([x.shape[i] if n == 0 else int(n) for i, n in enumerate(s)]),
    "Unsqueeze": lambda x, axes: module(x).expand_dims(x, tuple(int(a) for a in axes)),
    "Squeeze": lambda x, axes: module(x).squeeze(x, tuple(int(a) for a in axes)),
    "Concat": lambda *parts, axis: module(*parts).concatenate(parts, axis),
    "Gather": lambda x, i, axis=0: module(x, i).take(x, i, axis),
    "Expand": lambda x, s: module(x).broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(n) for n in s))),
    "ConstantOfShape": lambda s, value=None: np.full([int(n) for n in s], value[0]),
    "ReduceMean": lambda x, axes=None, keepdims=1, **_: x.mean(tuple(int(a) for a in axes), keepdims=bool(keepdims)),
    "Cast": lambda x, to: x.astype(onnx.helper.tensor_dtype_to_np_dtype(to)) if isinstance(x, np.ndarray) else x,
}


def attribute(a):
    value = onnx.helper.get_attribute_value(a)
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def network(path, dtype):
    """x -> logits, and the weights, in the type"""
    graph = onnx.load(path).graph
    constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    constants |= {n.output[0]: attribute(n.attribute[0]) for n in graph.node if n.op_type == "Constant"}
    nodes = [(OPS[n.op_type], [*n.input], n.output[0], {a.name: attribute(a) for a in n.attribute if a.name != "mode"})
             for n in graph.node if n.op_type != "Constant"]

    def call(weights, x):
        values = {"": None, **constants, **weights, graph.input[0].name: x.astype(dtype)}
        for op, inputs, output, attributes in nodes:
            y = op(*(values[i] for i in inputs), **attributes)
            known = isinstance(y, (np.ndarray, np.generic))
            values[output] = y if known or not jnp.issubdtype(y.dtype, jnp.floating) else y.astype(dtype)  # beside known f32
        return values[graph.output[0].name].astype(jnp.float32)

    norms = {i for n in graph.node if n.op_type == "BatchNormalization" for i in n.input}  # folded in f32
    return call, {k: jnp.asarray(v, dtype) for k, v in constants.items() if v.dtype.kind == "f" and v.ndim and k not in norms}


def main():
    task = json.loads(sys.stdin.readline())
    calls = {}
    with tempfile.TemporaryDirectory() as folder:
        export(task["arch"], f"{folder}/model.onnx")
        print(json.dumps({"built": True}), flush=True)
        sys.stdin.readline()  # the GPU is free
        for precision, batch in task["cells"]:
            matmul = {"fp32": "highest", "tf32": "tensorfloat32"}.get(precision, "default")
            with jax.default_matmul_precision(matmul):
                call, weights = network(f"{folder}/model.onnx", TYPES[precision])
                x = jax.random.normal(jax.random.key(0), (batch, *image_shape(task["arch"])), TYPES[precision])
                compiled = jax.jit(call).lower(weights, x).compile()
            compiled(weights, x).block_until_ready()
            calls[f"{precision}:{batch}"] = compiled, weights, x
    print(json.dumps({cell: {} for cell in calls}), flush=True)
    if sys.stdin.readline():  # or nobody asks any more
        print(json.dumps({cell: {"jax": time_calls(*call, task["seconds"])} for cell, call in calls.items()}), flush=True)


def time_calls(compiled, weights, x, seconds):
    samples, end = [], time.perf_counter() + seconds
    while len(samples) < 5 or time.perf_counter() < end:
        begun = time.perf_counter()
        results = [compiled(weights, x) for _ in range(10)]
        results[-1].block_until_ready()
        samples.append((time.perf_counter() - begun) * 100)
    return statistics.median(samples)


if __name__ == "__main__":
    main()
