#!/usr/bin/env python3
"""Races every op of docs/inside/ops.md on one core of a CPU beside ONNX Runtime, and says which take much longer than there.

    scripts/race/race_ops.py                                          # all, as a table of docs/benchmarks_ops.md
    scripts/race/race_ops.py --only 'TopK|Conv' --sizes large         # a regular expression
    scripts/race/race_ops.py --json after.json --beside before.json   # with the ratios of an earlier run

A case is a network of one op, of operands for one of three sizes: "small" is what a call costs, "middle" stays in L2,
"large" in no cache. Both engines run it in one thread of this process, on the same arrays, into arrays that are there
before, and take turns; a time is the processor's, not the wall's, the least of all rounds, so that others who work on the
machine move ratios little. What is slower than --threshold after that gets as many rounds again. Answers have to agree.
Needs the package lamina, onnx and onnxruntime.
"""

import argparse
import json
import re
import sys
import tempfile
import time

import lamina
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from race_cases import SIZES, cases

OPSET = 21  # or the first that has the op: ONNX Runtime knows few of the newest


def model_of(case):
    """The network of a case."""
    infos = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
             for name, array in case.inputs.items()]
    constants = [numpy_helper.from_array(array, name) for name, array in case.constants.items()]
    node = helper.make_node(case.op, case.operands, case.outputs, **case.attributes)
    graph = helper.make_graph([node], "race", infos, [onnx.ValueInfoProto(name=name) for name in case.outputs], constants)
    opset = max(OPSET, min(each.since_version for each in onnx.defs.get_all_schemas_with_history()
                           if each.name == case.op and not each.domain))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


class OnnxRuntime:
    def __init__(self, model, case):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        self.values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in case.inputs.values()]
        for name, value in zip(case.inputs, self.values):
            self.binding.bind_ortvalue_input(name, value)
        self.outputs = [onnxruntime.OrtValue.ortvalue_from_numpy(y) for y in self.session.run(None, case.inputs)]
        for output, value in zip(self.session.get_outputs(), self.outputs):
            self.binding.bind_ortvalue_output(output.name, value)

    def answers(self):
        self.call()
        return [value.numpy() for value in self.outputs]

    def call(self):
        self.session.run_with_iobinding(self.binding)


class Lamina:
    def __init__(self, model, case, like):
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(model.SerializeToString())
            file.flush()
            network = lamina.load(file.name)
        self.plan = network.compile(device="cpu", threads=1)
        inputs = tuple(case.inputs[name] for name in network.input_names)
        outputs = tuple(np.empty_like(array) for array in like)
        self.x, self.y = (part[0] if len(part) == 1 else part for part in (inputs, outputs))
        self.outputs = outputs

    def answers(self):
        self.call()
        return self.outputs

    def call(self):
        self.plan(self.x, out=self.y)


def differ(ours, theirs):
    """What is wrong with our answers, or ""."""
    for a, b in zip(ours, theirs):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.dtype}{a.shape} beside {b.dtype}{b.shape}"
        if a.dtype.kind != "f":
            if (a != b).any():
                return f"{np.mean(a != b):.2g} of the answers are others"
            continue
        scale = max(1e-3, np.abs(b[np.isfinite(b)]).max(initial=0))
        if not np.allclose(a, b, rtol=1e-4, atol=1e-4 * scale, equal_nan=True):
            return f"off by {np.nanmax(np.abs(a - b)) / scale:.2g} of the largest"
    return ""


def seconds_of(call, calls):
    # Of the process: what takes long is computed in a thread of its own, so that Ctrl-C is heard.
    start = time.process_time_ns()
    for _ in range(calls):
        call()
    return (time.process_time_ns() - start) / calls / 1e9


class Race:
    """Two engines on one case; least[i] is engine i's time in seconds."""

    def __init__(self, engines, options):
        self.engines, self.options = [engine.call for engine in engines], options
        self.least = [float("inf")] * 2
        for call in self.engines:
            call()
        self.calls = [max(1, int(options.turn / max(seconds_of(call, 1), 1e-7))) for call in self.engines]

    def ratio(self):
        return self.least[0] / self.least[1]

    def run(self):
        end = time.monotonic() + self.options.seconds
        rounds = 0
        while rounds < 5 or time.monotonic() < end:
            for i in (0, 1) if rounds % 2 else (1, 0):
                self.least[i] = min(self.least[i], seconds_of(self.engines[i], self.calls[i]))
            rounds += 1

    def decide(self):
        self.run()
        for _ in range(2):
            if self.ratio() > self.options.threshold:
                self.run()


def measure(case, options):
    """{"lamina", "onnxruntime": seconds}, or {"note": why not}."""
    model = model_of(case)
    try:
        theirs = OnnxRuntime(model, case)
        expected = theirs.answers()
    except Exception as error:
        return {"note": "not in ONNX Runtime", "error": str(error)}
    try:
        ours = Lamina(model, case, expected)
    except lamina.Error as error:
        return {"note": "refused", "error": str(error)}
    wrong = differ(ours.answers(), expected)
    race = Race((ours, theirs), options)
    race.decide()
    return {"lamina": race.least[0], "onnxruntime": race.least[1], **({"wrong": wrong} if wrong else {})}


def cell(found, earlier, threshold):
    if "note" in found:
        return found["note"]
    ratio = found["lamina"] / found["onnxruntime"]
    text = f"{found['lamina'] * 1e6:,.1f} / {found['onnxruntime'] * 1e6:,.1f}: "
    if earlier and "lamina" in earlier:
        text += f"{earlier['lamina'] / earlier['onnxruntime']:.2f} → "
    return text + (f"**{ratio:.2f}**" if ratio > threshold else f"{ratio:.2f}") + (" WRONG" if "wrong" in found else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression that the names of the cases match")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--seconds", type=float, default=0.25, help="of a case, and again where it is slow")
    parser.add_argument("--turn", type=float, default=0.002, help="seconds of an engine's turn")
    parser.add_argument("--threshold", type=float, default=1.5)
    parser.add_argument("--json", help="where the times go")
    parser.add_argument("--beside", help="such a file of an earlier run")
    options = parser.parse_args()
    sizes = options.sizes.split(",")
    earlier = json.load(open(options.beside)) if options.beside else {}
    found = {}
    print(f"{lamina.describe('cpu')}, ONNX Runtime {onnxruntime.__version__}; us of Lamina / of ONNX Runtime: ratio\n")
    print(f"| case | {' | '.join(sizes)} |\n|---|{'---|' * len(sizes)}")
    for name, make in cases():
        if not re.search(options.only, name):
            continue
        cells = []
        for size in sizes:
            key = f"{name}, {size}"
            found[key] = measure(make(size), options)
            cells.append(cell(found[key], earlier.get(key), options.threshold))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    if options.json:
        json.dump(found, open(options.json, "w"), indent=1)
    timed = {key: it["lamina"] / it["onnxruntime"] for key, it in found.items() if "lamina" in it}
    slow = sorted((key for key in timed if timed[key] > options.threshold), key=lambda key: -timed[key])
    print(f"\n{len(timed)} timed; {len(slow)} above {options.threshold:g}:")
    for key in slow:
        print(f"{timed[key]:6.2f}  {key}")
    for key, it in found.items():
        if "error" in it or "wrong" in it:
            print(f"{key}: {it.get('wrong') or it['note'] + ': ' + ' '.join(it['error'].split())[:200]}")
    return any("wrong" in it for it in found.values())


if __name__ == "__main__":
    sys.exit(main())
