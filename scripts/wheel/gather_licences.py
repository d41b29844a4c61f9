#!/usr/bin/env python3
"""Copies the licences of what is linked into a build of Lamina's to a folder, a file each.

    scripts/wheel/gather_licences.py build/demo licences/

They are those that the distribution's packages and the CUDA toolkit brought along; what has none here is named on stderr.
"""

import shutil
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import write_sbom  # noqa: E402

EULA = """The CUDA runtime (libcudart_static) is NVIDIA's, distributed under the CUDA Toolkit End User License Agreement:
https://docs.nvidia.com/cuda/eula/
"""


def licence_of(name, package, settings):
    """The file, or None."""
    if name == "CUDA runtime":
        toolkit = Path(settings["CMAKE_CUDA_COMPILER"]).resolve().parent.parent
        places = [toolkit / "EULA.txt", toolkit / "LICENSE", *Path("/usr/share/doc").glob("cuda-cudart-dev-*/copyright")]
    elif package:
        places = [Path("/usr/share/doc", package, "copyright")]
    else:
        try:
            places = [path.locate() for path in files(name) if path.name.startswith("LICENSE")]
        except PackageNotFoundError:
            places = []
    return next((place for place in places if place.is_file()), None)


def main(build, folder):
    settings = write_sbom.settings_of(build)
    linked = [(name, package) for name, package, _, setting in write_sbom.LINKED if not setting or setting in settings]
    if "CMAKE_CUDA_COMPILER" in settings:
        linked.append(("CUDA runtime", ""))
    if "LAMINA_PYTHON" in settings:
        linked.append(("nanobind", ""))
    folder.mkdir(parents=True, exist_ok=True)
    for name, package in linked:
        found = licence_of(name, package, settings)
        if found is None and name == "CUDA runtime":
            (folder / "CUDA_runtime.txt").write_text(EULA)
        elif found is None:
            print(f"gather_licences.py: no licence of {name} was found here", file=sys.stderr)
        else:
            shutil.copyfile(found, folder / f"{name.replace(' ', '_')}.txt")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
