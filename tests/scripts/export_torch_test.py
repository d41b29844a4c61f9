#!/usr/bin/env python3
"""scripts/export_torch.py: what it writes is what Lamina then computes, and what it cannot write it names.

    export_torch_test.py LAMINA SOURCE_DIR

Exits with 77, which means skipped, where there is no PyTorch.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: no PyTorch for", sys.executable)
    sys.exit(77)

LAMINA, SOURCE = sys.argv[1], Path(sys.argv[2])
sys.path[:0] = [str(SOURCE / "scripts"), str(SOURCE / "tests/golden")]
import export_torch  # noqa: E402
import make_golden_export  # noqa: E402

failures = []


def check(what, good):
    if not good:
        failures.append(what)
        print("failed:", what)


def lamina(*arguments):
    done = subprocess.run([LAMINA, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def agrees(what, module, *shapes):
    """Exports the module, and lets Lamina compute every node of it."""
    torch.manual_seed(1)
    export_torch.export(module, "model.safetensors", list(shapes), golden="golden.safetensors")
    code, said = lamina("verify", "--model", "model.safetensors", "--golden", "golden.safetensors")
    check(f"{what} agrees with PyTorch\n{said}", code == 0)


def refused(words, module, *shapes, **options):
    Path("model.safetensors").unlink(missing_ok=True)
    try:
        export_torch.export(module, "model.safetensors", list(shapes), **options)
        said = "no error"
    except export_torch.ExportError as error:
        said = str(error)
    for word in words:
        check(f"expected {word!r} in: {said}", word in said)
    check(f"no trace of torch.fx in: {said}", "While executing" not in said)
    check("nothing was written", not Path("model.safetensors").exists())


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.function = function

    def forward(self, x):
        return self.function(self.conv(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.attention(x, x, x, need_weights=False)[0]


class Optional(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x, y=None):
        return self.linear(x if y is None else x * y)


FUNCTIONS = {
    "chunk": lambda x: x.chunk(2, 3)[1],
    "constants": lambda x: 2 - (x + 1.5) * 3 / 2 ** x,
    "broadcasting": lambda x: x + x.mean([2, 3], keepdim=True) - x.mean(1, keepdim=True),
    "flatten": lambda x: x.flatten(2).transpose(1, 2),
    "alpha": lambda x: torch.add(x, x, alpha=2),
    "shuffled channels": lambda x: x.view(x.shape[0], 3, 2, 2, 6).transpose(2, 3).reshape(-1, 12, 6),
    "windows": lambda x: x.view(-1, 3, 2, 2, 3, 2).permute(0, 2, 4, 1, 3, 5).reshape(-1, 3, 2, 2),
    "interpolate": lambda x: nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "nearest": lambda x: nn.functional.interpolate(x, size=(7, 9)),
    "pad": lambda x: nn.functional.pad(x, (1, 2, 0, 1), value=3.0),
    "roll": lambda x: torch.roll(x, (1, -2), (2, 3)),
    "split": lambda x: torch.cat(x.split([1, 3, 2], 3)[::-1], 3),
    "normalize": lambda x: nn.functional.normalize(x, dim=1),
    "variance": lambda x: x.var(1, keepdim=True) + x.std([2, 3], keepdim=True),
    "where": lambda x: torch.where(x > 0, x, 0.1 * x).clamp(-0.5, 1),
    "stack": lambda x: torch.stack([x, x * 2], 2).sum(2),
    "a part replaced": lambda x: torch.slice_scatter(x, x[:, :, :2] * 2, 2, 1, 3),
    "products": lambda x: x @ x.transpose(2, 3),
    "einsum": lambda x: torch.einsum("nchw,nkhw->nck", x, x),
    "softmax": lambda x: x.softmax(-1) + x.log_softmax(2),
    "pixel_shuffle": lambda x: nn.functional.pixel_shuffle(torch.cat([x] * 4, 1), 2),
}


def modules():
    agrees("every op", make_golden_export.make(), (3, 19, 14))
    agrees("a change in place", Function(lambda x: torch.cat([x.relu_(), x], 1)), (3, 4, 4))
    agrees("a change of a later alias", Function(lambda x: x + nn.functional.relu(x.contiguous(), inplace=True)), (3, 4, 4))
    for what, function in FUNCTIONS.items():
        agrees(what, Function(function), (3, 4, 6))
    agrees("activations", nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU6(), nn.GELU(), nn.SiLU(), nn.PReLU(4), nn.Hardswish(),
                                        nn.Hardsigmoid(), nn.ELU(), nn.LeakyReLU(0.2), nn.Mish(), nn.GELU("tanh")), (3, 4, 4))
    agrees("padding that reflects", nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"), (3, 4, 4))
    agrees("norms", nn.Sequential(nn.GroupNorm(3, 6), nn.InstanceNorm2d(6, affine=True), nn.LayerNorm([4, 5])), (6, 4, 5))
    agrees("layers on rows", nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Linear(6, 2)), (7, 5))
    agrees("one dimension", nn.Sequential(nn.Conv1d(3, 6, 3), nn.BatchNorm1d(6), nn.AvgPool1d(2), nn.Flatten(),
                                          nn.BatchNorm1d(18)), (3, 8))
    agrees("a transposed convolution", nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2), (4, 5, 6))
    agrees("attention", Attention(), (5, 8))
    agrees("a parametrised module", nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 3)), nn.ReLU()),
           (3, 5, 5))
    agrees("a module of half precision", nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).half(), (3, 5, 5))
    agrees("optional arguments", Optional(), (3, 4))
    agrees("optional arguments, given", Optional(), (3, 4), (3, 4))
    refused(["complex64", "forward() (export_torch_test.py:"], Function(lambda x: torch.fft.fft2(x).real), (3, 4, 4))
    refused(["aten.masked_scatter: forward() (", "aten._cdist_forward"], Function(
        lambda x: torch.cdist(x, x) + x.masked_scatter(x > 0, x)), (3, 4, 4))
    refused(["stays on"], Function(lambda x: nn.functional.dropout(x, 0.5, True)), (3, 4, 4))
    refused(["cannot trace"], Function(lambda x: x if x.sum() > 0 else -x), (3, 4, 4))
    refused(["PyTorch itself fails here"], nn.Conv2d(4, 3, 3), (3, 4, 4))
    refused(["3 labels for an output of [N, 2]"], nn.Linear(4, 2), (4,), labels=["a", "b", "c"])
    refused(["PyTorch itself fails here: ", "(input [N, 3, 2, 2])"], nn.Conv2d(3, 3, 3), (3, 2, 2))
    refused(["crop of 224", "the input is [N, 3, 4, 4]", '"crop": "PIXELS"'], nn.Conv2d(3, 3, 3), (3, 4, 4), preprocess=export_torch.IMAGENET)
    refused(["takes 1 tensors, got 2"], nn.ReLU(), (3, 4, 4), (3, 4, 4))
    refused(["takes 1 to 2 tensors, got 3"], Optional(), (3, 4), (3, 4), (3, 4))


def command_line():
    """A network of one's own in a file, its trained weights, its classes; then its answer for a photograph."""
    Path("my_network.py").write_text(
        "from torch import nn\n"
        "def Net(classes):\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),\n"
        "                         nn.Linear(16, classes))\n")
    sys.path.insert(0, ".")
    import my_network
    torch.save({"state_dict": {f"module.{k}": v for k, v in my_network.Net(3).state_dict().items()}}, "trained.pth")
    Path("labels.txt").write_text("cat\ncup\nrocket\n")

    def script(*arguments):
        done = subprocess.run([sys.executable, SOURCE / "scripts/export_torch.py", *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    base = ["my_network.py:Net(classes=3)", "net.safetensors", "--input", "3x32x32"]
    code, said = script(*base, "--weights", "trained.pth", "--labels", "labels.txt", "--golden", "golden.safetensors",
                        "--preprocess", '{"resize": 32, "crop": 32, "mean": [0, 0, 0], "std": [1, 1, 1]}')
    check(f"it exports: {said}", code == 0 and "wrote net.safetensors: 5 nodes" in said)
    check("verify passes", lamina("verify", "--model", "net.safetensors", "--golden", "golden.safetensors")[0] == 0)
    code, said = lamina("classify", SOURCE / "docs/images/chelsea.png", "--model", "net.safetensors")
    check(f"classify answers: {said}", code == 0 and said.count("%") == 3 and "rocket" in said)

    for words, arguments in [("no nothing", ["my_network.py:nothing", *base[1:]]),
                             ("no such file", ["missing.py:Net", *base[1:]]),
                             ("cannot import", ["no_such_package:Net", *base[1:]]),
                             ("size mismatch", ["my_network.py:Net(classes=4)", *base[1:], "--weights", "trained.pth"]),
                             ("expected a name", ["my_network.py:Net(open('x'))", *base[1:]]),
                             ("MODULE:NAME", ["my_network", *base[1:]])]:
        code, said = script(*arguments)
        check(f"expected {words!r}, exit code 1: {said}", code == 1 and words in said and "Traceback" not in said)


with tempfile.TemporaryDirectory() as folder:
    import os
    os.chdir(folder)
    modules()
    command_line()
    os.chdir("/")
if failures:
    print(len(failures), "checks failed")
    sys.exit(1)
print("all checks passed")
