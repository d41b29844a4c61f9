#!/usr/bin/env python3
"""Runs the commands of the pages for users, and compiles and runs their C++, C and CMake, taken from the pages as they are
written, in a copy of the tree and in a home of its own for each page. (Python's lines: python/tests/test_docs.py.)

    scripts/docs/test_docs.py BUILD [PAGE...]           with the build at hand: what compiles Lamina is passed over
    scripts/docs/test_docs.py --long BUILD [PAGE...]    that too, as who has just cloned the sources does it

What a page supposes to be there (my-photo.jpg, net.onnx, variables in the middle of a program) is in given.py.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import given

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/packages.md", "docs/embedding.md", "docs/coming_from.md", "docs/python.md"]
# What is not run, by how it begins, and why not.
NEVER = {
    "sudo apt install": "it changes the machine: scripts/packages/test_bare.sh does it in a bare Debian",
    "apt install": "likewise",
    "scripts/test.sh": "it is what runs this",
    "pip install lamina-0.2.0": "README's first lines install a wheel",
    "pip install . -C": "it compiles for GPUs that are not here",
    'pip install "ray': "Ray is of several hundred megabytes",
    "examples/ray_classify.py": "it needs Ray",
    "tritonserver": "it is NVIDIA's, in an image of its own",
}
# What is run with --long alone: it compiles Lamina, takes minutes, and asks package registries.
LONG = ["scripts/build_wheel.sh", "python3 -m venv ~/lamina-env", ". ~/lamina-env/bin/activate", "pip install dist/lamina-*.whl",
        "pip install .", "python -m lamina.get_classifier", "scripts/demo.sh", "scripts/packages/build_deb.sh", "scripts/install-deps.sh", "cmake --preset demo",
        "cmake --build --preset demo"]

PRELUDE = r"""
set -eo pipefail
# Whoever reads the page has it open until Ctrl-C; here one answer is enough.
until_it_answers() {
  if (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; then
    echo "port 8080 is taken: not run: $*"
    return
  fi
  "$@" &
  local server=$! tries status=
  for tries in $(seq "$WAIT"); do
    if status=$( (exec 3<>/dev/tcp/127.0.0.1/8080; printf 'GET / HTTP/1.0\r\n\r\n' >&3; head -n 1 <&3) 2>/dev/null); then break; fi
    kill -0 $server || return 1
    sleep 0.1
  done
  kill -INT $server
  wait $server || true
  [[ $status == *" 200 "* ]] || { echo "expected 200 of 127.0.0.1:8080, got: $status"; return 1; }
}
prints() {  # prints EXPECTED COMMAND...
  diff <(echo "$1") <("${@:2}")
}
"""


def blocks(page):
    """(language, number of the first line, text) of each block; commands that are indented are "sh"."""
    lines = (ROOT / page).read_text().splitlines()
    at = 0
    while at < len(lines):
        begin = at
        if fence := re.match(r" *```(\w*)$", lines[at]):
            at = next(i for i in range(begin + 1, len(lines)) if lines[i].strip() == "```") + 1
            yield fence[1], begin + 2, textwrap.dedent("\n".join(lines[begin + 1:at - 1]))
        elif lines[at].startswith("    ") and not lines[at - 1].strip():
            while at < len(lines) and lines[at].startswith("    "):
                at += 1
            yield "sh", begin + 1, textwrap.dedent("\n".join(lines[begin:at]))
        else:
            at += 1


class Runner:
    def __init__(self, work, build, long):
        self.long, self.passed_over, self.unused = long, [], set(NEVER) | set(LONG)
        self.tree = work / "lamina"
        files = subprocess.run(["git", "ls-files", "-zco", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
        for name in filter(None, files.stdout.split("\0")):
            if os.path.lexists(ROOT / name):
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name, follow_symlinks=False)
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "WAIT": "6000" if long else "200"}
        for name in ("PYTHONPATH", "VIRTUAL_ENV", "DISPLAY", "WAYLAND_DISPLAY", "XDG_DATA_HOME"):
            self.environment.pop(name, None)
        if not long:  # in place of what README builds
            (self.tree / "build").mkdir()
            (self.tree / "build/demo").symlink_to(build)
        installed = work / "installed"  # in place of the Debian packages
        subprocess.run(["cmake", "--install", build, "--prefix", installed], check=True, stdout=subprocess.DEVNULL)
        library = next(installed.rglob("lamina.pc")).parent.parent
        self.environment["PATH"] = f"{installed}/bin:{os.environ['PATH']}"
        self.found = {"PKG_CONFIG_PATH": str(library / "pkgconfig"), "LD_LIBRARY_PATH": str(library),
                      "CMAKE_PREFIX_PATH": str(installed)}

    def left_out(self, command):
        """Why this command is not run, or None."""
        for begins in (*NEVER, *LONG):
            if command.startswith(begins):
                self.unused.discard(begins)
                if begins in NEVER or not self.long:
                    return NEVER.get(begins, "--long runs it")
        return None

    def bash(self, name, script, finds_lamina=True):
        environment = self.environment | (self.found if finds_lamina else {})
        with tempfile.TemporaryFile("w+") as log:
            result = subprocess.run(["bash", "-c", PRELUDE + script], cwd=self.tree, env=environment, stdout=log,
                                    stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=3600 if self.long else 120)
            if result.returncode != 0:
                log.seek(0)
                sys.exit(f"{name}: exit {result.returncode}\n{log.read()[-6000:]}")
            log.seek(0)
            self.passed_over += [f"{name}: {line.strip()}" for line in log if line.startswith("port 8080")]

    def commands(self, page, first, text):
        """A block of commands; behind "$ " they stand among what they print."""
        script, lines = [], text.splitlines()
        session = lines[0].startswith("$ ")
        while lines:
            number, line = first + len(text.splitlines()) - len(lines), lines.pop(0)
            while line.endswith("\\"):
                line = line[:-1] + lines.pop(0).lstrip()
            expected = []
            while session and lines and not lines[0].startswith("$ "):
                expected.append(lines.pop(0))
            parts = []
            for part in re.sub(r"\s+# .*", "", line.removeprefix("$ ")).split(" && "):
                if why := self.left_out(part):
                    self.passed_over.append(f"{page}:{number}: {part}: {why}")
                    continue
                if re.match(r"lamina serve\b|scripts/demo.sh --page", part):
                    part = "until_it_answers " + part
                if re.match(r"(cc|c\+\+) (?!.* -o )", part):
                    part += "\n./a.out"
                parts.append(part)
            if session and parts:
                parts = [f"prints {shlex.quote(chr(10).join(expected))} {' && '.join(parts)}"]
            # A line each, not joined by &&: where the left one of two fails, set -e does not end the script.
            script += [f"echo {shlex.quote(f'{page}:{number}: {line}')}", *parts]
        # README installs the Debian packages first; what another page needs it installs itself.
        self.bash(f"{page}:{first}", "\n".join(script), finds_lamina=page == "README.md")

    def run(self, page):
        begin, found = time.monotonic(), list(blocks(page))
        home = self.tree.parent / Path(page).stem
        home.mkdir()
        self.environment["HOME"] = str(home)
        path = self.environment["PATH"]
        if self.long and page == "docs/python.md":  # "in a venv on Debian and Ubuntu"
            subprocess.run(["python3", "-m", "venv", home / "venv"], check=True)
            self.environment["PATH"] = f"{home}/venv/bin:{path}"
        given.files(page, self.tree)
        for language, (suffix, compile_line) in given.COMPILED.items():
            if of_it := [(line, text) for kind, line, text in found if kind == language]:
                (self.tree / f"program.{suffix}").write_text(given.program(language, page, of_it))
                self.bash(f"{page}, its {language}", f"{compile_line} -o program\n./program")
        for language, first, text in found:
            if language == "sh":
                self.commands(page, first, text)
            elif language == "cmake":
                shutil.rmtree(self.tree / "consumer", ignore_errors=True)
                (self.tree / "consumer").mkdir()
                (self.tree / "consumer/CMakeLists.txt").write_text(
                    f"cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES CXX)\n"
                    f"add_executable(program ../program.cpp)\n{text}\n")
                # Lamina as a part of a build is configured here; ctest's embed_subproject looks at the rest.
                compiled = self.long or "FetchContent" not in text
                self.bash(f"{page}:{first}", f"cmake -G Ninja -S consumer -B consumer/build -DLAMINA_CUDA=OFF "
                          f"-DFETCHCONTENT_SOURCE_DIR_LAMINA=$PWD\n" + "cmake --build consumer/build\n" * compiled)
        self.environment["PATH"] = path
        print(f"{page}: {len(found)} blocks, {time.monotonic() - begin:.0f} s", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("build", type=lambda name: Path(name).resolve(), metavar="BUILD")
    options.add_argument("pages", nargs="*", metavar="PAGE", help=f"default: {', '.join(PAGES)}")
    options.add_argument("--long", action="store_true")
    options = options.parse_intermixed_args()
    pages = options.pages or PAGES
    with tempfile.TemporaryDirectory() as work:
        runner = Runner(Path(work), options.build, options.long)
        for page in pages:
            runner.run(page)
    print(*runner.passed_over, sep="\n")
    if pages == PAGES and runner.unused:
        sys.exit(f"No page has these commands, which are to be passed over: {', '.join(sorted(runner.unused))}")


if __name__ == "__main__":
    main()
