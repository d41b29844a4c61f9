"""What onnx_conformance.py, coverage.py and differential.py share: safetensors by hand, `lamina run` as a process,
comparison, a run over many cases that goes on where it stopped, tables, and their parts of docs/coverage.md."""

import contextlib
import hashlib
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path

import numpy as np

STATUSES = ("passed", "refused", "wrong")
DTYPES = {"BOOL": "?", "I8": "i1", "U8": "u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8",
          "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}


class NotStorable(Exception):
    """A value that these files, and Lamina, have no type for."""


# --- safetensors -------------------------------------------------------------------------------------------------------


def write_safetensors(path, arrays):
    """By hand, so that no package is needed and every type that the format knows goes in, bfloat16 too."""
    header, parts, begin = {}, [], 0
    for name, array in arrays.items():
        if isinstance(array, Bfloat16):
            dtype, data = "BF16", (np.ascontiguousarray(array.values).view("<u4") >> 16).astype("<u2").tobytes()
        else:
            dtype, data = NAMES.get(array.dtype.newbyteorder("<")), np.ascontiguousarray(array).tobytes()
        if dtype is None:
            raise NotStorable(f"type {array.dtype.name}")
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, begin + len(data)]}
        begin += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    arrays = {}
    for name, entry in header.items():
        begin, count = 8 + length + entry["data_offsets"][0], math.prod(entry["shape"])
        if entry["dtype"] == "BF16":  # the upper half of a float32
            wide = np.frombuffer(data, "<u2", count, begin).astype("<u4") << 16
            arrays[name] = Bfloat16(wide.view("<f4").reshape(entry["shape"]))
        else:
            arrays[name] = np.frombuffer(data, DTYPES[entry["dtype"]], count, begin).reshape(entry["shape"])
    return arrays


class Bfloat16:
    """Values of a type that NumPy has not, as float32."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape


# --- comparison --------------------------------------------------------------------------------------------------------


def type_of(array):
    return "bfloat16" if isinstance(array, Bfloat16) else array.dtype.name


def numbers(array):
    return (array.values if isinstance(array, Bfloat16) else array).astype(np.float64)


def difference(expected, got, rtol, atol):
    """What is wrong with one output, or "". Integers and booleans have to be equal."""
    if tuple(expected.shape) != tuple(got.shape):
        return f"shape {list(got.shape)}, expected {list(expected.shape)}"
    if type_of(expected) != type_of(got):
        return f"type {type_of(got)}, expected {type_of(expected)}"
    if type_of(expected) == "bool" or "int" in type_of(expected):
        bad = expected != got
        shown_expected, shown = expected, got
    else:
        shown_expected, shown = numbers(expected), numbers(got)
        with np.errstate(all="ignore"):
            near = np.abs(shown - shown_expected) <= atol + rtol * np.abs(shown_expected)
        bad = ~(near & np.isfinite(shown_expected) | (shown == shown_expected)
                | np.isnan(shown) & np.isnan(shown_expected))
    if not bad.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    return (f"{int(bad.sum())} of {bad.size} elements differ, first {list(first)}: {shown[first]}, "
            f"expected {shown_expected[first]}")


def relative_error(expected, got):
    """(relative L2, largest error over the largest value) of all outputs together; NaN where either has one."""
    truth = np.concatenate([numbers(a).ravel() for a in expected])
    error = np.concatenate([numbers(a).ravel() for a in got]) - truth
    if not np.isfinite(error).all() or not truth.any():
        return math.nan, math.nan
    return float(np.linalg.norm(error) / np.linalg.norm(truth)), float(np.abs(error).max() / np.abs(truth).max())


# --- the command -------------------------------------------------------------------------------------------------------


def identity_of(lamina):
    """Which build it is: results of another one do not count."""
    with open(lamina, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest()[:12]


def run_lamina(lamina, model, inputs, output, device, timeout, options=()):
    """("ran" or a status, what it said, seconds)"""
    command = [str(lamina), "run", "--model", str(model), "--output", str(output), "--device", device, *options]
    if inputs is not None:
        command += ["--input", str(inputs)]
    Path(output).unlink(missing_ok=True)
    begin = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=timeout,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "wrong", f"no answer within {timeout:g} s", timeout
    seconds = time.monotonic() - begin
    said = done.stderr.strip().removeprefix("lamina: ").removeprefix("error: ").replace(f"{model}: ", "")
    if done.returncode == 0:
        if not Path(output).exists():
            return "wrong", "it wrote nothing", seconds
        return "ran", said, seconds
    if done.returncode == 1 and said:
        return "refused", said, seconds
    if done.returncode < 0:
        return "wrong", f"{signal.Signals(-done.returncode).name}: {said[-300:]}", seconds
    return "wrong", f"exit {done.returncode}: {said[-300:]}", seconds


# --- many cases --------------------------------------------------------------------------------------------------------


class State:
    """Results by case, one line of JSON each, appended as they come: what a run that was stopped leaves to the next."""

    def __init__(self, path, build, again):
        self.path, self.build, self.results = Path(path), build, {}
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                with contextlib.suppress(ValueError):  # the last line, if the run was killed in it
                    result = json.loads(line)
                    self.results[result["case"]] = result
        if again == "all":
            self.open = set(self.results)
        else:
            self.open = {case for case, result in self.results.items()
                         if (result["build"] != build and not (again == "failed" and result["status"] == "passed"))
                         or (again == "failed" and result["status"] != "passed")}

    def done(self, case):
        return case in self.results and case not in self.open

    def add(self, case, result):
        self.results[case] = {"case": case, "build": self.build, **result}
        self.open.discard(case)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(self.results[case]) + "\n")


def selected(cases, only, shard):
    """Those whose name the pattern is found in, every n-th of them."""
    found = [case for case in cases if re.search(only, case)]
    return found[shard[0] - 1::shard[1]]


def add_options(parser, work, reports=False):
    parser.add_argument("--lamina", type=Path, default=Path("build/release/bin/lamina"), help="the lamina command")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many cases run at a time")
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases in whose name it is found")
    parser.add_argument("--shard", type=shard, default=(1, 1), metavar="I/N", help="the I-th of N equal parts")
    parser.add_argument("--work", type=Path, default=work, help="where results and files are kept between runs")
    parser.add_argument("--again", choices=["failed", "all"], help="run these again, though there are results: what has "
                        "not passed, whichever build passed the others; or all. By default what this build has not run")
    if reports:
        parser.add_argument("--report", type=Path, metavar="docs/coverage.md", help="write the tables to their part of it")


def shard(text):
    part, _, parts = text.partition("/")
    if not part.isdigit() or not parts.isdigit() or not 1 <= int(part) <= int(parts):
        raise ValueError(f"expected I/N such as 1/4, got {text}")
    return int(part), int(parts)


def run_all(cases, work, state, jobs, timeout, folder, show=print):
    """Runs work(case, scratch folder) -> {"status", "message", ...} for all that the state does not have, each in a
    process of its own: whatever a case does, the others go on."""
    waiting = [case for case in cases if not state.done(case)]
    processes = multiprocessing.get_context("fork")
    running, total, count = {}, len(waiting), 0
    folder.mkdir(parents=True, exist_ok=True)

    def begin(case):
        answer = folder / f"{hashlib.sha1(case.encode()).hexdigest()[:16]}.json"
        answer.unlink(missing_ok=True)
        process = processes.Process(target=child, args=(work, case, answer))
        process.start()
        running[case] = process, answer, time.monotonic()

    def end(case, late):
        process, answer, began = running.pop(case)
        if late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.join()
        if answer.exists() and not late:
            result = json.loads(answer.read_text())
            answer.unlink()
        else:
            what = f"no end within {timeout:g} s" if late else f"the process that ran it ended with {process.exitcode}"
            result = {"status": "wrong", "message": what}
        result.setdefault("seconds", round(time.monotonic() - began, 1))
        return result

    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                begin(waiting.pop(0))
            multiprocessing.connection.wait([p.sentinel for p, _, _ in running.values()], timeout=1)
            for case, (process, _, began) in list(running.items()):
                late = time.monotonic() - began > timeout
                if late or not process.is_alive():
                    result = end(case, late)
                    state.add(case, result)
                    count += 1
                    show(f"{count}/{total} {case}: {result['status']} ({result['seconds']} s) "
                         f"{result.get('message', '')[:200]}", flush=True)
    finally:
        for process, _, _ in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def child(work, case, answer):
    os.setsid()  # so that what it starts ends with it
    try:
        result = work(case)
    except Exception as error:  # noqa: BLE001
        text = f"{type(error).__name__}: {error}".strip().splitlines()
        result = {"status": "wrong", "message": "the script itself failed: " + " ".join(text)[:500]}
    temporary = answer.with_suffix(".tmp")
    temporary.write_text(json.dumps(result))
    temporary.rename(answer)


# --- what is printed ---------------------------------------------------------------------------------------------------


def count(results):
    counted = Counter(result["status"] for result in results)
    return [counted[status] for status in STATUSES]


def summary(name, results):
    passed, refused, wrong = count(results)
    return f"{name}: {passed} passed, {refused} refused, {wrong} wrong of {len(results)}"


def table(heads, rows):
    """Markdown, as wide as it has to be."""
    rows = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in [heads, *rows]]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def write_section(path, section, text):
    """Replaces what stands between the section's markers in the file, or appends it."""
    begin, end = f"<!-- {section}: begin, written by scripts/{section}.py -->", f"<!-- {section}: end -->"
    block = f"{begin}\n{text.strip()}\n{end}"
    old = path.read_text(encoding="utf-8") if path.exists() else "# Coverage\n"
    found = re.search(re.escape(f"<!-- {section}: begin") + r".*?" + re.escape(end), old, re.DOTALL)
    new = old[:found.start()] + block + old[found.end():] if found else f"{old.rstrip()}\n\n{block}\n"
    path.write_text(new, encoding="utf-8")
