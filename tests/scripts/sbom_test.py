#!/usr/bin/env python3
"""sbom_test.py BUILD SOURCE: what scripts/wheel/write_sbom.py says of a build is CycloneDX, and of all that a build may link."""

import json
import re
import subprocess
import sys
from pathlib import Path

build, source = map(Path, sys.argv[1:])
sys.path.insert(0, str(source / "scripts/wheel"))
import write_sbom  # noqa: E402

said = json.loads(subprocess.run([sys.executable, source / "scripts/wheel/write_sbom.py", build], check=True,
                                 capture_output=True, text=True).stdout)
assert (said["bomFormat"], said["specVersion"]) == ("CycloneDX", "1.5")
assert re.search(r"project\(lamina VERSION ([\d.]+)", (source / "CMakeLists.txt").read_text())[1] == \
    said["metadata"]["component"]["version"]
rows = {row["name"]: row for row in said["components"]}
assert rows["Eigen"]["licenses"] == [{"expression": "MPL-2.0"}] and rows["Eigen"]["version"]
assert ("libheif" in rows) == ("LAMINA_HEIF_LIBRARY" in write_sbom.settings_of(build))

# Whatever install-deps.sh installs is in the table, but compilers and what runs beside them.
packages = re.search(r"^packages=\((.*?)\)", (source / "scripts/install-deps.sh").read_text(), re.S | re.M)[1].split()
tools = {"cmake", "ninja-build", "g++"}
assert set(packages) - tools == {package for _, package, *_ in write_sbom.LINKED}, packages
