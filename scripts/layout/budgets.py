"""How much code each room may have: scripts/check-layout.py holds the tree to it.

Counted are lines that are neither blank nor comments, of C++, CUDA and Python. Whoever needs more raises the room's
line, says why behind it, and lowers another one if the table is then above what it may have as a whole. A folder counts
for the longest name here that it lies in.
"""

import re

EVERY_BUILD = {
    "framework": 33,
    "framework/base": 1_394,
    "framework/compile": 2_668,
    "framework/cpu": 1_117,
    "framework/cpu/array": 1_578,
    "framework/cpu/conv2d": 4_920,
    "framework/cpu/linear": 534,
    "framework/cpu/lookup": 773,
    "framework/cpu/pool2d": 570,
    "framework/cpu/product": 1_052,
    "framework/cuda": 1_810,
    "framework/cuda/array": 1_686,
    "framework/cuda/conv2d": 12_073,
    "framework/cuda/linear": 1_169,
    "framework/cuda/lookup": 1_105,
    "framework/cuda/product": 1_648,
    "framework/cuda/ptx": 589,
    "framework/cuda/runtime": 1_205,
    "framework/cuda/squeeze_excite": 380,
    "framework/cuda/tensor_core": 602,
    "framework/files": 2_546,
    "framework/graph": 1_316,
    "framework/images": 1_797,
    "framework/kernel": 2_450,
    "framework/layers": 1_478,
    "framework/module": 451,
    "framework/ops": 3_285,
    "framework/plan": 730,
    "framework/pool": 644,
    "framework/tensor": 790,
}
# Rooms that a build can leave out are counted apart.
LEFT_OUT = {
    "framework/onnx": 2_314,
}
TESTS = {"tests": 28_810}
# What a table may have as a whole.
TABLES = ((EVERY_BUILD, 52_393), (LEFT_OUT, 5_000), (TESTS, 28_810))
ALL = EVERY_BUILD | LEFT_OUT | TESTS

COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)


def code_lines(name, text):
    """Lines that are neither blank nor comments."""
    if name.endswith(".py"):
        return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))
    text = COMMENTS.sub(lambda m: '""' if m[0].startswith('"') else re.sub(r"[^\n]", "", m[0]), text)
    return sum(1 for line in text.splitlines() if line.strip())


def sums():
    """The tables that are above what they may have as a whole."""
    return [f"scripts/layout/budgets.py:1: {', '.join(list(table)[:2])} ...: {total:,} lines, more than {most:,}"
            for table, most in TABLES if (total := sum(table.values())) > most]


def show(code):
    """Prints what each room has; `code` holds its lines."""
    for table, most in TABLES:
        for room, budget in table.items():
            print(f"{code.get(room, 0):7,} of {budget:6,}  {room}")
        print(f"{sum(code.get(room, 0) for room in table):7,} of {most:6,}\n")
