"""python -m lamina: the command."""

import os
import sys

from . import _core

if not hasattr(_core, "command"):
    sys.exit("lamina: this package was built without the command (LAMINA_APPS=OFF)")
_core.command([b"lamina", *map(os.fsencode, sys.argv[1:])])
