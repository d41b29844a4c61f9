"""Says of a part of onnxruntime's that is not here whose doing it is that it is not found."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any

INSTEAD = {"quantization": "; lamina.quantize makes eight bits of a model"}
LISTED = "docs/coming_from.md in Lamina's repository lists what is missing"


class _Absent(MetaPathFinder):
    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        part = name.rpartition("onnxruntime.")[2]
        if sys._getframe(2).f_code.co_name == "find_spec":
            return  # importlib.util's only asks
        everywhere = "onnxruntime" in sys.modules and sys.modules["onnxruntime"] is sys.modules.get("lamina.onnxruntime")
        if name == f"lamina.onnxruntime.{part}":  # or from onnxruntime import part
            more = ": lamina.onnxruntime.everywhere stands in for onnxruntime here, and" if everywhere else ": Lamina"
            raise ImportError(f"cannot import name {part!r} of onnxruntime{more} has no such part ({LISTED})"
                              f"{INSTEAD.get(part, '')}{OWN if everywhere else ''}", name=name)
        if everywhere and name == f"onnxruntime.{part}":
            raise ModuleNotFoundError(f"No module {part!r} of onnxruntime: lamina.onnxruntime.everywhere stands in for onnxruntime here, and has "
                                      f"no such part ({LISTED}){INSTEAD.get(part, '')}{OWN}", name=name)


OWN = "; use onnxruntime's own in a process without that import"
sys.meta_path.append(_Absent())
