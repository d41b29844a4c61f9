"""The cases of race_ops.py: networks of one op each, with operands for three sizes. Extents are awkward on purpose."""

import math
from dataclasses import dataclass, field

import numpy as np

SIZES = ("small", "middle", "large")
ROWS = {"small": (3, 7), "middle": (197, 255), "large": (2003, 2999)}
IMAGE = {"small": (1, 3, 5, 7), "middle": (1, 16, 57, 55), "large": (1, 64, 301, 307)}
VOLUME = {"small": (1, 2, 3, 5, 7), "middle": (1, 8, 13, 17, 31), "large": (1, 16, 41, 83, 99)}
INPUT_NAMES = "xabcdefgh"


@dataclass
class Case:
    op: str
    inputs: dict          # name -> array, what a run is given
    constants: dict       # name -> array
    operands: list        # names in the op's order, "" for one that is left out
    outputs: list
    attributes: dict = field(default_factory=dict)


def f32(*shape, low=-2.0, high=2.0):
    return np.random.default_rng(math.prod(shape)).uniform(low, high, shape).astype(np.float32)


def whole(kind, low, high, *shape):
    return np.random.default_rng(math.prod(shape)).integers(low, high, shape, dtype=kind)


def i64(*shape): return whole(np.int64, -99, 99, *shape)
def u8(*shape): return whole(np.uint8, 0, 255, *shape)
def truth(*shape): return f32(*shape) > 0


class K:
    """A constant operand."""

    def __init__(self, *numbers, kind=np.int64, of=None):
        self.array = np.array(numbers, kind) if of is None else of


def case(op, *operands, outputs=1, **attributes):
    """Of arrays, constants (K) and None."""
    inputs, constants, names = {}, {}, []
    for name, operand in zip(INPUT_NAMES, operands):
        names.append(name if operand is not None else "")
        if isinstance(operand, K):
            constants[name] = operand.array
        elif operand is not None:
            inputs[name] = operand
    return Case(op, inputs, constants, names, [f"y{i}" for i in range(outputs)], attributes)


def elementwise():
    everywhere = "Abs Atan Ceil Celu Cos Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Mish Neg " \
        "Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Swish Tan Tanh ThresholdedRelu Cosh Asinh Dropout"
    for op in everywhere.split():
        yield op, lambda size, op=op: case(op, f32(*ROWS[size]))
    for op, low, high in (("Acos", -1, 1), ("Asin", -1, 1), ("Atanh", -0.9, 0.9), ("Acosh", 1.1, 4), ("Log", 0.1, 9), ("Sqrt", 0, 9)):
        yield op, lambda size, op=op, low=low, high=high: case(op, f32(*ROWS[size], low=low, high=high))
    yield "Gelu, tanh", lambda size: case("Gelu", f32(*ROWS[size]), approximate="tanh")
    yield "Clip", lambda size: case("Clip", f32(*ROWS[size]), K(of=np.float32(-1)), K(of=np.float32(1)))
    for op in "Add Sub Mul Div Max Min Sum Mean PRelu".split():
        yield op, lambda size, op=op: case(op, f32(*ROWS[size]), f32(*ROWS[size]) + 3)
    for op in "Add Sub Mul Div Max Min Mod".split():
        yield f"{op}, i64", lambda size, op=op: case(op, i64(*ROWS[size]), np.abs(i64(*ROWS[size])) + 1)
    for op in "Equal Greater GreaterOrEqual Less LessOrEqual".split():
        yield op, lambda size, op=op: case(op, f32(*ROWS[size]), f32(*ROWS[size]).round())
    for op in "And Or Xor".split():
        yield op, lambda size, op=op: case(op, truth(*ROWS[size]), ~truth(*ROWS[size]))
    for op in "BitwiseAnd BitwiseOr BitwiseXor".split():
        yield op, lambda size, op=op: case(op, u8(*ROWS[size]), u8(*ROWS[size])[::-1].copy())
    yield "Equal, i64", lambda size: case("Equal", i64(*ROWS[size]), i64(*ROWS[size])[::-1].copy())
    yield "Not", lambda size: case("Not", truth(*ROWS[size]))
    yield "BitwiseNot", lambda size: case("BitwiseNot", u8(*ROWS[size]))
    yield "BitShift", lambda size: case("BitShift", u8(*ROWS[size]), u8(*ROWS[size]) % 8, direction="LEFT")
    yield "Pow", lambda size: case("Pow", f32(*ROWS[size], low=0.1), f32(*ROWS[size]))
    yield "Pow, square", lambda size: case("Pow", f32(*ROWS[size]), K(of=np.float32(2)))
    yield "Mod, fmod", lambda size: case("Mod", f32(*ROWS[size]), f32(*ROWS[size], low=0.3), fmod=1)
    yield "Where", lambda size: case("Where", truth(*ROWS[size]), f32(*ROWS[size]), f32(*ROWS[size]) + 1)
    yield "Add, a row", lambda size: case("Add", f32(*ROWS[size]), f32(ROWS[size][1]))
    yield "Mul, a column", lambda size: case("Mul", f32(*ROWS[size]), f32(ROWS[size][0], 1))
    yield "Mul, of channels", lambda size: case("Mul", f32(*IMAGE[size]), f32(1, IMAGE[size][1], 1, 1))
    yield "Add, a number", lambda size: case("Add", f32(*ROWS[size]), K(of=np.float32(0.5)))
    for kind, to, array in (("f32 to i64", 7, f32), ("i64 to f32", 1, i64), ("f32 to u8", 2, lambda *s: f32(*s, low=0, high=200)),
                            ("u8 to f32", 1, u8), ("f32 to f16", 10, f32), ("bool to f32", 1, truth), ("f32 to bool", 9, f32)):
        yield f"Cast, {kind}", lambda size, to=to, array=array: case("Cast", array(*ROWS[size]), to=to)
    yield "CastLike", lambda size: case("CastLike", f32(*ROWS[size]), i64(1))


def moving():
    def transpose(name, perm, shapes, array=f32):
        return f"Transpose, {name}", lambda size: case("Transpose", array(*shapes[size]), perm=perm)
    yield transpose("rows", [1, 0], ROWS)
    yield transpose("to nhwc", [0, 2, 3, 1], IMAGE)
    yield transpose("to nchw", [0, 3, 1, 2], {size: (n, h, w, c) for size, (n, c, h, w) in IMAGE.items()})
    yield transpose("heads", [0, 2, 1, 3], {"small": (1, 5, 3, 7), "middle": (1, 197, 6, 32), "large": (9, 1001, 12, 64)})
    yield transpose("rows of u8", [1, 0], ROWS, u8)
    yield transpose("rows of i64", [1, 0], ROWS, i64)
    yield "Concat, channels", lambda size: case("Concat", f32(*IMAGE[size]), f32(*IMAGE[size]), axis=1)
    yield "Concat, last axis", lambda size: case("Concat", f32(*ROWS[size]), f32(*ROWS[size]), axis=1)
    yield "Concat, u8", lambda size: case("Concat", u8(*ROWS[size]), u8(*ROWS[size]), axis=1)
    yield "Split", lambda size: case("Split", f32(ROWS[size][0], 2 * ROWS[size][1]), outputs=2, axis=1, num_outputs=2)
    yield "Slice", lambda size: case("Slice", f32(*IMAGE[size]), K(1, 1), K(99999, 99999), K(2, 3))
    yield "Slice, stride 2", lambda size: case("Slice", f32(*IMAGE[size]), K(0, 0), K(99999, 99999), K(2, 3), K(2, 2))
    yield "Pad", lambda size: case("Pad", f32(*IMAGE[size]), K(0, 0, 1, 1, 0, 0, 1, 1))
    yield "Pad, reflect", lambda size: case("Pad", f32(*IMAGE[size]), K(0, 0, 2, 2, 0, 0, 2, 2), mode="reflect")
    yield "Expand", lambda size: case("Expand", f32(ROWS[size][0], 1), K(*ROWS[size]))
    yield "Tile", lambda size: case("Tile", f32(*ROWS[size]), K(2, 2))
    yield "DepthToSpace", lambda size: case("DepthToSpace", f32(1, 4 * IMAGE[size][1], *IMAGE[size][2:]), blocksize=2)
    yield "SpaceToDepth", lambda size: case("SpaceToDepth", f32(1, IMAGE[size][1], 2 * IMAGE[size][2], 2 * IMAGE[size][3]), blocksize=2)
    yield "CenterCropPad", lambda size: case("CenterCropPad", f32(*ROWS[size]), K(ROWS[size][0] - 2, ROWS[size][1] + 2))
    yield "Trilu", lambda size: case("Trilu", f32(*ROWS[size]))
    for op, *rest in (("Reshape", K(-1)), ("Flatten",), ("Unsqueeze", K(0))):
        yield op, lambda size, op=op, rest=rest: case(op, f32(*ROWS[size]), *rest)
    yield "Squeeze", lambda size: case("Squeeze", f32(1, *ROWS[size]), K(0))


def lookups():
    def places(size, *shape):
        return whole(np.int64, 0, ROWS[size][0], *shape)
    yield "Gather, rows", lambda size: case("Gather", f32(*ROWS[size]), places(size, ROWS[size][0]))
    yield "Gather, elements", lambda size: case("Gather", f32(ROWS[size][0]), places(size, *ROWS[size]))
    yield "Gather, last axis", lambda size: case("Gather", f32(*ROWS[size]), places(size, ROWS[size][1]) % ROWS[size][1], axis=1)
    yield "GatherElements, rows", lambda size: case("GatherElements", f32(*ROWS[size]), places(size, *ROWS[size]), axis=0)
    yield "GatherElements, last axis", lambda size: case("GatherElements", f32(*ROWS[size]), places(size, *ROWS[size]) % ROWS[size][1], axis=1)
    yield "GatherElements, middle", lambda size: case("GatherElements", f32(3, *ROWS[size]), places(size, 2, ROWS[size][0], 5), axis=1)
    yield "GatherND, rows", lambda size: case("GatherND", f32(*ROWS[size]), places(size, ROWS[size][0], 1))
    yield "GatherND, elements", lambda size: case("GatherND", f32(*ROWS[size]), np.stack([places(size, ROWS[size][1])] * 2, -1) % 3)
    yield "ScatterElements", lambda size: case("ScatterElements", f32(*ROWS[size]), places(size, *ROWS[size]), f32(*ROWS[size]), axis=0)
    yield "ScatterElements, last axis", lambda size: case(
        "ScatterElements", f32(*ROWS[size]), places(size, *ROWS[size]) % ROWS[size][1], f32(*ROWS[size]), axis=1)
    yield "ScatterElements, add", lambda size: case(
        "ScatterElements", f32(*ROWS[size]), places(size, *ROWS[size]), f32(*ROWS[size]), axis=0, reduction="add")
    yield "ScatterND", lambda size: case("ScatterND", f32(*ROWS[size]), places(size, ROWS[size][0], 1), f32(*ROWS[size]))
    yield "OneHot", lambda size: case("OneHot", places(size, ROWS[size][0]) % ROWS[size][1], K(of=np.int64(ROWS[size][1])), K(0, 1, kind=np.float32))

    def topk(name, shapes, ks, array=f32, **attributes):
        return f"TopK, {name}", lambda size: case("TopK", array(*shapes[size]), K(ks[size]), outputs=2, **attributes)
    wide = {"small": (1, 9), "middle": (1, 8400), "large": (1, 672000)}
    yield topk("wide", wide, {"small": 3, "middle": 300, "large": 300})
    yield topk("of i64", wide, {"small": 3, "middle": 300, "large": 300}, i64)
    yield topk("smallest", wide, {"small": 3, "middle": 300, "large": 300}, largest=0)
    yield topk("a tenth", wide, {"small": 1, "middle": 840, "large": 67200})
    yield topk("all", wide, {"small": 9, "middle": 8400, "large": 672000})
    yield topk("of rows", ROWS, {"small": 2, "middle": 10, "large": 10})
    yield topk("one of rows", ROWS, {"small": 1, "middle": 1, "large": 1})
    yield topk("middle axis", {"small": (1, 5, 3), "middle": (1, 256, 197), "large": (2, 999, 1501)}, {"small": 2, "middle": 10, "large": 10}, axis=1)


def reductions():
    every = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
    for op in every.split():
        yield f"{op}, last", lambda size, op=op: case(op, f32(*ROWS[size], low=0.99, high=1.01), K(-1))
    for op in ("ReduceMax", "ReduceMean", "ReduceSum", "ReduceL2"):
        yield f"{op}, first", lambda size, op=op: case(op, f32(*ROWS[size]), K(0))
        yield f"{op}, all", lambda size, op=op: case(op, f32(*ROWS[size], low=1), keepdims=0)
        yield f"{op}, pixels", lambda size, op=op: case(op, f32(*IMAGE[size]), K(2, 3))
        yield f"{op}, channels", lambda size, op=op: case(op, f32(*IMAGE[size]), K(1))
    yield "ReduceSum, i64", lambda size: case("ReduceSum", i64(*ROWS[size]), K(-1))
    for op in ("ArgMax", "ArgMin"):
        yield f"{op}, last", lambda size, op=op: case(op, f32(*ROWS[size]), axis=-1)
    yield "ArgMax, channels", lambda size: case("ArgMax", f32(*IMAGE[size]), axis=1)
    yield "CumSum, last", lambda size: case("CumSum", f32(*ROWS[size]), K(of=np.int64(1)))
    yield "CumSum, first", lambda size: case("CumSum", f32(*ROWS[size]), K(of=np.int64(0)))
    yield "CumProd", lambda size: case("CumProd", f32(*ROWS[size], low=0.99, high=1.01), K(of=np.int64(1)))


def norms():
    def channels(size): return K(of=f32(IMAGE[size][1], low=0.5))
    def wide(size): return K(of=f32(ROWS[size][1], low=0.5))
    yield "BatchNormalization", lambda size: case("BatchNormalization", f32(*IMAGE[size]), *[channels(size) for _ in range(4)])
    yield "InstanceNormalization", lambda size: case("InstanceNormalization", f32(*IMAGE[size]), channels(size), channels(size))
    yield "GroupNormalization", lambda size: case(
        "GroupNormalization", f32(*IMAGE[size]), channels(size), channels(size), num_groups=1 if size == "small" else 8)
    yield "LayerNormalization", lambda size: case("LayerNormalization", f32(*ROWS[size]), wide(size), wide(size))
    yield "RMSNormalization", lambda size: case("RMSNormalization", f32(*ROWS[size]), wide(size))
    yield "LRN", lambda size: case("LRN", f32(*IMAGE[size]), size=5)
    yield "MeanVarianceNormalization", lambda size: case("MeanVarianceNormalization", f32(*IMAGE[size]))
    for op in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization"):
        yield f"{op}, last", lambda size, op=op: case(op, f32(*ROWS[size]), axis=-1)
        yield f"{op}, channels", lambda size, op=op: case(op, f32(*IMAGE[size]), axis=1)
    yield "Softmax, 197", lambda size: case("Softmax", f32({"small": 1, "middle": 197, "large": 8 * 197 * 12}[size], 197))


def eight_bits():
    scale, zero, mid = K(of=np.float32(0.03)), K(of=np.uint8(128)), K(of=np.int8(0))
    yield "QuantizeLinear", lambda size: case("QuantizeLinear", f32(*ROWS[size]), scale, zero)
    yield "DequantizeLinear", lambda size: case("DequantizeLinear", u8(*ROWS[size]), scale, zero)
    yield "DynamicQuantizeLinear", lambda size: case("DynamicQuantizeLinear", f32(*ROWS[size]), outputs=3)
    products = {"small": (3, 7, 5), "middle": (64, 127, 65), "large": (512, 1023, 515)}

    def weights(*shape): return K(of=whole(np.int8, -64, 64, *shape))
    yield "MatMulInteger", lambda size: case("MatMulInteger", u8(*products[size][:2]), weights(*products[size][1:]), zero, mid)
    yield "QLinearMatMul", lambda size: case(
        "QLinearMatMul", u8(*products[size][:2]), scale, zero, weights(*products[size][1:]), scale, mid, K(of=np.float32(2)), zero)
    pictures = {"small": (1, 3, 5, 7), "middle": (1, 16, 29, 27), "large": (1, 64, 113, 115)}
    yield "QLinearConv", lambda size: case(
        "QLinearConv", u8(*pictures[size]), scale, zero, weights(pictures[size][1], pictures[size][1], 3, 3), scale, mid,
        K(of=np.float32(2)), zero, pads=[1] * 4)
    yield "ConvInteger", lambda size: case(
        "ConvInteger", u8(*pictures[size]), weights(pictures[size][1], pictures[size][1], 3, 3), zero, pads=[1] * 4)


def products():
    def conv(name, channels, filters, kernel, pixels, groups=1, op="Conv", **attributes):
        def make(size):
            i = SIZES.index(size)
            c, f = channels[i], filters[i]
            g = groups[i] if isinstance(groups, tuple) else groups
            weight = (f, c // g, *kernel) if op == "Conv" else (c, f // g, *kernel)
            return case(op, f32(1, c, *pixels[i]), K(of=f32(*weight)), group=g, **attributes)
        return f"{op}, {name}", make
    tall, near = ((5, 7), (29, 27), (113, 115)), [1] * 4
    yield conv("3×3", (3, 32, 64), (5, 32, 64), (3, 3), tall, pads=near)
    yield conv("1×1", (3, 64, 256), (5, 64, 64), (1, 1), tall)
    yield conv("3×3 stride 2", (3, 32, 64), (5, 32, 128), (3, 3), tall, pads=near, strides=[2, 2])
    yield conv("depthwise 3×3", (3, 32, 96), (3, 32, 96), (3, 3), tall, (3, 32, 96), pads=near)
    yield conv("depthwise 7×7", (3, 32, 96), (3, 32, 96), (7, 7), tall, (3, 32, 96), pads=[3] * 4)
    yield conv("groups of 4", (8, 32, 128), (8, 32, 128), (3, 3), tall, (2, 8, 32), pads=near)
    first = ((17, 19), (65, 63), (301, 307))
    yield conv("one channel", (1,) * 3, (8, 8, 32), (3, 3), first, pads=near)
    yield conv("three groups 5×5", (3,) * 3, (6,) * 3, (5, 5), first, 3, pads=[2] * 4)
    yield conv("three groups 3×3", (3,) * 3, (3,) * 3, (3, 3), first, 3, pads=near)
    yield conv("two groups 3×3", (6,) * 3, (10,) * 3, (3, 3), first, 2, pads=near)
    yield conv("first 3×3 stride 2", (3,) * 3, (16, 16, 32), (3, 3), first, pads=near, strides=[2, 2])
    yield conv("first 7×7 stride 2", (3,) * 3, (16, 32, 64), (7, 7), first, pads=[3] * 4, strides=[2, 2])
    yield conv("first 4×4 stride 4", (3,) * 3, (16, 32, 96), (4, 4), first, strides=[4, 4])
    yield conv("last 3×3", (8, 16, 32), (1, 3, 3), (3, 3), first, pads=near)
    yield conv("dilated", (3, 32, 64), (5, 32, 64), (3, 3), tall, pads=[2] * 4, dilations=[2, 2])
    yield conv("1-D", (3, 32, 128), (5, 32, 128), (5,), ((17,), (499,), (9999,)), pads=[2, 2])
    yield conv("3-D", (2, 8, 16), (3, 8, 16), (3, 3, 3), ((3, 5, 7), (9, 15, 13), (31, 37, 41)), pads=[1] * 6)
    yield conv("2×2 stride 2", (3, 32, 64), (5, 32, 32), (2, 2), tall, op="ConvTranspose", strides=[2, 2])
    yield conv("4×4 stride 2", (3, 32, 64), (5, 16, 32), (4, 4), tall, op="ConvTranspose", strides=[2, 2], pads=near)
    shape = {"small": (3, 7, 5), "middle": (64, 127, 65), "large": (1023, 1025, 515)}
    yield "Gemm", lambda size: case("Gemm", f32(*shape[size][:2]), K(of=f32(*shape[size][1:])), K(of=f32(shape[size][2])))
    yield "Gemm, one row", lambda size: case("Gemm", f32(1, shape[size][1]), K(of=f32(4 * shape[size][2], shape[size][1])), transB=1)
    yield "MatMul", lambda size: case("MatMul", f32(*shape[size][:2]), f32(*shape[size][1:]))
    batch = {"small": (2, 3, 7), "middle": (8, 49, 33), "large": (24, 197, 65)}
    yield "MatMul, batches", lambda size: case("MatMul", f32(*batch[size]), f32(batch[size][0], *batch[size][:0:-1]))
    yield "MatMul, one row", lambda size: case("MatMul", f32(1, shape[size][1]), f32(*shape[size][1:]))
    yield "MatMul, i32", lambda size: case(
        "MatMul", whole(np.int32, -9, 9, *batch[size]), whole(np.int32, -9, 9, batch[size][0], *batch[size][:0:-1]))
    yield "Einsum", lambda size: case(
        "Einsum", f32(*batch[size]), f32(batch[size][0], *batch[size][:0:-1]), equation="bij,bjk->bik")
    heads = {"small": (1, 2, 5, 8), "middle": (1, 4, 49, 32), "large": (1, 12, 577, 64)}
    yield "Attention", lambda size: case("Attention", *[f32(*heads[size]) for _ in range(3)])


def windows():
    def pool(name, op, shapes, **attributes):
        return f"{op}, {name}", lambda size: case(op, f32(*shapes[size]), **attributes)
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield pool("3×3 stride 2", op, IMAGE, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        yield pool("2×2 stride 2", op, IMAGE, kernel_shape=[2, 2], strides=[2, 2])
        yield pool("3×3 stride 1", op, IMAGE, kernel_shape=[3, 3], pads=[1] * 4)
        yield pool("3-D", op, VOLUME, kernel_shape=[2, 2, 2], strides=[2, 2, 2])
        yield pool("1-D", op, {size: shape[:3] if size == "small" else (1, shape[1], shape[2] * shape[3]) for size, shape in IMAGE.items()},
                   kernel_shape=[3], strides=[2])
    yield pool("5×5 stride 1", "MaxPool", IMAGE, kernel_shape=[5, 5], pads=[2] * 4)
    for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield op, lambda size, op=op: case(op, f32(*IMAGE[size]))
        yield f"{op}, 3-D", lambda size, op=op: case(op, f32(*VOLUME[size]))


def resizing():
    half = {"small": (1, 3, 5, 7), "middle": (1, 16, 29, 27), "large": (1, 64, 151, 153)}

    def resize(name, scale, **attributes):
        return f"Resize, {name}", lambda size: case(
            "Resize", f32(*half[size]), None, K(1, 1, scale, scale, kind=np.float32), **attributes)
    yield resize("nearest", 2, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield resize("linear", 2, mode="linear")
    yield resize("linear, corners", 2, mode="linear", coordinate_transformation_mode="align_corners")
    yield resize("cubic", 2, mode="cubic")
    yield resize("linear, down", 0.5, mode="linear")

    def grid(name, **attributes):
        def make(size):
            n, _, h, w = half[size]
            return case("GridSample", f32(*half[size]), f32(n, h, w, 2, low=-1.1, high=1.1), **attributes)
        return f"GridSample, {name}", make
    yield grid("linear", mode="linear")
    yield grid("linear, border", mode="linear", padding_mode="border")
    yield grid("linear, reflection", mode="linear", padding_mode="reflection", align_corners=1)
    yield grid("nearest", mode="nearest")
    yield grid("cubic", mode="cubic")
    yield "GridSample, smooth", lambda size: case("GridSample", f32(*half[size]), np.ascontiguousarray(np.stack(np.meshgrid(
        np.linspace(-1, 1, half[size][3], dtype=np.float32), np.linspace(-1, 1, half[size][2], dtype=np.float32)), -1)[None] * np.float32(0.95)))
    yield "GridSample, 3-D", lambda size: case("GridSample", f32(*VOLUME[size]), f32(1, *VOLUME[size][2:], 3, low=-1.1, high=1.1))


def cases():
    """(name, size -> Case) of all."""
    for group in (elementwise, moving, lookups, reductions, norms, eight_bits, products, windows, resizing):
        yield from group()
