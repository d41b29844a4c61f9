#!/usr/bin/env python3
"""What commands leave behind when a disk fills up, and when somebody stops them: nothing.

    storage_test.py LAMINA SOURCE_DIR
"""

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

lamina, source = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
digits, classifier = source / "weights/digits.safetensors", source / "tests/golden/tiny-classifier.safetensors"
photo = source / "weights/digits/7.png"
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print(f"failed: {what}")


def run(arguments, folder, largest_file=None, **more):
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if largest_file is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    return subprocess.run([lamina, *map(str, arguments)], cwd=folder, preexec_fn=limit, capture_output=True, text=True,
                          timeout=60, **more)


# Each command that writes, and the files it writes, the one last that is looked at.
WRITERS = {
    "convert": (["convert", classifier, "out.safetensors"], "out.safetensors"),
    "features": (["features", photo, "--model", digits, "--out", "out.png"], "out.png"),
    "features --output-tensor": (["features", photo, "--model", digits, "--out", "nothing.png", "--output-tensor", "out.safetensors"],
                                 "out.safetensors"),
    "run": (["run", "--model", digits, "--input", photo, "--output", "out.safetensors"], "out.safetensors"),
    "segment": (["segment", photo, "--model", "segments.safetensors", "--out", "out.png"], "out.png"),
    "segment --json": (["segment", photo, "--model", "segments.safetensors", "--out", "nothing.png", "--json", "out.json"], "out.json"),
}


def segmentation_model(path):
    """Two classes of each pixel: the sum of its colours, and less."""
    import struct
    graph = {"version": 1, "inputs": [{"name": "x", "shape": ["N", 3, 16, 16]}],
             "nodes": [{"name": "c", "op": "conv2d", "inputs": ["x"]}], "outputs": ["c"]}
    header = {"__metadata__": {"lamina.graph": json.dumps(graph)},
              "c.weight": {"dtype": "F32", "shape": [2, 3, 1, 1], "data_offsets": [0, 24]}}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + struct.pack("<6f", 1, 1, 1, -1, -1, -1))


def a_full_disk(folder):
    for name, (arguments, written) in WRITERS.items():
        target = folder / written
        result = run(arguments, folder)
        expect(result.returncode == 0 and target.exists(), f"{name}: succeeds: {result.stderr}")
        if not target.exists():
            continue
        size = target.stat().st_size
        for old in (None, b"what was there before"):
            target.unlink(missing_ok=True)
            if old:
                target.write_bytes(old)
            before = sorted(os.listdir(folder))
            for most in sorted({0, 1, size // 7, size // 2, size - 1}):
                result = run(arguments, folder, largest_file=most)
                what = f"{name}, files of at most {most} of {size} bytes"
                expect(result.returncode == 1, f"{what}: exit code 1, got {result.returncode}")
                lines = [line for line in result.stderr.splitlines() if "cannot write" in line]
                expect(len(lines) == 1 and written in lines[0], f"{what}: says so, got {result.stderr!r}")
                expect(sorted(os.listdir(folder)) == before, f"{what}: leaves {sorted(os.listdir(folder))}")
                expect(not old or target.read_bytes() == old, f"{what}: the old file is as it was")
        target.unlink(missing_ok=True)


def whole(path):
    """Whether a file that is there is complete."""
    data = path.read_bytes()
    return data.endswith(b"IEND\xaeB\x60\x82") if path.suffix == ".png" else len(data) > 8


# Commands that are at work for as long as they are let.
def endless(folder):
    many = folder / "many"
    many.mkdir()
    for i in range(4000):
        os.link(folder / "7.png", many / f"{i}.png")
    return {"features": ["features", "many", "--model", digits, "--out", "pictures"],
            "classify": ["classify", "many", "--model", digits, "--csv"],
            "segment": ["segment", "many", "--model", "segments.safetensors", "--out", "segments"],
            "bench": ["bench", "model", "--model", digits, "--batch", "64", "--threads", "1"],
            "run": ["run", "--model", digits, "--input", "pipe", "--output", "out.safetensors"],
            "convert": ["convert", "large.safetensors", "out.safetensors"]}


def large_weights(path):
    import struct
    size = 1 << 28
    text = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + size)


def signals(folder):
    (folder / "7.png").write_bytes(photo.read_bytes())
    os.mkfifo(folder / "pipe")
    large_weights(folder / "large.safetensors")
    for name, arguments in endless(folder).items():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with contextlib.ExitStack() as stack:
                process = subprocess.Popen([lamina, *map(str, arguments)], cwd=folder, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL, start_new_session=True)
                stack.callback(process.kill)
                time.sleep(0.08)
                process.send_signal(number)
                code = process.wait(timeout=20)
            what = f"{name}, {signal.Signals(number).name}"
            # One that was ready before the signal came is right too.
            expect(code in (-number, 0), f"{what}: ends by the signal, got {code}")
            for path in folder.rglob("*"):
                expect(not path.name.startswith(".lamina-"), f"{what}: leaves {path}")
                if path.parent.name in ("pictures", "segments"):
                    expect(whole(path), f"{what}: leaves half of {path}")
            (folder / "out.safetensors").unlink(missing_ok=True)


def what_was_done(folder):
    """Ctrl-C in the middle of many photographs: the answers until then are whole, and counted."""
    arguments = [lamina, "classify", "many", "--model", digits, "--top", "1", "--batch", "1", "--json", "found.json"]
    process = subprocess.Popen(list(map(str, arguments)), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, said, code = process.stdout.read(), process.stderr.read(), process.wait(timeout=60)
    expect(code == -signal.SIGINT, f"Ctrl-C: ends by the signal, got {code}")
    counted = re.search(r"stopped by Ctrl-C: (\d+) of 4000 photographs are done", said)
    done = int(counted[1]) if counted else -1
    expect(0 < done < 4000, f"Ctrl-C: says how many are done: {said}")
    expect(rest.count("%") == done, f"Ctrl-C: {done} answers, got {rest.count('%')}")
    found = json.loads((folder / "found.json").read_text())
    expect(len(found) == done and all(each["network_ms"] > 0 for each in found), f"Ctrl-C: {done} answers as JSON")


def the_server(folder):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = subprocess.Popen([lamina, "serve", "--model", digits, "--port", "0", "--device", "cpu"], cwd=folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = process.stdout.readline()
        expect("serves" in line, f"serve: {line}")
        process.send_signal(number)
        code = process.wait(timeout=20)
        expected = -number if number == signal.SIGHUP else 0
        expect(code == expected, f"serve, {signal.Signals(number).name}: exit code {expected}, got {code}")


def main():
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "nothing.png").symlink_to("/dev/null")
        segmentation_model(Path(name) / "segments.safetensors")
        a_full_disk(Path(name))
        signals(Path(name))
        what_was_done(Path(name))
        if "serve" in run(["--help"], name).stdout:
            the_server(Path(name))
    print(f"{len(failures)} checks failed" if failures else "all checks passed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
