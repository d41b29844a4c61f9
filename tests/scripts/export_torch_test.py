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


def modules():
    agrees("every op", make_golden_export.make(), (3, 19, 14))
    agrees("a change in place", Function(lambda x: torch.cat([x.relu_(), x], 1)), (3, 4, 4))
    agrees("a change of a later alias", Function(lambda x: x + nn.functional.relu(x.contiguous(), inplace=True)), (3, 4, 4))
    refused(["chunk", "forward() (export_torch_test.py:"], Function(lambda x: x.chunk(2, 1)[0]), (3, 4, 4))
    refused(["ReLU6: 1, 3", "GELU: 2"], nn.Sequential(nn.ReLU(), nn.ReLU6(), nn.GELU(), nn.ReLU6()), (3, 4, 4))
    refused(["constant", "1.5"], Function(lambda x: x + 1.5), (3, 4, 4))
    refused(["different shapes"], Function(lambda x: x + x.mean([2, 3], keepdim=True)), (3, 4, 4))
    refused(["[N, 3, 4, 4] to [N, 3, 16]"], Function(lambda x: x.flatten(2)), (3, 4, 4))
    refused(["alpha"], Function(lambda x: torch.add(x, x, alpha=2)), (3, 4, 4))
    refused(["stays on"], Function(lambda x: nn.functional.dropout(x, 0.5, True)), (3, 4, 4))
    refused(["reflect"], nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"), (3, 4, 4))
    refused(["cannot trace"], Function(lambda x: x if x.sum() > 0 else -x), (3, 4, 4))
    refused(["PyTorch itself fails here"], nn.Conv2d(4, 3, 3), (3, 4, 4))
    refused(["3 labels for an output of [N, 2]"], nn.Linear(4, 2), (4,), labels=["a", "b", "c"])
    refused(["PyTorch itself fails here: ", "(input [N, 3, 2, 2])"], nn.Conv2d(3, 3, 3), (3, 2, 2))
    refused(["crop of 224", "the input is [N, 3, 4, 4]", '"crop": "PIXELS"'], nn.Conv2d(3, 3, 3), (3, 4, 4), preprocess=export_torch.IMAGENET)
    refused(["takes 1 tensors, got 2"], nn.ReLU(), (3, 4, 4), (3, 4, 4))


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
