#!/usr/bin/env python3
"""Compares Lamina with PyTorch layer by layer, on torchvision's AlexNet, VGG16 and ResNet18 as real torch.save files.

    scripts/verify_torchvision.py --lamina build/release/bin/lamina
    scripts/verify_torchvision.py --device cuda --precision fp32,tf32,fp16,bf16 --arch resnet18 --keep FOLDER

Weights are random from a fixed seed (batch norms get statistics as if trained), and saved by torch.save in its zip and
in its legacy container. Forward hooks record what every layer makes of a random batch on the CPU in fp32. Then
`lamina verify --arch NETWORK --weights FILE.pth` computes the same: every node by itself, and the output of the compiled
plan. Every node of the network is compared, or the run fails; the tolerances are verify's own (docs/inside/precision.md). With
--device cuda PyTorch computes in the same precision too, on the GPU in NHWC, and its error stands beside Lamina's.
"Worst error" is the largest of any element of any node, as a fraction of that node's root mean square.

Needs PyTorch, torchvision and NumPy; never needed to build, run or test Lamina.
"""

import argparse
import copy
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torchvision
    from torch import nn
except ImportError as error:
    sys.exit(f"verify_torchvision.py: {error}")

sys.path.insert(0, str(Path(__file__).resolve().parent))
from export_torch import write_safetensors  # noqa: E402
from measure_error import as_if_trained  # noqa: E402

# Hidden from the hooks because they are no modules: what the node is called, and the module that reads its value.
FUNCTIONS = {"alexnet": {"classifier.0": "flatten"}, "vgg16": {"classifier.0": "flatten"}, "resnet18": {"fc": "flatten"}}


def parse_arguments():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--arch", type=words, default=["alexnet", "vgg16", "resnet18"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", type=words, default=["fp32"])
    parser.add_argument("--batch", type=lambda text: [int(n) for n in text.split(",")], default=[1, 3])
    parser.add_argument("--keep", type=Path, help="leave the .pth and reference files in this folder")
    return parser.parse_args()


def seeded_network(arch):
    torch.manual_seed(5)
    model = as_if_trained(getattr(torchvision.models, arch)(weights=None))
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False  # it would overwrite what the layer before it made
    return model


def record(model, arch, x):
    """node name -> value, for every node that Lamina's network has. A module's second call is NAME_1, as torch.fx
    names it; in ResNet that is the block's last ReLU, which reads the sum."""
    values = {"input": x}

    def hook(name):
        def keep(_, inputs, output):
            if name in FUNCTIONS[arch]:
                values[FUNCTIONS[arch][name]] = inputs[0]
            if name not in values:
                values[name] = output.clone()  # ResNet's sum is written over it
            else:
                values[f"{name}_1"] = output
                values[f"{name.rpartition('.')[0]}.add"] = inputs[0]
        return keep

    hooks = [module.register_forward_hook(hook(name)) for name, module in model.named_modules()
             if not list(module.children())]
    with torch.inference_mode():
        model(x)
    for handle in hooks:
        handle.remove()
    return values


def error_of_pytorch(model, arch, expected, precision):
    """Worst error of PyTorch's own computation in this precision."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    net = copy.deepcopy(model).cuda().to(dtype=dtype, memory_format=torch.channels_last)
    x = expected["input"].cuda().to(dtype=dtype, memory_format=torch.channels_last)
    values = record(net, arch, x)
    return max(((values[name].double().cpu() - truth).abs().max() / truth.double().square().mean().sqrt()).item()
               for name, truth in expected.items() if name != "input")


def verify(a, arch, weights, golden, nodes, precision):
    """(passed, comparisons, worst error, where, what lamina said on failure)"""
    done = subprocess.run([a.lamina, "verify", "--arch", arch, "--weights", weights, "--golden", golden, "--device",
                           a.device, "--precision", precision], capture_output=True, text=True)
    lines = re.findall(r"^(\w+) +(\S+) +(pass|FAIL).*\((\S+) of rms\)", done.stdout, re.MULTILINE)
    alone = {name for stage, name, _, _ in lines if stage == "unfused"}
    said = done.stderr.strip() or "\n".join(line for line in done.stdout.splitlines() if "FAIL" in line)
    if done.returncode == 0 and alone != nodes:
        return False, len(lines), 0, "", f"not compared: {', '.join(sorted(nodes ^ alone))}"
    worst, where = max(((float(error), f"{name}{' (compiled)' if stage == 'compiled' else ''}")
                        for stage, name, _, error in lines), default=(float("nan"), ""))
    return done.returncode == 0, len(lines), worst, where, said


def main():
    a = parse_arguments()
    failed = 0
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}; device {a.device}")
    beside = a.device.startswith("cuda")
    print(f"| network | saved as | N | precision | comparisons | worst error | at |{' PyTorch |' if beside else ''} |")
    print(f"|---|---|---|---|---|---|---|---|{'---|' if beside else ''}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for arch in a.arch:
            model = seeded_network(arch)
            saved = {"zip": folder / f"{arch}.pth", "legacy": folder / f"{arch}-legacy.pth"}
            for container, path in saved.items():
                torch.save(model.state_dict(), path, _use_new_zipfile_serialization=container == "zip")
            for batch in a.batch:
                values = record(model, arch, torch.randn(batch, 3, 224, 224))
                golden = folder / f"{arch}-{batch}.safetensors"
                write_safetensors(golden, values, {})
                for precision in a.precision:
                    theirs = f" {error_of_pytorch(model, arch, values, precision):.1e} |" if beside else ""
                    for container, path in saved.items():
                        if container == "legacy" and (batch != a.batch[0] or precision != a.precision[0]):
                            continue  # the same tensors: once is enough
                        passed, count, worst, where, said = verify(a, arch, path, golden, set(values) - {"input"},
                                                                   precision)
                        print(f"| {arch} | {container} | {batch} | {precision} | {count} | {worst:.1e} | {where} |"
                              f"{theirs} {'pass' if passed else 'FAIL'} |", flush=True)
                        if not passed:
                            failed += 1
                            print(said, file=sys.stderr)
                if not a.keep:
                    golden.unlink()
            if not a.keep:
                for path in saved.values():
                    path.unlink()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
