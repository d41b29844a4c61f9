#!/usr/bin/env python3
"""Fails, naming file and line, where the tree is not laid out as CONTRIBUTING.md says.

    scripts/check-layout.py               # this tree
    scripts/check-layout.py --self-test   # a tree with a mistake of each kind, each of which has to be reported
    scripts/check-layout.py --budget      # what each room has of its budget

Checked are: includes that go up; CUDA outside framework/cuda; third-party headers in headers; files over 300 lines and
folders of more than 25 files; rooms with more code than their budget; comments that name a source which is not there; paths
that exist on somebody's machine only; names of C++ in messages, which C, Python and the command lack; namespaces of tests.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from layout import budgets, namespaces, words

# The rooms: folders of framework/. A file may include its own room and rooms of lower levels.
LEVELS = {"base": 0, "tensor": 1, "files": 2, "images": 2, "kernel": 2, "cpu": 3, "cuda": 3, "module": 4, "layers": 5, "ops": 6,
          "plan": 7, "graph": 8, "onnx": 9, "compile": 10, "pool": 11, "detect": 12, "quantize": 12, "lamina.h": 13, "c": 14}
# The same inside framework/cuda; whatever is not named stands above these.
CUDA_LEVELS = {"runtime": 0, "ptx": 1, "tensor_core": 2}
OPERATIONS = 3  # conv2d, linear, pool2d, ...
# The one operation with families in folders of its own: its table names them, they do not name each other.
FAMILIES = "conv2d"

MOST_LINES = 300
MOST_FILES = 25
MEASURED = ("framework/", "apps/", "python/", "examples/", "tests/", "scripts/", "docs/")
DATA = ("tests/golden", "tests/fuzz/corpus", "tests/fuzz/dictionaries", "tests/fuzz/reproducers",
        "docs/images", "docs/pictures")  # not bound by MOST_FILES

# Exceptions: where -> why. An entry that nothing needs any more is an error too, so that the lists only shrink.
LARGE = {
    "scripts/export_torch.py": "one file that people copy to where PyTorch is",
    "tests/images/image_test.cpp": "one list of malformed pictures for every format",
    "tests/support/layer_cases.h": "one list of cases for the layers of every device",
}
THIRD_PARTY = {
    "framework/base/json.h": "checks for nlohmann's parser, a template: for .cpp files only",
    "framework/cpu/eigen.h": "Eigen with the warnings of its own headers silenced: for .cpp files only",
    "framework/onnx/file/wire.h": "protozero with the checks that a hostile file calls for: for .cpp files only",
    "framework/cpu/simd_targets.h": "Highway's pattern: for the sources that it compiles once for each instruction set",
}
INCLUDES = {  # (file, included file or folder) -> why
    ("framework/cuda/linear/linear.cpp", "cuda/conv2d/"): "a linear layer runs as a 1x1 convolution, where that pays",
    ("framework/cuda/kernels.cpp", "cuda/eight_bits/"): "the rows for codes stand in the tables of all",
    ("framework/cuda/array/kernels.cpp", "cuda/eight_bits/"): "the same",
    ("framework/cuda/kernels.cpp", "cuda/map/"): "rows of Maps stand beside those of other kernels",
    ("framework/cuda/array/kernels.cpp", "cuda/map/"): "the same",
    ("framework/cuda/conv2d/conv2d.cpp", "cuda/map/"): "products of a few channels are Maps",
    ("framework/cuda/linear/linear.cpp", "cuda/map/"): "the same",
    ("framework/cuda/conv2d/mma/planes.cu", "cuda/product/"): "images channels first are multiplied as matrices",
    ("framework/cuda/conv2d/channels_last/codes.cpp", "cuda/eight_bits/"): "codes that become others once more",
    ("framework/cuda/conv2d/channels_last/codes.cuh", "cuda/eight_bits/"): "the same",
    ("framework/cuda/conv2d/code_ends.h", "cuda/eight_bits/"): "codes that are added to others",
    ("framework/cuda/conv2d/code_ends.cuh", "cuda/eight_bits/"): "the same",
    ("framework/cuda/conv2d/stem/codes.cu", "cuda/eight_bits/"): "pixels that become codes",
    ("framework/cuda/conv2d/stem/codes.h", "cuda/eight_bits/"): "the same",
    ("framework/cuda/map/generate.cpp", "cuda/eight_bits/"): "numbers that become codes",
    ("framework/cuda/squeeze_excite/squeeze_excite.h", "cuda/eight_bits/"): "images of codes",
    ("framework/cuda/squeeze_excite/squeeze_excite.cu", "cuda/eight_bits/"): "the same",
    ("framework/cuda/squeeze_excite/squeeze_excite.h", "cuda/conv2d/eight_bits_ends.h"): "its layers are 1x1 convolutions",
    ("framework/cuda/squeeze_excite/layers.cuh", "cuda/conv2d/eight_bits_ends.cuh"): "the same",
    ("framework/cuda/linear/code_rows.cu", "cuda/conv2d/eight_bits_ends.cuh"): "the same",
}

SOURCE = (".h", ".cpp", ".cu", ".cuh")
HEADER = (".h", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA = re.compile(r"\b(cuda[A-Z]\w*|__global__|__device__|__shared__|__half2?|__nv_\w+|dim3|cublas[A-Z]\w*|nvtx[A-Z]\w*"
                  r"|CU(?:tensorMap|stream|device|result|module|function|context)\w*)\b")
CUDA_HEADER = re.compile(r"(cuda|cublas|nvtx|cooperative_groups|mma\.h|cub/|thrust/|cutlass)")
STANDARD_HEADER = re.compile(r"([a-z_0-9]+|std(def|int)\.h)$")
STRINGS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*|/\*.*?\*/')
NAMED = re.compile(r"(?<![\w<./])[\w./-]*\w\.(?:cpp|cuh|cu|h)\b")  # a source, in a comment
MACHINE = re.compile(r"(?<![\w.])/(?:" + "|".join(("work", "root", "home")) + r")/")


def files_of(root):
    """The files that git knows or would take, or all of them where there is no git."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, check=True,
                                stdout=subprocess.PIPE, text=True).stdout.split("\0")
        return sorted({name for name in listed if name and (root / name).is_file()})
    names = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return sorted(name for name in names if not name.startswith(("build/", ".", "include/")))


class Check:
    def __init__(self, root, large=(), third_party=(), includes=(), rooms=None):
        self.root = root
        self.budgets = rooms or {}
        self.code = {}  # lines of each room that has a budget
        self.errors = []
        self.exceptions = [*large, *third_party, *includes]
        self.large, self.third_party, self.includes = large, third_party, includes
        self.used, self.texts = set(), {}

    def report(self, name, line, message):
        self.errors.append(f"{name}:{line}: {message}")

    def excepted(self, key, exceptions):
        if key in exceptions:
            self.used.add(key)
        return key in exceptions

    def run(self):
        files = files_of(self.root)
        self.endings = {"/".join(parts[i:]) for parts in (name.split("/") for name in files) for i in range(len(parts))}
        for name in files:
            data = (self.root / name).read_bytes()
            if b"\0" in data:
                continue
            lines = data.decode(errors="replace").splitlines()
            for number, line in enumerate(lines, 1):
                if MACHINE.search(line):
                    self.report(name, number, "a path of somebody's machine")
            if name.startswith(MEASURED) and len(lines) > MOST_LINES and not name.startswith(DATA):
                if not self.excepted(name, self.large):
                    self.report(name, len(lines), f"{len(lines)} lines, more than {MOST_LINES}")
            if name.endswith(SOURCE) and name.startswith(("framework/", "apps/", "tests/")):
                self.source(name, lines)
            self.texts[name] = data.decode(errors="replace")
            if name.endswith((*SOURCE, ".py")) and name.startswith(("framework/", "tests/")):
                self.count(name, data.decode(errors="replace"))
        self.folders(files)
        self.budget()
        self.errors += [*words.unsaid(self.texts), *namespaces.shared(self.texts)]
        for key in self.exceptions:
            if key not in self.used:
                what = " -> ".join(key) if isinstance(key, tuple) else key
                self.report("scripts/check-layout.py", 1, f"nothing needs the exception for {what} any more: delete it")
        return self.errors

    def count(self, name, text):
        room = name
        while room not in self.budgets and "/" in room:
            room = room.rpartition("/")[0]
        if room in self.budgets:
            self.code[room] = self.code.get(room, 0) + budgets.code_lines(name, text)
        elif self.budgets:
            self.report(name, 1, "a room without a budget in scripts/layout/budgets.py")

    def budget(self):
        for room, most in self.budgets.items():
            lines = self.code.get(room, 0)
            if lines > most:
                self.report(room, 1, f"{lines:,} lines of code, {lines - most:,} more than its budget: shorten it, or raise "
                                     "it in scripts/layout/budgets.py and say why")
            if lines == 0:
                self.report(room, 1, "a budget in scripts/layout/budgets.py for a room that is not there: delete it")

    def folders(self, files):
        counts = {}
        for name in files:
            folder = name.rpartition("/")[0]
            counts[folder] = counts.get(folder, 0) + 1
        for folder, count in counts.items():
            measured = f"{folder}/".startswith(MEASURED) and not folder.startswith(DATA)
            if measured and count > MOST_FILES and not self.excepted(folder, self.large):
                self.report(folder, 1, f"{count} files in one folder, more than {MOST_FILES}")

    def source(self, name, lines):
        with_cuda = name.startswith(("framework/cuda/", "tests/cuda/"))
        if name.endswith((".cu", ".cuh")) and not with_cuda:
            self.report(name, 1, "CUDA source outside framework/cuda")
        comment = False
        for number, line in enumerate(lines, 1):
            include = INCLUDE.match(line)
            if include:
                self.include(name, number, *include.groups())
                continue
            code = STRINGS.sub(" ", line)
            if comment:
                _, end, code = code.partition("*/")
                comment = not end
            code, start, _ = code.partition("/*")
            comment = comment or bool(start)
            for named in NAMED.findall(line.partition("//")[2]) if name.startswith("framework/") else ():
                if named.removeprefix("../") not in self.endings:
                    self.report(name, number, f"{named}: a comment names a source that is not there")
            cuda = CUDA.search(code)
            if cuda and not with_cuda:
                self.report(name, number, f"{cuda[0]}: no CUDA type outside framework/cuda")

    def include(self, name, number, how, included):
        with_cuda = name.startswith(("framework/cuda/", "tests/cuda/"))
        if not with_cuda and (how == "<" and CUDA_HEADER.match(included) or included.endswith(".cuh")):
            self.report(name, number, f"{included}: no CUDA header outside framework/cuda")
        if not name.startswith("framework/"):
            return
        if name.endswith(HEADER) and not name.endswith("-inl.h"):
            foreign = how == "<" and not STANDARD_HEADER.match(included) and not CUDA_HEADER.match(included)
            if foreign and not self.excepted(name, self.third_party):
                self.report(name, number, f"{included}: third-party headers belong in .cpp files")
            if included.startswith("lamina/") and f"framework/{included[7:]}" in self.third_party:
                self.report(name, number, f"{included} brings a third-party header, which belongs in .cpp files")
        if how == "<":
            return
        if not included.startswith("lamina/"):
            self.report(name, number, f'"{included}": includes in framework begin with lamina/')
            return
        self.order(name, number, included[7:])

    def order(self, name, number, included):
        here, there = name.split("/")[1], included.split("/")[0]
        if there not in LEVELS or here not in LEVELS:
            self.report(name, number, f"{included}: a room that scripts/check-layout.py does not know")
        elif here != there and LEVELS[there] >= LEVELS[here]:
            self.report(name, number, f"{here} includes {included}, which is not below it")
        elif here == there == "cuda" and not self.cuda_order(name.split("/")[2:-1], included.split("/")[1:-1]):
            reasons = [key for key in self.includes if key[0] == name and included.startswith(key[1])]
            self.used.update(reasons)
            if not reasons:
                self.report(name, number, f"{'/'.join(name.split('/')[1:-1])} includes {included}, which is not below it")

    @staticmethod
    def cuda_order(here, there):
        """Whether a file of framework/cuda's folder `here` may include one of `there`; both as lists of names."""
        level, other = (CUDA_LEVELS.get(folder[0], OPERATIONS) if folder else OPERATIONS for folder in (here, there))
        if other != level:
            return other < level
        # Operations and families: their own folder and those around it, not their neighbours'.
        return here[:len(there)] == there or here == [FAMILIES] == there[:1] or level < OPERATIONS


def self_test():
    long = "\n" * MOST_LINES + "int last;\n"
    here = "/" + "home/"
    mistakes = [  # file, its text, the line to be reported (0: none is to be)
        ("framework/tensor/up.h", "#pragma once\n#include \"lamina/graph/graph.h\"\n", 2),
        ("framework/files/beside.cpp", "#include \"lamina/images/image.h\"\n", 1),
        ("framework/compile/top.cpp", "#include \"lamina/lamina.h\"\n", 1),
        ("framework/base/relative.cpp", "#include \"error.h\"\n", 1),
        ("framework/base/unknown.cpp", "#include \"lamina/utilities/error.h\"\n", 1),
        ("framework/base/named.cpp", "// files/library.h\nint a;  // by files/lost.cu\n", 2),
        ("framework/base/down.cpp", "#include \"lamina/base/error.h\"\n", 0),
        ("framework/cuda/runtime/up.h", "\n\n#include \"lamina/cuda/ptx/copy.cuh\"\n", 3),
        ("framework/cuda/ptx/up.cuh", "#include \"lamina/cuda/conv2d/conv2d.h\"\n", 1),
        ("framework/cuda/tensor_core/up.h", "#include \"lamina/cuda/kernels.h\"\n", 1),
        ("framework/cuda/linear/family.cu", "#include \"lamina/cuda/conv2d/ladder/window.cuh\"\n", 1),
        ("framework/cuda/conv2d/ladder/family.cu", "#include \"lamina/cuda/conv2d/first_layer/tile.cuh\"\n", 1),
        ("framework/cuda/conv2d/ladder/own.cu", "#include <cuda_runtime.h>\n#include \"lamina/cuda/conv2d/conv2d.h\"\n", 0),
        ("framework/cuda/conv2d/table.cpp", "#include \"lamina/cuda/conv2d/ladder/ladder.h\"\n", 0),
        ("framework/plan/type.h", "#pragma once\n/* a\ncudaStream_t */\nvoid* a;  // a cudaStream_t\ncudaStream_t b;\n", 5),
        ("framework/layers/header.cpp", "#include <cuda_runtime.h>\n", 1),
        ("framework/layers/kernel.cu", "\n", 1),
        ("apps/type.cpp", "const char* name = \"dim3\";\ndim3 grid;\n", 2),
        ("tests/cuda/type_test.cpp", "namespace lamina::type_test {\ndim3 grid;\n", 0),
        ("tests/cuda/apart_test.cpp", "\nnamespace lamina::test {\nnamespace lamina::test::other {\n", 2),
        ("framework/files/library.h", "#include <vector>\n#include <nlohmann/json.hpp>\n", 2),
        ("framework/files/library.cpp", "#include <nlohmann/json.hpp>\n", 0),
        ("framework/cpu/wrapper.h", "#include <Eigen/Core>\n", 0),
        ("framework/cpu/leak.h", "#include \"lamina/cpu/wrapper.h\"\n", 1),
        ("framework/cpu/tile-inl.h", "#include <hwy/highway.h>\n", 0),
        ("framework/base/long.cpp", long, MOST_LINES + 1),
        ("framework/base/excepted.cpp", long, 0),
        ("docs/path.md", f"a\nsee {here}somebody/file\n", 2),
        ("docs/address.md", f"https://example.com{here}page\n", 0),
        *((f"apps/many/{i}.cpp", "\n", 0) for i in range(MOST_FILES + 1)),
        ("tests/scripts/none.py", "# a room that no budget names\n", 0),
        ("framework/plan/said.cpp", "// \"Plan::b\"\nfail(\"Plan::a, Plan::b\");\n", 2),
        ("apps/complain.h", '{"Plan::a", "--a"}', 0),
        ("framework/pool/code.cpp", "/* none\n */\n\nint a;  // a comment\nconst char* b = \"/*\";\nint c;\n", 0),
    ]
    rooms = {"framework": 2000, "framework/pool": 2, "framework/kernel": 10, "framework/cuda": 9, "tests/cuda": 5}
    expected = {f"{name}:{line}" for name, _, line in mistakes if line} | {"apps/many:1", "scripts/check-layout.py:1"}
    expected |= {"framework/pool:1", "framework/kernel:1", "tests/scripts/none.py:1"}
    with tempfile.TemporaryDirectory() as folder:
        for name, text, _ in mistakes:
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        large = ("framework/base/excepted.cpp", "framework/base/gone.cpp")
        errors = Check(Path(folder), large, ("framework/cpu/wrapper.h",), rooms=rooms).run()
    found = [":".join(error.split(":")[:2]) for error in errors]
    wrong = [f"not reported: {place}" for place in sorted(expected - set(found))]
    wrong += [f"not to be reported: {error}" for error, place in zip(errors, found) if place not in expected]
    wrong += [f"reported twice: {place}" for place in sorted(set(found)) if found.count(place) > 1]
    return wrong


def main():
    if sys.argv[1:] not in ([], ["--self-test"], ["--budget"]):
        sys.exit(__doc__)
    check = Check(Path(__file__).resolve().parent.parent, LARGE, THIRD_PARTY, INCLUDES, budgets.ALL)
    errors = self_test() if sys.argv[1:] == ["--self-test"] else check.run() + budgets.sums(check.code)
    if sys.argv[1:] == ["--budget"]:
        budgets.show(check.code)
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
