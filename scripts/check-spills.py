#!/usr/bin/env python3
"""Fails where a CUDA kernel of a release build goes through local memory more than tests/golden/local_memory.txt says.

    scripts/check-spills.py build/release                                # what scripts/test.sh runs
    scripts/check-spills.py --update build/release [MORE_BUILDS ...]     # writes the table from these builds

Local memory (LDL and STL in the machine code) is where registers go that a kernel has too many of, and arrays that the
compiler could not keep in registers: a kernel that begins to use it has become slower without any test failing. Needs
cuobjdump and nvdisasm; says so where they are not there. Fails too where build.log, the build's output, has remarks of
ptxas: it remarks on wgmma that it had to serialise or to wait for; and where two sources compile the same kernel, which
costs the time and the bytes of both.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "tests/golden/local_memory.txt"
HEADER = """\
# Kernels that use local memory: its loads and its stores in the machine code, the architecture, the kernel. All others
# use none. 90 stands for 90a too. Written by scripts/check-spills.py --update, with
"""
ACCESS = re.compile(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?\w+ +)?(LDL|STL)\b")


def find_cuobjdump():
    """cuobjdump, from the PATH or from beside nvcc."""
    nvcc = shutil.which("nvcc")
    folders = [os.environ["PATH"], *([str(Path(nvcc).resolve().parent)] if nvcc else []), "/usr/local/cuda/bin"]
    return shutil.which("cuobjdump", path=os.pathsep.join(folders))


def dump(cuobjdump, *arguments):
    """Its output line by line, each with the architecture and the function that it is about."""
    path = os.pathsep.join([str(Path(cuobjdump).parent), os.environ["PATH"]])  # cuobjdump calls nvdisasm
    process = subprocess.Popen([cuobjdump, *arguments], stdout=subprocess.PIPE, text=True, env={**os.environ, "PATH": path})
    architecture = function = None
    with process:
        for line in process.stdout:
            if line.startswith("arch = "):
                architecture = int(re.match(r"arch = sm_(\d+)", line)[1])
            elif "Function" in line:
                function = re.match(r"\s*Function (?:: )?(\w+)", line)[1]
            yield architecture, function, line
    if process.returncode:
        raise SystemExit(f"{cuobjdump} {' '.join(arguments)}: exit code {process.returncode}")


def accesses(cuobjdump, file):
    """(mangled kernel, architecture) -> [loads, stores] for the kernels of an object that have either."""
    # Whoever has no stack frame uses no local memory; disassembling takes a thousand times as long as asking for that.
    framed = {architecture for architecture, _, line in dump(cuobjdump, "-res-usage", str(file))
              if re.search(r"\bSTACK:[1-9]", line)}
    counts = {}
    for architecture in sorted(framed):
        names = [line.split()[-1] for _, _, line in dump(cuobjdump, "-lelf", str(file)) if f".sm_{architecture}" in line]
        suffix = "a" if any(f".sm_{architecture}a." in name for name in names) else ""
        for _, function, line in dump(cuobjdump, "-sass", "-arch", f"sm_{architecture}{suffix}", str(file)):
            if match := (" LDL" in line or " STL" in line) and ACCESS.match(line):
                counts.setdefault((function, architecture), [0, 0])[match[1] == "STL"] += 1
    return counts


def short_names(mangled):
    """Demangled, without return type, arguments, and the namespaces that all share."""
    mangled = sorted(mangled)
    demangled = subprocess.run(["c++filt"], input="\n".join(mangled), stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(zip(mangled, map(short_name, demangled.splitlines())))


def short_name(name):
    name = name.replace("(anonymous namespace)::", "").replace("lamina::cuda::", "").replace("lamina::", "")
    depth = 0
    for position, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            name = name[:position]
            break
    return name.removeprefix("void ")


def measure(cuobjdump, builds):
    """(kernel, architecture) -> (loads, stores), the most of all builds, and the architectures looked at."""
    files = sorted(file for build in builds for file in build.rglob("*.cu.o"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        measured = list(pool.map(lambda file: accesses(cuobjdump, file), files))
        seen = {int(number) for listed in pool.map(lambda file: list(dump(cuobjdump, "-lelf", str(file))), files)
                for _, _, line in listed for number in re.findall(r"\.sm_(\d+)", line)}
    names = short_names({function for counts in measured for function, _ in counts})
    most = {}
    for counts in measured:
        for (function, architecture), (loads, stores) in counts.items():
            key = names[function], architecture
            before = most.get(key, (0, 0))
            most[key] = max(loads, before[0]), max(stores, before[1])
    return most, seen


def read_table():
    rows, architectures, compiler = {}, set(), ""
    for line in TABLE.read_text().splitlines() if TABLE.exists() else []:
        if match := re.match(r"# (.*) for ((?:\d+ ?)+)$", line):
            compiler, architectures = match[1], set(map(int, match[2].split()))
        elif not line.startswith("#"):
            loads, stores, architecture, name = line.split(maxsplit=3)
            rows[name, int(architecture)] = int(loads), int(stores)
    return rows, architectures, compiler


def compiled_twice(build):
    """A line for each kernel whose host stub is in more than one object."""
    objects = {}
    for file in build.rglob("*.cu.o"):
        listed = subprocess.run(["nm", str(file)], stdout=subprocess.PIPE, text=True, check=True).stdout
        for kernel in re.findall(r"ZZL\d+__device_stub_(\w+)E\d+__handle$", listed, re.MULTILINE):
            objects.setdefault(kernel, []).append(str(file.relative_to(build)))
    return [f"{kernel} is compiled in {', '.join(sorted(files))}" for kernel, files in sorted(objects.items()) if files[1:]]


def compiler_of(build):
    """The version of the nvcc that a build directory was configured with."""
    files = build.glob("CMakeFiles/*/CMakeCUDACompiler.cmake")
    versions = re.findall(r'^set\(CMAKE_CUDA_COMPILER_VERSION "(.+)"\)', "".join(map(Path.read_text, files)), re.MULTILINE)
    return f"nvcc {versions[0] if versions else 'unknown'}"


def update(cuobjdump, builds):
    measured, seen = measure(cuobjdump, builds)
    rows, architectures, _ = read_table()
    rows = {key: counts for key, counts in rows.items() if key[1] not in seen} | measured
    listed = " ".join(map(str, sorted(architectures | seen)))
    lines = [f"{loads:4} {stores:4} {architecture:4}  {name}\n" for (name, architecture), (loads, stores) in sorted(rows.items())]
    TABLE.write_text(f"{HEADER}# {compiler_of(builds[0])} for {listed}\n" + "".join(lines))


def compare(cuobjdump, build):
    measured, seen = measure(cuobjdump, [build])
    rows, architectures, compiler = read_table()
    if seen - architectures:
        print(f"local memory: not checked for {' '.join(map(str, sorted(seen - architectures)))}, which the table lacks")
    worse = []
    for (name, architecture), (loads, stores) in sorted(measured.items()):
        before = rows.get((name, architecture), (0, 0))
        if architecture in architectures and (loads > before[0] or stores > before[1]):
            worse.append(f"{name} for {architecture}: {loads} loads and {stores} stores in local memory, not {before[0]} "
                         f"and {before[1]}")
    better = sum(measured.get(key, (0, 0)) < counts for key, counts in rows.items() if key[1] in seen)
    if better:
        print(f"local memory: {better} kernels use less than {TABLE.name} says; scripts/check-spills.py --update {build}")
    if worse and compiler_of(build) != compiler:
        # Another compiler's choices are not a mistake of ours.
        print("\n".join(worse), f"The table was made with {compiler}, this build with {compiler_of(build)}.", sep="\n")
        return []
    return worse


def main():
    arguments = sys.argv[1:]
    updating = arguments[:1] == ["--update"]
    builds = [Path(argument) for argument in arguments[updating:]]
    if not builds or len(builds) > 1 and not updating or not all((build / "CMakeCache.txt").exists() for build in builds):
        sys.exit(__doc__)
    errors = []
    log = builds[0] / "build.log"
    if not updating and log.exists():
        errors += [line for line in log.read_text(errors="replace").splitlines() if "ptxas info" in line]
    if not updating:
        errors += compiled_twice(builds[0])
    cuobjdump = find_cuobjdump()
    if not cuobjdump:
        print("cuobjdump is not here: local memory was not checked")
    elif updating:
        update(cuobjdump, builds)
    else:
        errors += compare(cuobjdump, builds[0])
    if errors:
        sys.exit("\n".join(errors))


if __name__ == "__main__":
    main()
