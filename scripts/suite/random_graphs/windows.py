"""Convolutions, poolings, resizing."""

from .draw import F32, Skip


def window(g, dims, pool=False):
    """(kernel, attributes): strides, dilations, padding of one kind or another."""
    kernel, at = [g.r.choice([1, 2, 3, 3, 5] if dims < 3 else [1, 2, 3]) for _ in range(dims)], {}
    if g.maybe(0.6):
        at["strides"] = [g.r.choice([1, 2, 3]) for _ in range(dims)]
    kind = g.r.random()
    if kind < 0.45:
        at["pads"] = [g.r.randint(0, k - 1 if pool else 2) for k in kernel * 2]
    elif kind < 0.6:
        at["auto_pad"] = g.r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    if "auto_pad" not in at and g.maybe(0.3):
        at["dilations"] = [g.r.choice([1, 2]) for _ in range(dims)]
    return kernel, at


def image(g, dims, channels, extents, batch=(1, 1, 2, 3), constant=None):
    return g.new([g.r.choice(batch), channels, *(g.r.choice(extents) for _ in range(dims))], F32, constant)


def conv(g):
    dims = g.r.choice([1, 2, 2, 2, 2, 3])
    kernel, at = window(g, dims)
    groups = g.r.choice([1, 1, 1, 2, 3])
    channels, filters = groups * g.r.choice([1, 1, 2, 4, 8]), groups * g.r.choice([1, 2, 3, 8, 16])
    if g.maybe(0.15):
        groups, filters = channels, channels * g.r.choice([1, 2])
    x = image(g, dims, channels, [1, 3, 5, 6, 8, 11] if dims < 3 else [3, 4, 5], constant=g.maybe(0.1))
    # Weights that are not finite meet zeros of the padding, or do not: neither is promised.
    inputs = [x, g.hold(g.array([filters, channels // groups, *kernel], special=0), True)]
    if g.maybe(0.6):
        inputs.append(g.new([filters], constant=True))
    if g.maybe(0.7):
        at["kernel_shape"] = kernel
    return g.node("Conv", inputs, group=groups, **at)


def conv_transpose(g):
    dims = g.r.choice([1, 2, 2, 2, 3])
    kernel, at = window(g, dims)
    if any(k < s for k, s in zip(kernel, at.get("strides", kernel))):  # ONNX Runtime makes it less than n times the stride
        at.pop("auto_pad", None)
    groups = g.r.choice([1, 1, 2])
    channels, filters = groups * g.r.choice([1, 2, 4]), g.r.choice([1, 2, 5])
    x = image(g, dims, channels, [1, 2, 3, 5, 6], (1, 2), constant=False)
    inputs = [x, g.new([channels, filters, *kernel], constant=True)]
    if g.maybe(0.6):
        inputs.append(g.new([filters * groups], constant=True))
    strides = at.get("strides", [1] * dims)
    if "strides" in at and "auto_pad" not in at and g.maybe(0.3):
        at["output_padding"] = [g.r.randint(0, s - 1) for s in strides]
    if "pads" not in at and g.maybe(0.1):
        at["output_shape"] = [n * s + g.r.randint(0, 1) for n, s in zip(g.values[x].shape[2:], strides)]
    return g.node("ConvTranspose", inputs, group=groups, **at)


def pool(g):
    op = g.r.choice(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool"])
    dims = g.r.choice([1, 2, 2, 2, 3])
    x = image(g, dims, g.r.choice([1, 2, 3, 8]), [3, 4, 5, 7, 8, 9], constant=g.maybe(0.1))
    if op.startswith("Global"):
        return g.node(op, [x])
    kernel, at = window(g, dims, True)
    if g.opset < {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]:
        at.pop("dilations", None)
    if op == "LpPool":
        at["p"] = g.r.choice([1, 2, 3])
    elif "auto_pad" not in at and g.maybe(0.4):
        at["ceil_mode"] = 1
    if op == "AveragePool":
        at["count_include_pad"] = g.r.randrange(2)
    return g.node(op, [x], kernel_shape=kernel, **at)


def resize(g):
    g.needs(11)
    rank = g.r.choice([2, 3, 4, 4, 4, 5])
    x = g.new([g.r.choice([1, 2, 3]) for _ in range(rank - 2)] + [g.r.choice([1, 2, 3, 4, 5, 7]) for _ in range(2)])
    mode = g.r.choice(["nearest", "linear", "linear", "cubic"])
    coordinates = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
    at = {"mode": mode, "coordinate_transformation_mode":
          g.r.choice(coordinates + (["half_pixel_symmetric"] if g.opset >= 19 else []))}
    if mode == "nearest":
        at["nearest_mode"] = g.r.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    if mode == "cubic":
        at.update(cubic_coeff_a=g.r.choice([-0.75, -0.5]), exclude_outside=g.r.randrange(2))
    if g.opset >= 18 and mode != "nearest" and g.maybe(0.3):
        at["antialias"] = 1
    by_axes = g.opset >= 18 and g.maybe(0.45)
    if by_axes:
        at["axes"] = [rank - 2, rank - 1]
    roi = "" if g.opset >= 13 else g.constant([], F32)
    if g.maybe(0.5):
        scales = [1.0] * (0 if by_axes else rank - 2) + [g.r.choice([0.5, 0.6, 1.0, 2.0, 1.5, 3.0, 0.3]) for _ in range(2)]
        return g.node("Resize", [x, roi, g.constant(scales, F32)], **at)
    if by_axes and g.maybe(0.4):
        at["keep_aspect_ratio_policy"] = g.r.choice(["not_larger", "not_smaller"])
    sizes = ([] if by_axes else list(g.values[x].shape[:-2])) + [g.r.choice([1, 2, 3, 5, 8]) for _ in range(2)]
    return g.node("Resize", [x, roi, "" if g.opset >= 13 else g.constant([], F32), g.constant(sizes)], **at)


def upsample(g):
    if g.opset > 9:
        raise Skip
    x = g.new([g.r.choice([1, 2]), g.r.choice([1, 3]), g.r.choice([1, 2, 5]), g.r.choice([1, 3])])
    return g.node("Upsample", [x, g.constant([1, 1, g.r.choice([1, 2, 3]), g.r.choice([1, 2])], F32)],
                  mode=g.r.choice(["nearest", "linear"]))


def grid_sample(g):
    g.needs(16)
    n, c, h, w = (g.r.choice([1, 2, 3, 5]) for _ in range(4))
    modes = ["bilinear", "nearest", "bicubic"] if g.opset < 20 else ["linear", "nearest", "cubic"]
    grid = g.new((n, g.r.choice([1, 2, 3]), g.r.choice([1, 4]), 2))
    return g.node("GridSample", [g.new((n, c, h, w)), grid], mode=g.r.choice(modes), align_corners=g.r.randrange(2),
                  padding_mode=g.r.choice(["zeros", "border", "reflection"]))


NODES = [conv] * 3 + [pool] * 2 + [resize] * 2 + [conv_transpose, upsample, grid_sample]
