"""Shapes, elements in other places, places that an operand says."""

import numpy as np
from onnx import TensorProto as T
from onnx import numpy_helper

from .draw import BOOL, F32, I32, I64, U8, Skip

FAR = [2**31 - 1, -2**31, 2**63 - 1, 1 - 2**63, 1000, -1000]


def reshape(g):
    name, a = g.pick(F32, F32, I64, BOOL)
    plain = g.opset >= 14 and g.maybe(0.2)
    if a.size == 0:
        to = g.r.choice([list(a.shape), [0] * min(a.ndim, 2), [-1], [2, -1], [0, 3, -1]])
    else:
        to, left = [], a.size
        while left > 1:
            factor = g.r.choice([k for k in range(2, left + 1) if left % k == 0])
            to.append(factor)
            left //= factor
        for _ in range(g.r.randrange(2)):
            to.insert(g.r.randrange(len(to) + 1), 1)
        if to and g.maybe(0.4):
            to[g.r.randrange(len(to))] = -1
        for i in range(min(len(to), a.ndim)):
            if to[i] == a.shape[i] and not plain and g.maybe(0.4):
                to[i] = 0
    return g.node("Reshape", [name, g.constant(to)], **({"allowzero": 1} if plain else {}))


def flatten(g):
    name, a = g.pick(*([F32, I64] if g.opset >= 9 else [F32]))
    return g.node("Flatten", [name], axis=g.r.randint(-a.ndim if g.opset >= 11 else 0, a.ndim))


def squeeze(g):
    name, a = g.pick(F32, I64)
    ones = [i for i, n in enumerate(a.shape) if n == 1]
    if not ones or g.maybe(0.2):
        return g.node("Squeeze", [name])
    axes = [g.signed(axis, a.ndim) if g.opset >= 11 else axis for axis in g.r.sample(ones, g.r.randint(1, len(ones)))]
    return g.node("Squeeze", [name, g.constant(axes)])


def unsqueeze(g):
    name, a = g.pick(F32, I64)
    more = g.r.randint(1, 2)
    axes = g.r.sample(range(a.ndim + more), more)
    return g.node("Unsqueeze", [name, g.constant([g.signed(x, a.ndim + more) if g.opset >= 11 else x for x in axes])])


def transpose(g):
    name, a = g.pick(F32, F32, I64, U8, BOOL)
    order = list(range(a.ndim))
    g.r.shuffle(order)
    return g.node("Transpose", [name], **({} if g.maybe(0.2) else {"perm": order}))


def concat(g):
    name, a = g.pick(F32, F32, I64, BOOL, least=1)
    axis, inputs = g.r.randrange(a.ndim), [name]
    for _ in range(g.r.randint(0, 3)):
        shape = list(a.shape)
        shape[axis] = g.r.choice([0, 1, 2, 3])
        inputs.append(name if g.maybe(0.2) else g.new(shape, a.dtype))
    g.r.shuffle(inputs)
    return g.node("Concat", inputs, axis=g.signed(axis, a.ndim) if g.opset >= 11 else axis)


def split(g):
    name, a = g.pick(F32, I64, least=1)
    axis, parts = g.r.randrange(a.ndim), g.r.randint(1, 3)
    if g.maybe(0.6):
        cuts = sorted(g.r.randint(0, a.shape[axis]) for _ in range(parts - 1))
        return g.node("Split", [name, g.constant(np.diff([0, *cuts, a.shape[axis]]))], parts, axis=axis)
    return g.node("Split", [name], parts, axis=axis, **({"num_outputs": parts} if g.opset >= 18 else {}))


def slices(g):
    name, a = g.pick(F32, F32, I64, U8, least=1)
    begin, end, step, axes = [], [], [], g.axes(a.ndim)
    for axis in axes:
        n = a.shape[axis]
        pair = [g.r.choice(FAR) if g.maybe(0.2) else g.r.randint(-n - 1, n + 1) for _ in range(2)]
        step.append(1 if g.opset < 10 else g.r.choice([1, 1, 1, 2, 3, -1, -2, 7, *FAR, 2**62]))
        if step[-1] > 0 and g.maybe(0.6) and pair[0] % max(n, 1) > pair[1] % max(n, 1):
            pair.reverse()
        if step[-1] < 0:  # an end far behind: ONNX Runtime takes the last element, NumPy none
            pair[1] = min(pair[1], n)
        begin.append(pair[0])
        end.append(pair[1])
    operands = [begin, end, axes] + ([step] if g.opset >= 10 else [])
    return g.node("Slice", [name, *map(g.constant, operands)])


def pad(g):
    name, a = g.pick(*([F32, F32, I64] if g.opset >= 11 else [F32]), least=1)
    mode = g.r.choice(["constant", "constant", "reflect", "edge"] + (["wrap"] if g.opset >= 19 else []))
    axes = g.r.sample(range(a.ndim), g.r.randint(1, a.ndim)) if g.opset >= 18 and g.maybe(0.3) else None
    count = 2 * (a.ndim if axes is None else len(axes))
    inputs = [name, g.constant([g.r.choice([0, 0, 1, 2, -1]) for _ in range(count)])]
    fill = mode == "constant" and g.maybe(0.6)
    inputs.append(g.constant(3, a.dtype) if fill else "")
    if axes is not None:
        inputs.append(g.constant(axes))
    return g.node("Pad", inputs, mode=mode)


def tile(g):
    name, a = g.pick(F32, I64)
    return g.node("Tile", [name, g.constant([g.r.choice([0, 1, 1, 2, 3]) for _ in a.shape])])


def expand(g):
    g.needs(8)
    name, a = g.pick(F32, I64, BOOL)
    to = [g.r.choice([1, n]) if n != 1 else g.r.choice([1, 2, 3, 0]) for n in a.shape]
    to = [g.r.choice([1, 2]), *to] if g.maybe(0.4) else to[g.r.randint(0, len(to)):] if g.maybe(0.3) else to
    return g.node("Expand", [name, g.constant(to)])


def places(g, shape, extent):
    if extent == 0:
        raise Skip
    low = -extent if g.opset >= 11 else 0
    return g.hold(np.asarray(g.np.integers(low, extent, shape)).astype(g.r.choice([I64, I64, I32])), g.maybe(0.5))


def gather(g):
    name, a = g.pick(F32, F32, I64, U8, least=1)
    axis = g.axis(a)
    return g.node("Gather", [name, places(g, g.shape(g.r.choice([0, 1, 1, 2])), a.shape[axis])], axis=axis)


def gather_elements(g):
    g.needs(11)
    name, a = g.pick(F32, F32, I64, U8, least=1)
    axis = g.r.randrange(a.ndim)
    shape = [g.r.randint(0, 4) if d == axis else g.r.randint(min(1, n), n) for d, n in enumerate(a.shape)]
    return g.node("GatherElements", [name, places(g, shape, a.shape[axis])], axis=axis)


def gather_nd(g):
    g.needs(11)
    name, a = g.pick(F32, F32, I64, U8, least=1, where=lambda a: a.size > 0)
    batch = g.r.choice([0, 0, 1]) if a.ndim > 1 and g.opset >= 12 else 0
    depth = g.r.randint(1, a.ndim - batch)
    lead = [*a.shape[:batch], *g.shape(g.r.randint(0, 2), 0)]
    at = [g.np.integers(-a.shape[batch + d], a.shape[batch + d], lead) for d in range(depth)]
    held = g.hold(np.stack(at, -1).astype(I64), g.maybe(0.5))
    return g.node("GatherND", [name, held], **({"batch_dims": batch} if g.opset >= 12 else {}))


def scatter(g):
    g.needs(11)
    name, a = g.pick(F32, F32, I64, least=1, where=lambda a: a.size > 0)
    kinds = ["none", "none"] + (["add", "mul"] if g.opset >= 16 else []) + (["max", "min"] if g.opset >= 18 else [])
    kind = g.r.choice(kinds)
    at = {} if kind == "none" else {"reduction": kind}
    if g.maybe(0.5):
        axis, shape = g.r.randrange(a.ndim), [g.r.randint(1, n) for n in a.shape]
        if kind == "none":  # no place twice: which one stays is not said
            order = np.argsort(g.np.random([*shape[:axis], a.shape[axis], *shape[axis + 1:]]), axis=axis)
            index = order.take(range(shape[axis]), axis=axis)
        else:
            index = g.np.integers(-a.shape[axis], a.shape[axis], shape)
        held = g.hold(index.astype(I64), g.maybe(0.5))
        return g.node("ScatterElements", [name, held, g.new(shape, a.dtype)], axis=axis, **at)
    depth = g.r.randint(1, a.ndim)
    slots = int(np.prod(a.shape[:depth]))
    count = g.r.randint(1, min(slots, 4))
    flat = g.np.permutation(slots)[:count] if kind == "none" else g.np.integers(0, slots, count)
    index = np.stack(np.unravel_index(flat, a.shape[:depth]), -1).astype(I64)
    return g.node("ScatterND", [name, g.hold(index, g.maybe(0.5)), g.new([count, *a.shape[depth:]], a.dtype)], **at)


def depth_and_space(g):
    b = g.r.choice([1, 2, 3])
    if g.maybe(0.5):
        x = g.new((g.r.choice([1, 2]), b * b * g.r.choice([1, 2]), g.r.choice([1, 2, 3]), g.r.choice([1, 3])))
        return g.node("DepthToSpace", [x], blocksize=b, **({"mode": g.r.choice(["DCR", "CRD"])} if g.opset >= 11 else {}))
    x = g.new((g.r.choice([1, 2]), g.r.choice([1, 3]), b * g.r.choice([1, 2]), b * 2))
    return g.node("SpaceToDepth", [x], blocksize=b)


def shape_of(g):
    name, _ = g.pick(F32, I64)
    at = {key: g.r.randint(-7, 7) for key in ("start", "end") if g.opset >= 15 and g.maybe(0.5)}
    return g.node("Size", [name]) if g.maybe(0.2) else g.node("Shape", [name], **at)


def constant_of_shape(g):
    g.needs(9)
    value = g.r.choice([np.array([2.5], F32), np.array([7], I64), np.array([True]), np.array([-3], I32)])
    at = {} if g.maybe(0.3) else {"value": numpy_helper.from_array(value)}
    return g.node("ConstantOfShape", [g.constant(g.shape(g.r.randint(0, 4)))], **at)


def numbers(g):
    g.needs(11)
    dtype, step = g.r.choice([I64, F32, I32]), g.r.choice([1, 2, -1, -3, 1])
    if dtype == F32 and g.maybe(0.5):
        step = g.r.choice([0.5, 0.25, -0.75])
    return g.node("Range", [g.constant(x, dtype) for x in (g.r.randint(-5, 5), g.r.randint(-5, 9), step)])


def eye_like(g):
    g.needs(9)
    name, _ = g.pick(F32, I64, rank=2)
    at = {"dtype": g.r.choice([T.FLOAT, T.INT64, T.INT32])} if g.maybe(0.5) else {}
    return g.node("EyeLike", [name], k=g.r.randint(-6, 6), **at)


def centre_crop_pad(g):
    g.needs(18)
    name, a = g.pick(F32, least=1)
    return g.node("CenterCropPad", [name, g.constant([g.r.randint(1, 7) for _ in a.shape])])


def non_zero(g):
    g.needs(9)
    return g.node("NonZero", [g.hold(g.array(g.shape(g.r.randint(1, 3)), g.r.choice([F32, I64, BOOL])), True)])


def compress(g):
    g.needs(9)
    name, a = g.pick(F32, least=1)
    axis = g.r.randrange(a.ndim)
    return g.node("Compress", [name, g.hold(g.array([g.r.randint(0, a.shape[axis])], BOOL), True)], axis=axis)


NODES = [reshape, transpose, concat, pad] * 2 + [slices] * 3 + [
    flatten, squeeze, unsqueeze, split, tile, expand, gather, gather_elements, gather_nd, scatter, depth_and_space, shape_of,
    constant_of_shape, numbers, eye_like, centre_crop_pad, non_zero, compress]
