#!/usr/bin/env python3
"""Writes what is linked into a build of Lamina's, with versions and licences, as CycloneDX to stdout.

    scripts/wheel/write_sbom.py build/demo > lamina.cdx.json

Versions are those of the distribution's packages that are installed, and of Python's that scripts/wheel pins.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

# Name, the distribution's package, licence (SPDX), and the setting of the build that brings it in.
LINKED = (
    ("Eigen", "libeigen3-dev", "MPL-2.0", ""),
    ("JSON for Modern C++", "nlohmann-json3-dev", "MIT", ""),
    ("stb", "libstb-dev", "MIT OR Unlicense", ""),
    ("Highway", "libhwy-dev", "Apache-2.0 OR BSD-3-Clause", ""),
    ("protozero", "libprotozero-dev", "BSD-2-Clause", "LAMINA_ONNX"),
    ("libjpeg-turbo", "libjpeg-dev", "IJG AND BSD-3-Clause AND Zlib", "LAMINA_HAVE_LIBJPEG_TURBO"),
    ("libwebp", "libwebp-dev", "BSD-3-Clause", "LAMINA_WEBP_LIBRARY"),
    ("libheif", "libheif-dev", "LGPL-3.0-or-later", "LAMINA_HEIF_LIBRARY"),
    ("libtiff", "libtiff-dev", "libtiff", "LAMINA_TIFF_LIBRARY"),
    ("CLI11", "libcli11-dev", "BSD-3-Clause", "LAMINA_APPS"),
    ("fmt", "libfmt-dev", "MIT", "LAMINA_APPS"),
    ("Boost", "libboost-dev", "BSL-1.0", "LAMINA_BOOST_INCLUDE_DIR"),
    ("zlib", "zlib1g-dev", "Zlib", "ZLIB_LIBRARY_RELEASE"),
)
PYTHONS = (("nanobind", "BSD-3-Clause"), ("nanobind-backend", "BSD-3-Clause"))


def settings_of(build):
    """CMake's cache, without what is off, empty or was not found."""
    text = (build / "CMakeCache.txt").read_text("utf-8")
    found = dict(re.findall(r"^([A-Za-z_0-9]+):[A-Z]+=(.*)$", text, re.M))
    return {name: value for name, value in found.items() if not re.fullmatch(r"(|OFF|FALSE|0|.*NOTFOUND)", value)}


def distributed(package):
    """The version of a package of the distribution's."""
    query = ["dpkg-query", "-W", "-f", "${Version}", package]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def component(name, version, licence, purl=""):
    row = {"type": "library", "name": name, "version": version, "licenses": [{"expression": licence}]}
    return row | ({"purl": f"{purl}@{version}"} if purl else {})


def components(settings):
    rows = [component(name, distributed(package), licence, f"pkg:deb/{package}")
            for name, package, licence, setting in LINKED if not setting or setting in settings]
    rows.append(component("letters of DejaVu Sans", "2.37", "Bitstream-Vera"))
    if "CMAKE_CUDA_COMPILER" in settings:
        said = subprocess.run([settings["CMAKE_CUDA_COMPILER"], "--version"], capture_output=True, text=True).stdout
        rows.append(component("CUDA runtime", re.search(r"release ([\d.]+)|$", said)[1] or "unknown",
                              "LicenseRef-NVIDIA-CUDA-EULA"))
    if "LAMINA_PYTHON" in settings:
        pins = dict(re.findall(r"^([\w-]+)==(\S+)", (Path(__file__).parent / "build.txt").read_text(), re.M))
        rows += [component(name, pins[name], licence, f"pkg:pypi/{name}") for name, licence in PYTHONS]
    return rows


def bill(build):
    settings = settings_of(build)
    version = settings["CMAKE_PROJECT_VERSION"]
    lamina = component("lamina", version, "MIT") | {"type": "application"}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": lamina},
            "components": components(settings)}


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    json.dump(bill(Path(sys.argv[1])), sys.stdout, indent=1)
    print()
