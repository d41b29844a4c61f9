"""What a random graph is made of: values, constants, shapes and nodes, all out of one seeded generator."""

import random

import numpy as np
from onnx import helper

F32, F64, F16, I64, I32, I8, U8, BOOL = (np.dtype(name) for name in ("f4", "f8", "f2", "i8", "i4", "i1", "u1", "?"))
RANKS = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5]
MOST = 200_000  # elements of a value
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e4]

# What was an attribute before an operator set: {op: (set, {input: attribute})}.
ATTRIBUTES = {"Squeeze": (13, {1: "axes"}), "Unsqueeze": (13, {1: "axes"}), "ReduceSum": (13, {1: "axes"}),
              "Split": (13, {1: "split"}), "Clip": (11, {1: "min", 2: "max"}), "Pad": (11, {1: "pads", 2: "value"}),
              "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}), "TopK": (10, {1: "k"}), "Upsample": (9, {1: "scales"})}
# Attributes that came with an operator set.
SINCE = {"ceil_mode": 10, "select_last_index": 12, "largest": 11, "noop_with_empty_axes": 13}


class Skip(Exception):
    """There is no such node here; another is drawn."""


class Draw:
    def __init__(self, seed, opset=None):
        self.r, self.np = random.Random(seed), np.random.default_rng(seed)
        self.opset = opset or self.r.randint(7, 22)
        self.values, self.inputs, self.constants, self.nodes = {}, {}, {}, []

    def name(self, letter):
        self.count = getattr(self, "count", 0) + 1
        return f"{letter}{self.count}"

    def maybe(self, chance):
        return self.r.random() < chance

    def needs(self, opset):
        if self.opset < opset:
            raise Skip

    def shape(self, rank=None, zero=0.06):
        rank = self.r.choice(RANKS) if rank is None else rank
        return tuple(0 if self.maybe(zero) else self.r.choice([1, 1, 2, 3, 4, 5, 7]) for _ in range(rank))

    def array(self, shape, dtype=F32, special=0.04):
        if np.prod(shape, dtype=np.int64) > MOST:
            raise Skip
        if dtype == BOOL:
            return np.asarray(self.np.random(shape) < 0.5)
        if dtype.kind in "iu":
            return np.asarray(self.np.integers(0 if dtype == U8 else -5, 9, shape)).astype(dtype)
        # Half of them multiples of 1/4: there ties and equal elements are.
        a = self.np.integers(-8, 9, shape) / 4 if self.maybe(0.5) else self.np.standard_normal(shape)
        a = np.asarray(a).astype(dtype)
        if self.maybe(special) and a.size:
            a.flat[self.r.randrange(a.size)] = self.r.choice(SPECIAL)
        return a

    def hold(self, array, constant=None):
        """A value that is there from the start: an input, or a constant. Returns its name."""
        array = np.asarray(array)
        name = self.name("x")
        constant = self.maybe(0.35) if constant is None else constant
        (self.constants if constant or array.size == 0 else self.inputs)[name] = array
        self.values[name] = array
        return name

    def constant(self, values, dtype=I64):
        name = self.name("c")
        self.constants[name] = np.asarray(values, dtype)
        return name

    def new(self, shape, dtype=F32, constant=None):
        return self.hold(self.array(tuple(int(n) for n in shape), dtype), constant)

    def pick(self, *dtypes, rank=None, least=0, where=lambda a: True, fresh=0.25):
        """(name, array): one of the latest values of these types, or a new one."""
        dtypes = dtypes or (F32,)
        fits = [(n, a) for n, a in self.values.items() if a.dtype in dtypes and a.ndim >= least and where(a)
                and rank in (None, a.ndim)]
        if fits and not self.maybe(fresh):
            return self.r.choice(fits[-4:])
        ranks = [k for k in RANKS if k >= least] if rank is None else [rank]
        for _ in range(20):
            a = self.array(self.shape(self.r.choice(ranks)), dtypes[0] if self.maybe(0.6) else self.r.choice(dtypes))
            if where(a):
                return self.hold(a), a
        raise Skip

    def broadcast(self, shape):
        """A shape that broadcasts to this one."""
        shape = [1 if self.maybe(0.3) else n for n in shape]
        return shape[self.r.randrange(len(shape) + 1) if self.maybe(0.4) else 0:]

    def signed(self, axis, rank):
        return axis - rank if self.maybe(0.3) else axis

    def axis(self, array):
        return self.signed(self.r.randrange(array.ndim), array.ndim)

    def axes(self, rank, least=1):
        chosen = self.r.sample(range(rank), self.r.randint(min(least, rank), rank))
        return [self.signed(axis, rank) for axis in chosen]

    def node(self, op, inputs, outputs=1, **attributes):
        """The node as the graph's operator set writes it."""
        inputs = list(inputs)
        since, moved = ATTRIBUTES.get(op, (18 if op.startswith("Reduce") else 0, {1: "axes"}))
        if self.opset < since:
            for place, attribute in moved.items():
                if len(inputs) > place and inputs[place]:
                    array = self.constants.pop(inputs[place])
                    one = attribute in ("min", "max", "value", "k")
                    attributes[attribute] = array.item() if one else array.tolist()
                    if op in ("Clip", "Pad") and attribute != "pads":
                        attributes[attribute] = float(attributes[attribute])
            inputs = [name for place, name in enumerate(inputs) if place not in moved]
            if op == "Slice":
                inputs = inputs[:1]
        while inputs and not inputs[-1]:
            inputs.pop()
        attributes = {k: v for k, v in attributes.items() if self.opset >= SINCE.get(k, 0) and v != []}
        names = [self.name("y") for _ in range(outputs)]
        return helper.make_node(op, inputs, names, **attributes)
