#!/usr/bin/env python3
"""Writes tests/golden/files: weight files made by the packages whose formats Lamina reads.

Run by hand (pip install torch numpy safetensors); the files are committed. Made with torch 2.15, numpy 2.4,
safetensors 0.8. Everything is seeded, but torch.save puts storage addresses into legacy files, so those differ from
run to run.
"""

import collections
import pathlib
import warnings

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from numpy.lib import format as npy_format

OUT = pathlib.Path(__file__).parent / "files"


def make_safetensors():
    """[[0, 1, 2], [3, 4, 5]] in every dtype Lamina reads, and dtypes it only lists."""
    base = np.arange(6).reshape(2, 3)
    names = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]
    tensors = {np.dtype(n).name: torch.from_numpy(base.astype(n)) for n in names}
    tensors["bool"] = torch.from_numpy(base % 2 == 1)
    tensors["bfloat16"] = torch.from_numpy(base.astype("f4")).bfloat16()
    tensors["scalar"] = torch.tensor(1.5)
    tensors["empty"] = torch.zeros(3, 0)
    safetensors.torch.save_file(tensors, OUT / "dtypes.safetensors", metadata={"made by": "safetensors", "é": "ü\n"})
    listed = {
        "f8_e4m3": torch.ones(2, 3).to(torch.float8_e4m3fn),
        "f8_e5m2": torch.ones(5).to(torch.float8_e5m2),
        "c64": torch.ones(2, dtype=torch.complex64),
        "f32": torch.ones(4),
    }
    safetensors.torch.save_file(listed, OUT / "listed.safetensors")


def make_npy():
    """arange(24).reshape(2, 3, 4) in every layout."""
    base = np.arange(24).reshape(2, 3, 4)
    for code in ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]:
        np.save(OUT / f"c_{code}.npy", base.astype("<" + code))
    np.save(OUT / "c_b1.npy", base % 2 == 1)
    np.save(OUT / "fortran_f4.npy", np.asfortranarray(base.astype("<f4")))
    np.save(OUT / "big_endian_i4.npy", base.astype(">i4"))
    np.save(OUT / "big_endian_fortran_f8.npy", np.asfortranarray(base.astype(">f8")))
    np.save(OUT / "scalar_f8.npy", np.array(1.5))
    np.save(OUT / "empty_f4.npy", np.zeros((3, 0), "f4"))
    for version in [(2, 0), (3, 0)]:
        with open(OUT / f"version{version[0]}_f4.npy", "wb") as file:
            npy_format.write_array(file, base.astype("<f4"), version=version)
    np.save(OUT / "refused_object.npy", np.array([{}, None]), allow_pickle=True)
    np.save(OUT / "refused_complex.npy", np.ones(2, "c8"))
    np.save(OUT / "refused_record.npy", np.zeros(2, [("a", "f4"), ("b", "i4")]))
    np.savez(OUT / "arrays.npz", a=base)


def state_dict():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 2), torch.nn.BatchNorm2d(3))
    tensors = net.state_dict()  # an OrderedDict with _metadata; num_batches_tracked is an int64 scalar
    shared = torch.randn(6, 8)
    tensors["whole"] = shared
    tensors["transposed"] = shared.t()
    tensors["strided"] = shared[1::2, 2::3]
    tensors["row"] = shared[4]
    tensors["permuted"] = torch.randn(2, 3, 4).permute(2, 0, 1)
    tensors["channels_last"] = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    tensors["expanded"] = torch.tensor([1.0, 2.0, 3.0]).expand(4, 3)
    tensors["unsqueezed"] = shared[:, :1]
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 3)
    tensors["half"] = torch.randn(3, 5).half()
    tensors["half_transposed"] = torch.randn(3, 5).half().t()
    tensors["bfloat16"] = torch.randn(7).bfloat16()
    tensors["double"] = torch.randn(3, dtype=torch.float64)
    tensors["uint8"] = torch.arange(5, dtype=torch.uint8)
    tensors["int8"] = torch.arange(-2, 3, dtype=torch.int8)
    tensors["int16"] = torch.arange(-2, 3, dtype=torch.int16)
    tensors["int32"] = torch.arange(-2, 3, dtype=torch.int32)
    tensors["int64"] = torch.arange(-2, 3)
    tensors["bool"] = torch.tensor([True, False, True])
    tensors["parameter"] = torch.nn.Parameter(torch.randn(2, 2))
    return tensors


def make_pth():
    expected = {}
    names = {}

    def save(file, value, tensors, **options):
        torch.save(value, OUT / file, **options)
        names[file] = "\n".join(tensors)
        for name, tensor in tensors.items():
            expected[f"{file}:{name}"] = tensor.detach().clone(memory_format=torch.contiguous_format)

    tensors = state_dict()
    save("state_dict.pth", tensors, tensors)
    save("state_dict_legacy.pth", tensors, tensors, _use_new_zipfile_serialization=False)
    save("protocol4.pth", tensors, tensors, pickle_protocol=4)
    save("protocol4_legacy.pth", tensors, tensors, pickle_protocol=4, _use_new_zipfile_serialization=False)

    small = collections.OrderedDict(a=torch.randn(2, 3), b=torch.randn(3).half())
    wrapped = {
        "epoch": 3,
        "best": 0.5,
        "name": "net",
        "big": 1 << 80,
        "flags": [True, None, (1, -70000, 3)],
        "state_dict": collections.OrderedDict((f"module.{n}", t) for n, t in small.items()),
        "optimizer": {"state": {0: {"momentum": torch.ones(4)}}, "param_groups": [{"lr": 0.1, "params": [0]}]},
    }
    save("wrapped.pth", wrapped, small)
    save("wrapped_legacy.pth", wrapped, small, _use_new_zipfile_serialization=False)
    save("tensor.pt", small["a"].t(), {"tensor": small["a"].t()})
    save("plain_dict.pth", {"module.a": small["a"], "b": small["b"]}, {"module.a": small["a"], "b": small["b"]})
    save("empty.pth", collections.OrderedDict(), {})

    safetensors.torch.save_file(expected, OUT / "expected.safetensors", metadata=names)

    listed = {"c64": torch.ones(2, dtype=torch.complex64), "f32": torch.ones(2)}
    torch.save(listed, OUT / "listed.pth")
    module = torch.nn.Linear(2, 2)
    torch.save(module, OUT / "refused_module.pth")
    torch.save({"a": torch.ones(2).to(torch.float8_e4m3fn)}, OUT / "refused_float8.pth")
    torch.save({"epoch": 3, "optimizer": {"lr": 0.1}}, OUT / "refused_no_tensors.pth")
    torch.save([torch.ones(2)], OUT / "refused_list.pth")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(module), str(OUT / "refused_script.pt"))


def main():
    OUT.mkdir(exist_ok=True)
    for old in OUT.iterdir():
        old.unlink()
    make_safetensors()
    make_npy()
    make_pth()
    for file in OUT.iterdir():
        file.chmod(0o644)  # safetensors writes files that only their owner may read
    total = sum(file.stat().st_size for file in OUT.iterdir())
    print(f"{len(list(OUT.iterdir()))} files, {total} bytes")


if __name__ == "__main__":
    main()
