"""Small .onnx files, written without the onnx package: the few messages of its format that a network takes."""

TYPES = {"float32": 1, "uint8": 2, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}


def varint(number):
    number &= (1 << 64) - 1
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes(digits) + bytes([number])


def field(number, value):
    """A number, or bytes, a text or a message with its length in front."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    return field(1, name) + b"".join(field(8, each) for each in value) + field(20, 7)


def node(op, inputs, *outputs, **attributes):
    return (b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs) +
            field(3, outputs[0]) + field(4, op) +
            b"".join(field(5, attribute(*each)) for each in attributes.items()))


def tensor(name, array):
    """An array of NumPy's, or what has its shape, dtype.name and tobytes() as well."""
    if not getattr(array, "shape", ()):
        import numpy as np  # not at the top: files are written where there is no NumPy, too
        array = np.ascontiguousarray(array)
    extents = b"".join(field(1, extent) for extent in array.shape)
    return extents + field(2, TYPES[array.dtype.name]) + field(8, name) + field(9, array.tobytes())


def value(name, dtype, shape):
    """An extent is a number, or a text or None where it is open. A shape of None is not said."""
    extents = b"".join(field(1, b"" if extent is None else field(2 if isinstance(extent, str) else 1, extent))
                       for extent in shape or ())
    return field(1, name) + field(2, field(1, field(1, TYPES[dtype]) + (b"" if shape is None else field(2, extents))))


def write(path, nodes, inputs, outputs, constants, of_graph=(), of_model=()):
    """inputs and outputs: (name, dtype, shape) each; constants: arrays by name; of_...: further fields' numbers and values."""
    graph = (b"".join(field(1, each) for each in nodes) + field(2, "graph") +
             b"".join(field(5, tensor(*each)) for each in constants.items()) +
             b"".join(field(11, value(*each)) for each in inputs) + b"".join(field(12, value(*each)) for each in outputs) +
             b"".join(field(*each) for each in of_graph))
    path.write_bytes(field(1, 8) + b"".join(field(*each) for each in of_model) + field(7, graph) + field(8, field(1, "") + field(2, 17)))
    return path
