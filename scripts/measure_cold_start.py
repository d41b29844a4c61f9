#!/usr/bin/env python3
"""Times the first answer: from the start of the process to the printed classes of one photograph, and to its end.

    scripts/measure_cold_start.py --lamina build/release/bin/lamina --device cuda

AlexNet with random weights, made here by PyTorch and saved as a model file and by torch.save, in the page cache because
they were just written. The driver keeps a GPU awake while any process uses it: --hold starts such a process first, as on a
machine with persistence mode, a desktop or a server beside. Needs PyTorch and torchvision.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import torch
    import torchvision
except ImportError as error:
    sys.exit(f"measure_cold_start.py: {error}")

PHOTO = Path(__file__).resolve().parent.parent / "docs/images/chelsea.png"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--hold", action="store_true", help="keep a CUDA context open in this process meanwhile")
    return parser.parse_args()


def answer(command):
    """(milliseconds to the last line of the answer, to the end of the process)"""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    answered, lines = 0.0, 0
    while child.stdout.readline():
        answered, lines = (time.perf_counter() - start) * 1e3, lines + 1
    child.wait()
    ended = (time.perf_counter() - start) * 1e3
    if child.returncode != 0 or lines != 6:  # the photograph and its five classes
        sys.exit(f"measure_cold_start.py: {' '.join(command)} failed")
    return answered, ended


def main():
    a = parse_arguments()
    if a.hold:
        torch.zeros(1, device="cuda")
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        pth, model = f"{folder}/alexnet.pth", f"{folder}/alexnet.safetensors"
        torch.save(torchvision.models.alexnet(weights=None).state_dict(), pth)
        subprocess.run([a.lamina, "convert", pth, model, "--arch", "alexnet"], check=True, stdout=subprocess.DEVNULL)
        print("| weights | to the answer, median ms | least | greatest | to the end, median |")
        print("|---|---|---|---|---|")
        for source in (["--model", model], ["--arch", "alexnet", "--weights", pth]):
            command = [a.lamina, "classify", str(PHOTO), *source, "--device", a.device, "--precision", a.precision]
            times = [answer(command) for _ in range(a.runs)]
            answered, ended = zip(*times)
            print(f"| {Path(source[-1]).suffix} | {statistics.median(answered):.0f} | {min(answered):.0f} | "
                  f"{max(answered):.0f} | {statistics.median(ended):.0f} |", flush=True)


if __name__ == "__main__":
    main()
