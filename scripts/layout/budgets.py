"""How much code each room may have: scripts/check-layout.py holds the tree to it.

Counted are lines that are neither blank nor comments, of C++, CUDA and Python. Whoever needs more raises the room's
line, says why behind it, and lowers another one if the table is then above what it may have as a whole. A folder counts
for the longest name here that it lies in.
"""

import re

EVERY_BUILD = {
    "framework": 30,
    "framework/base": 1_286,
    "framework/compile": 3_385,
    "framework/cpu": 1_474,
    "framework/cpu/array": 1_616,
    "framework/cpu/conv2d": 4_608,
    "framework/cpu/linear": 406,
    "framework/cpu/lookup": 597,
    "framework/cpu/pool2d": 364,
    "framework/cpu/product": 911,
    "framework/cuda": 2_084,
    "framework/cuda/array": 1_748,
    "framework/cuda/conv2d": 12_998,
    "framework/cuda/linear": 1_083,
    "framework/cuda/lookup": 866,
    "framework/cuda/product": 1_438,
    "framework/cuda/ptx": 598,
    "framework/cuda/runtime": 1_119,
    "framework/cuda/squeeze_excite": 563,
    "framework/cuda/tensor_core": 559,
    "framework/files": 2_275,
    "framework/graph": 1_307,
    "framework/images": 1_775,
    "framework/kernel": 2_523,
    "framework/layers": 1_402,
    "framework/module": 459,
    "framework/ops": 3_500,
    "framework/plan": 695,
    "framework/pool": 586,
    "framework/tensor": 755,
}
# Rooms that a build can leave out are counted apart.
LEFT_OUT = {
    "framework/c": 445,
    "framework/detect": 700,
    "framework/onnx": 2_084,
    "framework/quantize": 937,
}
TESTS = {"tests": 30_604}
# What a table may have as a whole.
TABLES = ((EVERY_BUILD, 53_010), (LEFT_OUT, 5_000), (TESTS, 30_604))
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
