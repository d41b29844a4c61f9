"""How much code each room may have: scripts/check-layout.py holds the tree to it.

Counted are lines that are neither blank nor comments, of C++, CUDA and Python. Whoever needs more raises the room's
line, says why behind it, and lowers another one if the table is then above what it may have as a whole. A folder counts
for the longest name here that it lies in.
"""

import re

EVERY_BUILD = {
    "framework": 30,
    "framework/base": 1_272,
    "framework/compile": 3_208,
    "framework/cpu": 1_450,
    "framework/cpu/array": 1_726,
    "framework/cpu/conv2d": 4_479,
    "framework/cpu/linear": 414,
    "framework/cpu/lookup": 661,
    "framework/cpu/pool2d": 373,
    "framework/cpu/product": 922,
    "framework/cuda": 2_138,
    "framework/cuda/array": 1_553,
    "framework/cuda/conv2d": 12_485,
    "framework/cuda/linear": 991,
    "framework/cuda/lookup": 994,
    "framework/cuda/product": 1_497,
    "framework/cuda/ptx": 582,
    "framework/cuda/runtime": 1_085,
    "framework/cuda/squeeze_excite": 346,
    "framework/cuda/tensor_core": 555,
    "framework/files": 2_302,
    "framework/graph": 1_329,
    "framework/images": 1_775,
    "framework/kernel": 2_462,
    "framework/layers": 1_431,
    "framework/module": 448,
    "framework/ops": 3_553,
    "framework/plan": 699,
    "framework/pool": 586,
    "framework/tensor": 747,
}
# Rooms that a build can leave out are counted apart.
LEFT_OUT = {
    "framework/c": 445,
    "framework/detect": 700,
    "framework/onnx": 2_172,
    "framework/quantize": 912,
}
TESTS = {"tests": 29_676}
# What a table may have as a whole.
TABLES = ((EVERY_BUILD, 52_093), (LEFT_OUT, 5_000), (TESTS, 29_676))
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
