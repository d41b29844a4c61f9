#!/usr/bin/env python3
"""Runs every test program of a build on a machine with a GPU, as many tests at once as pay, and says what failed, what had
no time, and which tests take longest.

    scripts/gpu/suite.py                          # build/release
    scripts/gpu/suite.py build/hopper --seconds 300 --logs build/suite
    scripts/gpu/suite.py --filter '*Checksums*' --programs cuda_test

A program's tests are dealt out to parts, which are processes of their own; those of programs that use the GPU most come
first, the longest of an earlier run (--times FILE, written by each run) first of all. Tests that measure a GPU's memory,
or take what there is of it, run alone at the end.

Exits with 1 if a test failed or a program broke, with 3 if something had no time and the rest passed.
"""

import argparse
import json
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ALONE = ("OutOfMemory", "CudaPlan.", "CudaScarcity", "CudaPool")  # parts of the names of tests that bear no others beside them
FIRST = ("cuda_test", "compile_test")
PART_SECONDS = 10  # what a process is given, by an earlier run's times
UNKNOWN = 1.0  # seconds that a test is taken for that no earlier run knows


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build/release", type=Path)
    parser.add_argument("--programs", type=lambda text: text.split(","), help="such as cuda_test,plan_test (all of them)")
    parser.add_argument("--filter", default="*", help="gtest's: which tests")
    parser.add_argument("--jobs", type=int, default=10, help="processes at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=480, help="for everything; what has not begun by then has no time")
    parser.add_argument("--logs", type=Path, help="where the output of every part is left (BUILD/suite)")
    parser.add_argument("--times", type=Path, help="seconds of each test: read if it is there, and written (BUILD/suite.json)")
    return parser.parse_args()


class Suite:
    def __init__(self, a):
        self.a, self.until = a, time.monotonic() + a.seconds
        self.logs = a.logs or a.build / "suite"
        self.times_file = a.times or a.build / "suite.json"
        self.known = json.loads(self.times_file.read_text()) if self.times_file.exists() else {}
        self.times, self.failed, self.unfinished = {}, {}, []
        self.passed = self.skipped = self.disabled = 0
        self.logs.mkdir(parents=True, exist_ok=True)

    def seconds_of(self, program, test):
        return self.known.get(f"{program} {test}", UNKNOWN)

    def listed(self, program):
        """The names of a program's tests."""
        text = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={self.a.filter}"], check=True, capture_output=True,
                              text=True).stdout
        names, suite = [], ""
        for line in text.splitlines():
            word = line.split("#")[0].strip()
            if line.startswith(" "):
                names.append(suite + word)
            elif word.endswith("."):
                suite = word
        return names

    def parts(self):
        """(program, tests) side by side, longest first; and those that run alone."""
        programs = sorted(p for p in (self.a.build / "bin").glob("*_test") if not self.a.programs or p.name in self.a.programs)
        programs = [p for p in programs if p.name != "c_test"]  # which is in C, without GoogleTest
        if not programs:
            sys.exit(f"suite.py: no test program in {self.a.build / 'bin'}: cmake --build {self.a.build}")
        beside, alone = [], []
        with ThreadPoolExecutor(self.a.jobs) as pool:
            for program, tests in zip(programs, pool.map(self.listed, programs)):
                mine = [t for t in tests if any(name in t for name in ALONE)]
                if mine:
                    alone.append((program, mine))
                part, length = [], 0.0
                others = [t for t in tests if t not in set(mine)]
                for test in sorted(others, key=lambda t: -self.seconds_of(program.name, t)):
                    part.append(test)
                    length += self.seconds_of(program.name, test)
                    if length >= PART_SECONDS:
                        beside.append((length, program, part))
                        part, length = [], 0.0
                if part:
                    beside.append((length, program, part))
        beside.sort(key=lambda p: (p[1].name not in FIRST, -p[0]))
        return [(program, part) for _, program, part in beside], alone

    def run(self, program, tests):
        """Runs tests of a program in a process, and adds up what became of them."""
        left = self.until - time.monotonic()
        name = f"{program.name}-{zlib.crc32(' '.join(tests).encode()):08x}"
        report, status = self.logs / f"{name}.json", 124
        report.unlink(missing_ok=True)
        if left > 1:
            with open(self.logs / f"{name}.log", "w", encoding="utf-8") as log:
                # By a file of flags, as names of tests may be more than a command line bears.
                flags = self.logs / f"{name}.flags"
                flags.write_text(f"--gtest_filter={':'.join(tests)}\n--gtest_output=json:{report}\n")
                try:
                    status = subprocess.run([program, f"--gtest_flagfile={flags}"], stdout=log, stderr=subprocess.STDOUT,
                                            timeout=left).returncode
                except subprocess.TimeoutExpired:
                    pass
        if not report.exists():
            if status == 124:
                self.unfinished += [f"{program.name} {test}" for test in tests]
            else:
                self.failed[f"{program.name}, {len(tests)} tests from {tests[0]} on"] = f"exit status {status}, see {name}.log"
            return
        for suite in json.loads(report.read_text(encoding="utf-8"))["testsuites"]:
            for test in suite["testsuite"]:
                key = f"{program.name} {suite['name']}.{test['name']}"
                self.times[key] = float(test["time"].rstrip("s"))
                if "failures" in test:
                    self.failed[key] = test["failures"][0]["failure"].replace("\n", " ")[:300]
                elif test["result"] == "SKIPPED":
                    self.skipped += 1
                elif test["status"] == "NOTRUN":
                    self.disabled += 1
                else:
                    self.passed += 1

    def all(self):
        begun = time.monotonic()
        beside, alone = self.parts()
        print(f"{sum(len(tests) for _, tests in beside + alone)} tests in {len(beside)} parts and {len(alone)} alone", flush=True)
        with ThreadPoolExecutor(self.a.jobs) as pool:
            list(pool.map(lambda part: self.run(*part), beside))
        print(f"side by side: {time.monotonic() - begun:.0f} s", flush=True)
        for part in alone:
            self.run(*part)
        self.times_file.write_text(json.dumps(self.known | self.times, indent=0))
        return time.monotonic() - begun


def main():
    suite = Suite(parse_arguments())
    took = suite.all()
    print("seconds of the longest:")
    for key in sorted(suite.times, key=lambda k: -suite.times[k])[:25]:
        print(f"  {suite.times[key]:7.1f}  {key}")
    programs = {}
    for key, seconds in suite.times.items():
        programs[key.split()[0]] = programs.get(key.split()[0], 0) + seconds
    print("by program: " + ", ".join(f"{name} {seconds:.0f}" for name, seconds in sorted(programs.items(), key=lambda p: -p[1])))
    for key, why in suite.failed.items():
        print(f"FAILED {key}: {why}")
    if suite.unfinished:
        print(f"no time: {len(suite.unfinished)} tests, of " + ", ".join(sorted({u.split()[0] for u in suite.unfinished})) + ": "
              + ", ".join(suite.unfinished)[:600])
    print(f"{suite.passed} passed, {len(suite.failed)} failed, {suite.skipped} skipped, {len(suite.unfinished)} without time; {took:.0f} s")
    sys.exit(1 if suite.failed else 3 if suite.unfinished else 0)


if __name__ == "__main__":
    main()
