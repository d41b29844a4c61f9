"""Values of which a run alone knows how many elements they have, and what is done to them. Each gives a list of nodes."""

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from .draw import BOOL, F32, I64, Skip


def given(g, shape, dtype=F32):
    return g.hold(g.array(tuple(shape), dtype), False)


def non_zero(g):
    g.needs(13)
    name = given(g, g.shape(g.r.randint(1, 3)), g.r.choice([F32, I64, BOOL]))
    nodes = [g.node("NonZero", [name])]
    if g.maybe(0.7):
        nodes.append(g.node("Transpose", [nodes[0].output[0]], perm=[1, 0]))
        if g.maybe(0.7):
            nodes.append(g.node("GatherND", [given(g, g.values[name].shape), nodes[1].output[0]]))
    elif g.maybe(0.5):
        nodes.append(g.node("Cast", [nodes[0].output[0]], to=T.FLOAT))
    return nodes


def compress(g):
    g.needs(13)
    name, a = g.pick(F32, F32, I64, least=1)
    if g.maybe(0.2):
        return [g.node("Compress", [name, given(g, [a.size], BOOL)])]
    axis = g.r.randrange(a.ndim)
    return [g.node("Compress", [name, given(g, [a.shape[axis]], BOOL)], axis=axis)]


def unique(g):
    g.needs(13)
    name, a = g.pick(F32, I64, least=1, where=lambda a: a.size and not (a.dtype == F32 and np.isnan(a).any()))
    axis = {"axis": g.r.randrange(a.ndim)} if g.maybe(0.5) else {}
    return [g.node("Unique", [name], g.r.choice([1, 4]), sorted=g.r.randrange(2), **axis)]


def suppress(g):
    g.needs(13)
    batch, classes, boxes = g.r.randint(1, 2), g.r.randint(1, 3), g.r.randint(1, 12)
    place = given(g, [batch, boxes, 4])
    scores = g.hold(np.nan_to_num(g.array((batch, classes, boxes)), nan=1.0), False)  # NaN is no score here, docs/inside/ops.md
    operands = [place, scores, g.constant([g.r.choice([0, 1, 3, 20])])]
    operands += [g.hold(np.asarray([g.r.choice([0.0, 0.3, 0.5, 1.0])], F32))] if g.maybe(0.8) else []
    operands += [g.hold(np.asarray([g.r.choice([-1.0, 0.0, 0.5, 9.0])], F32))] if len(operands) > 3 and g.maybe(0.7) else []
    nodes = [g.node("NonMaxSuppression", operands, center_point_box=g.r.randrange(2))]
    if g.maybe(0.6):
        box, flat, row = g.node("Gather", [nodes[0].output[0], g.constant([2])], axis=1), g.constant([1]), g.constant([0])
        flat_box = g.node("Squeeze", [box.output[0], flat])
        one = g.node("Gather", [place, g.constant(0)], axis=0)
        nodes += [box, flat_box, one, g.node("Gather", [one.output[0], flat_box.output[0]], axis=0)]
    return nodes


def by_places(g, counted, count, kind):
    """Elements from places that a run computes of how many there are, of `counted` or of others."""
    extent = g.r.randint(2, 9)
    name, back = g.new([extent], constant=False), g.node("Neg", [count])
    part = g.node("Mod", [count, g.constant([g.r.randint(1, 5)])])
    if kind == 6:
        ends = [count, back.output[0], g.constant([g.r.choice([0, 1, -1, 3, 100, -100])])]
        return [back, g.node("Slice", [name, g.r.choice(ends[:2]), g.r.choice(ends), g.constant([0]), g.constant([g.r.choice([1, 1, 2, -1, -2])])])]
    if kind == 7:
        rest = g.node("Sub", [g.constant([g.r.randint(3, 12)]), count])
        found = g.node("NonZero", [given(g, [g.r.randint(1, 12)])])
        other = g.node("Shape", [found.output[0]], start=1, end=2) if g.opset > 14 else g.node("Size", [found.output[0]])
        pads = [count, back.output[0], rest.output[0], part.output[0], g.constant([g.r.choice([0, 1, 2])])]
        pads += [other.output[0]] * (g.opset > 14)
        both = g.node("Concat", [g.r.choice(pads), g.r.choice(pads)], axis=0)
        modes = ["constant", "edge", "reflect"] + ["wrap"] * (g.opset > 18)
        if g.values[counted].ndim == 1 and g.maybe(0.5):
            name = counted
        return [back, part, rest, found, other, both, g.node("Pad", [name, both.output[0]], mode=g.r.choice(modes))]
    if kind == 8:
        part = g.r.choice([part, g.node("Min", [count, g.constant([extent])]), g.node("Sub", [count, g.constant([1])])])
        sizes = [part.output[0], g.node("Sub", [g.constant([extent]), part.output[0]])]
        both = g.node("Concat", [sizes[0], sizes[1].output[0]], axis=0)
        return [part, sizes[1], both, g.node("Split", [name, both.output[0]], 2, axis=0)]
    size = g.node("Concat", [g.constant([1, 1]), g.node("Max", [count, g.constant([1])]).output[0]], axis=0)
    most = helper.make_node("Max", [count, g.constant([1])], [size.input[1]])
    how = {"mode": g.r.choice(["nearest", "linear", "cubic"]),
           "coordinate_transformation_mode": g.r.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])}
    return [most, size, g.node("Resize", [g.new([1, 1, extent], constant=False), "", "", size.output[0]], **how)]


def of_shape(g):
    """What exporters compute from how many there are."""
    g.needs(13)
    name, a = g.pick(F32, I64, least=1, fresh=0)
    axis = g.r.randrange(a.ndim)
    shape = g.node("Shape", [name])
    nodes = [shape, g.node("Gather", [shape.output[0], g.constant([axis])])]
    count = nodes[1].output[0]
    kind = g.r.randrange(10)
    if kind > 5:
        nodes += by_places(g, name, count, kind)
    elif kind == 0:
        scalar = g.node("Squeeze", [count])
        nodes += [scalar, g.node("Range", [g.constant(g.r.randint(-2, 3)), scalar.output[0], g.constant(g.r.choice([1, 1, 2]))])]
    elif kind == 1:
        whole = g.node("Concat", [count, g.constant([g.r.randint(1, 3)])], axis=0)
        nodes += [whole, g.node("ConstantOfShape", [whole.output[0]])]
    elif kind == 2:
        whole = g.node("Concat", [count, g.constant([3])], axis=0)
        nodes += [whole, g.node("Expand", [g.new([g.r.choice([1, 1, 3])] if g.maybe(0.5) else [1, 3]), whole.output[0]])]
    elif kind == 3:
        some = g.node("Min", [count, g.constant([g.r.randint(0, 6)])])
        nodes += [some, g.node("TopK", [name, some.output[0]], 2, axis=axis, largest=g.r.randrange(2))]
    elif kind == 4:
        nodes.append(g.node("Slice", [g.new([g.r.randint(2, 9)]), g.constant([g.r.choice([0, 1, -3])]), count, g.constant([0])]))
    else:
        nodes.append(g.node("Cast", [count], to=T.FLOAT))
    return nodes


def along(g):
    """What looks along an axis, or at places of one."""
    g.needs(13)
    name, a = g.pick(F32, F32, I64, least=1, fresh=0, where=lambda a: not (a.dtype == F32 and np.isnan(a).any()))
    axis = g.r.randrange(a.ndim)
    kind = g.r.randrange(13)
    if kind == 0 and a.dtype == F32:
        return [g.node(g.r.choice(["Softmax", "LogSoftmax"]), [name], axis=axis)]
    if kind == 1:
        return [g.node(g.r.choice(["ArgMax", "ArgMin"]), [name], axis=axis, keepdims=g.r.randrange(2))]
    if kind == 2:
        return [g.node("TopK", [name, g.constant([g.r.randint(0, min(3, a.shape[axis]))])], 2, axis=axis,
                       largest=g.r.randrange(2))]
    if kind == 3:
        return [g.node("CumSum", [name, g.constant(axis)], reverse=g.r.choice([0, 0, 1]), exclusive=g.r.randrange(2))]
    if kind == 4:
        return [g.node("Concat", [name] * g.r.randint(2, 3), axis=axis)]
    if kind == 5 and a.shape[axis]:
        places = g.hold(g.np.integers(-a.shape[axis], a.shape[axis], g.shape(g.r.randint(0, 2), 0)).astype(I64))
        return [g.node("Gather", [name, places], axis=axis)]
    if kind == 6:
        bounds = [g.r.choice([0, 1, -1, -2, 2, 100, -100]) for _ in range(2)]
        return [g.node("Slice", [name, *(g.constant([v]) for v in (*bounds, axis, g.r.choice([1, 1, 2, -1, -2])))])]
    if kind == 7 and a.ndim == 2 and a.dtype == F32:
        turned = g.node("Transpose", [name], perm=[1, 0])
        pair = [name, turned.output[0]]
        return [turned, g.node("MatMul", pair if g.maybe(0.5) else pair[::-1])]
    if kind == 8:
        to = [-1] if g.maybe(0.5) else [*a.shape[:axis], -1, *a.shape[axis + 1:]]
        if 0 in to:
            raise Skip
        return [g.node("Reshape", [name, g.constant(to)])]
    if kind == 9 and a.dtype == F32 and a.shape[axis]:
        pads = [0] * (2 * a.ndim)
        pads[axis], pads[axis + a.ndim] = g.r.randint(0, a.shape[axis] - 1), g.r.randint(0, a.shape[axis] - 1)
        return [g.node("Pad", [name, g.constant(pads)], mode=g.r.choice(["constant", "edge", "reflect"]))]
    if kind == 10 and a.dtype == F32 and a.ndim == 3 and a.size:
        scales = [1.0, 1.0, g.r.choice([0.5, 2.0, 2.3, 3.0])]
        return [g.node("Resize", [name, "", g.hold(np.asarray(scales, F32), True)], mode=g.r.choice(["nearest", "linear"]))]
    if kind == 11 and a.dtype == F32 and a.ndim > 1 and g.opset >= 17 and a.shape[-1]:
        return [g.node("LayerNormalization", [name, g.new([a.shape[-1]])], axis=-1)]
    if kind == 12 and a.dtype == F32 and a.ndim == 3 and a.size:
        cell, units = g.r.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)]), g.r.randint(1, 3)
        directions = g.r.randint(1, 2)
        weights = [g.hold(g.array((directions, cell[1] * units, n), F32, 0), True) for n in (a.shape[2], units)]
        return [g.node(cell[0], [name, *weights], 2, hidden_size=units,
                       direction=g.r.choice(["forward", "reverse"]) if directions == 1 else "bidirectional")]
    op = "Reduce" + g.r.choice("Sum Mean Max Min Prod L1 L2 SumSquare LogSumExp".split())
    if a.dtype != F32 or a.shape[axis] == 0:
        raise Skip
    return [g.node(op, [name, g.constant([axis])] if op == "ReduceSum" or g.opset >= 18 else [name],
                   keepdims=g.r.randrange(2), **({} if op == "ReduceSum" or g.opset >= 18 else {"axes": [axis]}))]


def scalar(g, condition):
    """(nodes, name) of a truth that a run makes of an input."""
    given_one = given(g, [g.r.randint(1, 4)])
    least = g.node("ReduceSum", [given_one, g.constant([0])], keepdims=0)
    return [least, g.node(condition, [least.output[0], g.constant(0.0, F32)])], given_one


def branch(g, name, a):
    """A body of one op, and maybe of one more, on a value from outside of it."""
    shape = list(a.shape)
    if a.dtype == F32 and a.ndim and g.maybe(0.3):
        op, shape = g.node("ReduceSum", [name, "axis"], keepdims=1), [1, *a.shape[1:]]
        nodes = [helper.make_node("Constant", [], ["axis"], value_ints=[0]), op]
    else:
        other = helper.make_tensor("other", helper.np_dtype_to_tensor_dtype(a.dtype), [1], [g.r.randint(1, 5)])
        nodes = [helper.make_node("Constant", [], ["other"], value=other), g.node(g.r.choice("Add Mul Sub".split()), [name, "other"])]
        shape = shape or [1]
    if a.dtype == F32 and g.maybe(0.5):
        nodes.append(g.node(g.r.choice("Relu Neg Abs".split()), [nodes[-1].output[0]]))
    result = helper.make_tensor_value_info(nodes[-1].output[0], helper.np_dtype_to_tensor_dtype(a.dtype), shape)
    return helper.make_graph(nodes, "branch", [], [result])


def decided(g):
    """An If by what a run computes; its branches may give different extents."""
    g.needs(13)
    name, a = g.pick(F32, F32, I64, fresh=0)
    nodes, _ = scalar(g, g.r.choice(["Greater", "Less"]))
    # Named outside too: what only branches read would not be bound.
    return [*nodes, g.node("Identity", [name]), g.node("If", [nodes[-1].output[0]], then_branch=branch(g, name, a), else_branch=branch(g, name, a))]


def looped(g):
    """As often as a run says, and until it says that it is enough: what is added up, and each sum on the way."""
    g.needs(13)
    a = g.array(g.shape(g.r.randint(1, 2), 0), F32, 0)
    name, trips = given(g, a.shape), g.hold(np.asarray(g.r.randint(0, 4), I64), False)
    info = lambda n, d, s: helper.make_tensor_value_info(n, d, s)  # noqa: E731
    nodes = [helper.make_node("Add", ["sum_in", name], ["sum_out"]), helper.make_node("Identity", ["sum_out"], ["each"])]
    if g.maybe(0.4):
        nodes += [helper.make_node("Constant", [], ["last"], value_int=g.r.randint(0, 3)), helper.make_node("Less", ["i", "last"], ["go_on"])]
    else:
        nodes.append(helper.make_node("Identity", ["go"], ["go_on"]))
    body = helper.make_graph(nodes, "body", [info("i", T.INT64, []), info("go", T.BOOL, []), info("sum_in", T.FLOAT, a.shape)],
                             [info("go_on", T.BOOL, []), info("sum_out", T.FLOAT, a.shape), info("each", T.FLOAT, a.shape)])
    most = g.node("Min", [trips, g.constant(5)])
    start = given(g, a.shape)
    return [most, g.node("Identity", [name]), g.node("Loop", [most.output[0], "", start], 2, body=body)]


PRODUCERS = [non_zero] * 3 + [compress, unique, suppress]
NODES = PRODUCERS[:1] + PRODUCERS[3:] + [of_shape] * 5 + [along] * 12 + [decided, looped] * 2
