#!python
"""The lamina command, whose code is in the package's module. NumPy, which the package imports, takes longer to load than
most commands to run, so the module is loaded without the package around it."""

import os
import sys
from importlib import util

folder = os.path.dirname(os.path.realpath(util.find_spec("lamina").origin))
modules = [name for name in os.listdir(folder) if name.startswith("_core.") and name.endswith(".so")]
spec = util.spec_from_file_location("lamina._core", os.path.join(folder, modules[0]))
module = sys.modules[spec.name] = util.module_from_spec(spec)
spec.loader.exec_module(module)
module.command([os.fsencode(word) for word in sys.argv])
