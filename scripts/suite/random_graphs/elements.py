"""Functions of single elements, reductions, products, norms, recurrent layers."""

import numpy as np
from onnx import TensorProto as T

from .draw import BOOL, F16, F32, F64, I32, I64, U8

# NAME:SET, the operator set that the op, or its type, came with.
UNARY = ("Abs Neg Relu Sigmoid Tanh Exp Log Sqrt Erf:9 Floor Ceil Round:11 Sign:9 Softplus Softsign Reciprocal Sin Cos Tan "
         "Atan Asinh:9 Elu LeakyRelu Selu HardSigmoid HardSwish:14 ThresholdedRelu:10 Celu:12 Identity IsNaN:9 IsInf:10 Gelu:20 "
         "Mish:18 Shrink:9 Asin Acos Atanh:9 Acosh:9 Sinh:9 Cosh:9").split()
BINARY = ("Add Sub Mul Div Min Max Pow Equal Less Greater LessOrEqual:12 GreaterOrEqual:12 And Or Xor Mod:10 PRelu Sum Mean "
          "BitShift:11").split()


def drawn_op(g, ops):
    op, _, since = g.r.choice(ops).partition(":")
    g.needs(int(since or 7))
    return op


def unary(g):
    op, at = drawn_op(g, UNARY), {}
    name, _ = g.pick(*([F32, I64, I32, F64] if op in ("Abs", "Neg", "Sign", "Identity") else [F32]))
    if op in ("Elu", "LeakyRelu", "HardSigmoid", "ThresholdedRelu", "Celu"):
        at["alpha"] = g.r.choice([0.1, 0.5, 1.0, 2.0])
    if op == "HardSigmoid":
        at["beta"] = g.r.choice([0.3, 0.5])
    if op == "Gelu":
        at["approximate"] = g.r.choice(["none", "tanh"])
    if op == "IsInf":
        at.update(detect_negative=g.r.randrange(2), detect_positive=g.r.randrange(2))
    if op == "Shrink":
        at.update(lambd=0.5, bias=g.r.choice([0.0, 0.25]))
    return g.node(op, [name], **at)


def binary(g):
    op, at = drawn_op(g, BINARY), {}
    kinds = {"And": [BOOL], "Or": [BOOL], "Xor": [BOOL], "PRelu": [F32], "Mean": [F32], "BitShift": [U8],
             "Mod": [I64, I32, F32]}.get(op, [F32, F32, F32, I64, I32])
    if g.opset < 12 and op in ("Min", "Max", "Pow", "Sum"):
        kinds = [F32]
    # What was computed is rounded in another way by others, and not to be compared.
    name, a = g.pick(*kinds, fresh=1 if op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual") else 0.25)
    b = g.array(g.broadcast(a.shape), a.dtype)
    if a.dtype.kind in "iu":  # no division by zero, no negative power
        b = np.where(b == 0, 1, b).astype(b.dtype) if op in ("Div", "Mod") else abs(b) % 4 if op == "Pow" else b
    if op == "Mod":
        at["fmod"] = 1 if a.dtype.kind == "f" else g.r.randrange(2)
    if op == "BitShift":
        at["direction"] = g.r.choice(["LEFT", "RIGHT"])
    inputs = [name, g.hold(b)]
    if op not in ("PRelu", "Pow", "Mod", "BitShift") and g.maybe(0.4):
        inputs.reverse()
    return g.node(op, inputs, **at)


def logical_not(g):
    return g.node("Not", [g.pick(BOOL)[0]])


def where(g):
    g.needs(9)
    name, a = g.pick(F32, I64)
    values = [name, g.new(g.broadcast(a.shape), a.dtype)]
    g.r.shuffle(values)
    return g.node("Where", [g.new(g.broadcast(a.shape), BOOL), *values])


def clip(g):
    name, a = g.pick(*([F32, I32, I64] if g.opset >= 12 else [F32]))
    low, high = g.r.choice([None, -1, 0, 2]), g.r.choice([None, 1, 0, -2, 3])
    return g.node("Clip", [name, *("" if x is None else g.constant(x, a.dtype) for x in (low, high))])


def cast(g):
    name, a = g.pick(F32, I64, I32, BOOL, U8, F16, F64, where=lambda a: a.dtype.kind != "f" or bool(np.all(abs(a) < 100)))
    to = g.r.choice([T.FLOAT, T.INT64, T.INT32, T.BOOL, T.DOUBLE, T.FLOAT16, T.UINT8, T.INT8])
    if to == T.UINT8 and a.dtype.kind == "f" and a.size and a.min() < 0:
        to = T.INT32
    return g.node("Cast", [name], to=to)


def cumulative(g):
    g.needs(11)
    name, a = g.pick(F32, F32, I64, I32, least=1)
    return g.node("CumSum", [name, g.constant(g.r.randint(-a.ndim, a.ndim - 1))], exclusive=g.r.randrange(2),
                  reverse=g.r.randrange(2))


def top_k(g):
    name, a = g.pick(*([F32, F32, I64] if g.opset >= 11 else [F32]), least=1, fresh=1, where=lambda a: not np.isnan(a).any())
    axis = g.axis(a)
    return g.node("TopK", [name, g.constant([g.r.randint(0, a.shape[axis])])], 2, axis=axis, largest=g.r.randrange(2))


def largest(g):
    name, a = g.pick(*([F32, F32, I32] if g.opset >= 12 else [F32]), least=1, fresh=1, where=lambda a: not np.isnan(a).any())
    return g.node(g.r.choice(["ArgMax", "ArgMin"]), [name], axis=g.axis(a), keepdims=g.r.randrange(2),
                  select_last_index=g.r.randrange(2))


def reduction(g):
    op = "Reduce" + g.r.choice("Sum Sum Mean Mean Max Min Prod L1 L2 LogSum LogSumExp SumSquare".split())
    name, a = g.pick(*([F32, F32, F32, I64, I32] if op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd") else [F32]))
    inputs, at, axes = [name], {"keepdims": g.r.randrange(2)}, g.axes(a.ndim)
    if axes and g.maybe(0.75):
        inputs.append(g.constant(axes))
    elif op == "ReduceSum" and g.opset >= 13 or g.opset >= 18:
        if g.maybe(0.5):
            inputs.append(g.constant([]))
        at["noop_with_empty_axes"] = g.r.randrange(2)
    return g.node(op, inputs, **at)


def softmax(g):
    name, a = g.pick(F32, F32, F32, F64, least=1)
    return g.node(g.r.choice(["Softmax", "Softmax", "LogSoftmax", "Hardmax"]), [name], axis=g.axis(a) if g.opset >= 11 else
                  g.r.randrange(a.ndim))


def matmul(g):
    name, a = g.pick(*([F32, F32, F32, I32, F64] if g.opset >= 9 else [F32]), least=1)
    k = a.shape[-1]
    shapes = [[k], [k, g.r.choice([0, 1, 3, 8, 17])], [2, k, 3] if a.ndim == 1 else [*g.broadcast(a.shape[:-2]), k, 4]]
    return g.node("MatMul", [name, g.new(g.r.choice(shapes), a.dtype)])


def gemm(g):
    m, k, n = (g.r.choice([1, 2, 4, 7, 0, 3]) for _ in range(3))
    a, b = g.r.randrange(2), g.r.randrange(2)
    inputs = [g.new((k, m) if a else (m, k)), g.new((n, k) if b else (k, n))]
    if g.opset < 11 or g.maybe(0.7):
        inputs.append(g.new(g.r.choice([(n,), (1,), (), (m, 1), (m, n), (1, n)])))
    scales = {name: g.r.choice([0.5, 2.0, 0.0]) for name in ("alpha", "beta") if g.maybe(0.4)}
    return g.node("Gemm", inputs, transA=a, transB=b, **scales)


EQUATIONS = ["ij,jk->ik", "bij,bjk->bik", "ii->i", "ij->ji", "i,j->ij", "...ij,...jk->...ik", "bhqd,bhkd->bhqk", "ij->",
             "ij,ij->i", "ij,k", "iij->j"]


def einsum(g):
    g.needs(12)
    equation = g.r.choice(EQUATIONS)
    extents = {letter: g.r.choice([1, 2, 3, 4]) for letter in "ijkbhqd"}
    terms = equation.split("->")[0].replace("...", "b").split(",")
    return g.node("Einsum", [g.new([extents[letter] for letter in term]) for term in terms], equation=equation)


def normalisation(g):
    op = g.r.choice(["BatchNormalization", "InstanceNormalization", "LayerNormalization:17", "LRN", "LpNormalization",
                     "MeanVarianceNormalization:9", "GroupNormalization:21"])
    op = drawn_op(g, [op])
    if op == "LayerNormalization":
        name, a = g.pick(F32, least=1)
        axis = g.axis(a)
        row = a.shape[axis % a.ndim:]
        return g.node(op, [name, g.new(row), *([g.new(row)] if g.maybe(0.6) else [])], axis=axis,
                      epsilon=g.r.choice([1e-5, 1e-2]))
    if op == "LpNormalization":
        name, a = g.pick(F32, least=1)
        return g.node(op, [name], axis=g.axis(a), p=g.r.choice([1, 2]))
    channels = g.r.choice([1, 2, 4, 6])
    spatial = 2 if op in ("MeanVarianceNormalization", "LRN") else g.r.choice([1, 2, 2, 3])
    x = g.new([g.r.choice([1, 2, 3]), channels, *g.shape(spatial, 0)], constant=False)
    rows = [g.constant(g.array([channels]), F32) for _ in range(3)]
    if op == "BatchNormalization":
        return g.node(op, [x, *rows, g.constant(g.np.random(channels) + 0.1, F32)], epsilon=g.r.choice([1e-5, 1e-3]))
    if op == "InstanceNormalization":
        return g.node(op, [x, *rows[:2]], epsilon=1e-4)
    if op == "GroupNormalization":
        groups = g.r.choice([d for d in (1, 2, 3, 6) if channels % d == 0])
        return g.node(op, [x, *rows[:2]], num_groups=groups, epsilon=1e-3)
    if op == "LRN":
        return g.node(op, [x], size=g.r.choice([1, 2, 3, 5, 4]), alpha=0.5, beta=0.75, bias=g.r.choice([1.0, 2.0]))
    return g.node(op, [x], axes=sorted(g.r.sample(range(4), g.r.randint(1, 3))))


def one_hot(g):
    g.needs(9)
    name = g.new(g.shape(g.r.randint(0, 3), 0), I64)
    rank, values = g.values[name].ndim, g.constant([-1, 2], g.r.choice([F32, I64]))
    return g.node("OneHot", [name, g.constant(g.r.randint(1, 6)), values], axis=g.r.randint(-rank - 1, rank))


def trilu(g):
    g.needs(14)
    name, _ = g.pick(F32, I64, least=2)
    diagonal = g.r.choice([None, -9, -1, 0, 1, 2, 9, 2**40, -2**63, 2**63 - 1])
    return g.node("Trilu", [name] + ([] if diagonal is None else [g.constant(diagonal)]), upper=g.r.randrange(2))


def recurrent(g):
    """Functions with bounds alone: others grow without end, and so does what rounding differs by."""
    op, direction = g.r.choice(["LSTM", "GRU", "RNN"]), g.r.choice(["forward", "reverse", "bidirectional"])
    finite = lambda a: a.size > 0 and np.isfinite(a).all()  # noqa: E731: ONNX Runtime bounds NaN in its functions
    name, x = g.pick(F32, rank=3, least=3, where=finite)
    (steps, images, features), h = x.shape, g.r.choice([1, 2, 5, 17])
    d, rows = 2 if direction == "bidirectional" else 1, h * {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    weights = [g.constant(g.np.standard_normal(shape) / n ** 0.5, F32)
               for shape, n in (((d, rows, features), features), ((d, rows, h), h), ((d, 2 * rows), 1))]
    lengths = g.hold(g.np.integers(0, steps + 1, images).astype(I32)) if g.maybe(0.4) else ""
    states = [g.hold(g.np.standard_normal((d, images, h)).astype(F32)) if g.maybe(0.5) else "" for _ in range(2)]
    inputs = [name, *weights[:2], weights[2] if g.maybe(0.8) else "", lengths, *states[:2 if op == "LSTM" else 1]]
    at = {"hidden_size": h, "direction": direction}
    if g.maybe(0.2):
        at["clip"] = 0.5
    if op == "GRU":
        at["linear_before_reset"] = g.r.randrange(2)
    if op == "LSTM" and g.maybe(0.3):
        inputs.append(g.constant(g.np.standard_normal((d, 3 * h)), F32))
    return g.node(op, inputs, 3 if op == "LSTM" else 2, **at)


NODES = [unary] * 4 + [binary] * 5 + [reduction] * 3 + [normalisation] * 3 + [softmax] * 2 + [matmul] * 2 + [
    where, clip, cast, cumulative, top_k, largest, gemm, einsum, one_hot, trilu, logical_not, recurrent]

