"""Checkpoints as PyTorch saves them, written without PyTorch."""

import collections
import io
import pickle
import sys
import types
import zipfile

torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
torch.FloatStorage = type("FloatStorage", (), {"__module__": "torch"})


def _rebuild_tensor_v2():
    """What PyTorch's unpickler calls; here it is only named."""


_rebuild_tensor_v2.__module__ = "torch._utils"
utils._rebuild_tensor_v2 = _rebuild_tensor_v2


class Tensor:
    """Numbers of float32 as a checkpoint has them: a shape, and the bytes."""

    def __init__(self, shape, data):
        self.shape, self.data = tuple(shape), data

    def __reduce__(self):
        strides = [1]
        for extent in self.shape[:0:-1]:
            strides.insert(0, strides[0] * extent)
        return _rebuild_tensor_v2, (Storage(self.data), 0, self.shape, tuple(strides), False, collections.OrderedDict())


class Storage:
    def __init__(self, data):
        self.data = data


def save(path, value):
    """torch.save: `value` is of dictionaries, lists and the like, with a Tensor where PyTorch has one."""
    storages, out = [], io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if not isinstance(value, Storage):
                return None
            storages.append(value.data)
            return "storage", torch.FloatStorage, str(len(storages) - 1), "cpu", len(value.data) // 4

    there = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})  # pickle looks there for what it names
    try:
        Pickler(out, 2).dump(value)
    finally:
        for name, module in there.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/data.pkl", out.getvalue())
        for i, data in enumerate(storages):
            archive.writestr(f"net/data/{i}", data)
