#!/usr/bin/env python3
"""ONNX's own tests, each passed, refused by name, or wrong: the 1,765 node tests and nine light networks of onnx 1.22.0.

    python3 -m pip install onnx==1.22.0
    scripts/onnx_conformance.py --lamina build/release/bin/lamina
    scripts/onnx_conformance.py --only 'node/test_resize' --again all --device cuda
    scripts/onnx_conformance.py --report docs/coverage.md

Each test is a model, inputs and outputs; `lamina run` gets the inputs in a file and its outputs are compared in names,
types, shapes and values: floats within 1e-3 of the expected value and 1e-7 beside, integers to the bit. passed: they
agree. refused: it exited with 1 and said why. wrong: everything else, a crash, a late answer and a usage error included.
What safetensors and Lamina have no types for (strings, sequences, optionals, complex numbers, 8-bit floats and 4-bit
integers) is refused without a run. Results are kept in --work, and a run goes on where the last one of the same lamina
stopped. Needs the onnx package; never needed to build, run or test Lamina.
"""

import argparse
import collections
import functools
import sys
import time
from pathlib import Path

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError as error:
    sys.exit(f"onnx_conformance.py: {error}; python3 -m pip install onnx==1.22.0")

sys.path.insert(0, str(Path(__file__).resolve().parent))
import suite  # noqa: E402

VERSION = "1.22.0"
DATA = Path(onnx.__file__).parent / "backend/test/data"
RTOL, ATOL = 1e-3, 1e-7  # of onnx's own runner
# Expected are numpy's transforms in float32, which have noise of 2e-7 where the exact value is 0.
NOISE = {"node/test_dft_inverse": 1e-6, "node/test_dft_inverse_opset19": 1e-6}
KINDS = {"sequence_type": "a sequence", "optional_type": "an optional", "map_type": "a map",
         "sparse_tensor_type": "a sparse tensor"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    suite.add_options(parser, Path("build/onnx_conformance"), reports=True)
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one test")
    parser.add_argument("--ops", action="store_true", help="list what was refused and wrong by what lamina said, too")
    return parser.parse_args()


def all_cases():
    nodes = [f"node/{path.name}" for path in sorted((DATA / "node").iterdir()) if (path / "model.onnx").exists()]
    return nodes + [f"light/{path.stem}" for path in sorted((DATA / "light").glob("*.onnx"))]


# --- a test ------------------------------------------------------------------------------------------------------------


def load(path, value):
    """The tensor of a .pb file, which is what the model says of that input or output."""
    which = value.type.WhichOneof("value")
    if which != "tensor_type":
        raise suite.NotStorable(KINDS.get(which, str(which)))
    tensor = onnx.TensorProto.FromString(path.read_bytes())
    kind = onnx.TensorProto.DataType.Name(tensor.data_type)
    if tensor.data_type == onnx.TensorProto.BFLOAT16:  # as bits, so that no package for the type is needed
        return bfloat16(numpy_helper.to_array(tensor))
    if not any(kind.startswith(word) for word in ("BOOL", "INT", "UINT", "FLOAT", "DOUBLE")) or \
            kind in ("INT4", "UINT4", "INT2", "UINT2") or kind.startswith(("FLOAT8", "FLOAT4")):
        raise suite.NotStorable(kind.lower())
    return numpy_helper.to_array(tensor)


def bfloat16(array):
    if array.dtype.name == "bfloat16":
        return suite.Bfloat16((np.ascontiguousarray(array).view("<u2").astype("<u4") << 16).view("<f4"))
    return suite.Bfloat16(array.astype("<f4"))


def light_input(value):
    """What onnx's runner makes up."""
    shape = [d.dim_value or 1 for d in value.type.tensor_type.shape.dim]
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def tests_of(case, model):
    """[(inputs by name, expected outputs by name, what an output is that has no type)]"""
    group, name = case.split("/")
    if group == "light":
        held = {t.name for t in model.graph.initializer}
        inputs = {v.name: light_input(v) for v in model.graph.input if v.name not in held}
        expected = numpy_helper.to_array(onnx.load_tensor(str(DATA / "light" / f"{name}_output_0.pb")))
        return [(inputs, {model.graph.output[0].name: expected}, "")]
    found = []
    for folder in sorted((DATA / "node" / name).glob("test_data_set_*")):
        inputs = {v.name: load(folder / f"input_{i}.pb", v) for i, v in enumerate(model.graph.input)
                  if (folder / f"input_{i}.pb").exists()}
        outputs, without = {}, ""
        for i, value in enumerate(model.graph.output):
            try:
                outputs[value.name] = load(folder / f"output_{i}.pb", value)
            except suite.NotStorable as what:
                without = str(what)
        found.append((inputs, outputs, without))
    return found


def run_case(a, case):
    group, name = case.split("/")
    path = DATA / "node" / name / "model.onnx" if group == "node" else DATA / "light" / f"{name}.onnx"
    model = onnx.load(str(path))
    begin = time.monotonic()
    result = {"op": tested_op(name, model) if group == "node" else name,
              "domain": next((n.domain for n in model.graph.node), "")}

    def ends(status, message=""):
        return {**result, "status": status, "message": message, "seconds": round(time.monotonic() - begin, 2)}

    try:
        tests = tests_of(case, model)
    except suite.NotStorable as what:
        return ends("refused", f"not run: an input is {what}")
    files = a.work / "files"
    stem = files / f"{case.replace('/', '.')}-{a.device}"
    for inputs, expected, without in tests:
        given, output = (stem.with_name(f"{stem.name}-{what}.safetensors") for what in ("in", "out"))
        try:
            suite.write_safetensors(given, inputs)
            status, said, _ = suite.run_lamina(a.lamina, path, given if inputs else None, output, a.device, a.timeout)
            if status != "ran":
                return ends(status, said)
            got = suite.read_safetensors(output)
        finally:
            given.unlink(missing_ok=True)
            output.unlink(missing_ok=True)
        if without:
            return ends("wrong", f"it ran, though an output is {without}")
        if set(got) != set(expected):
            return ends("wrong", f"outputs {sorted(got)}, expected {sorted(expected)}")
        for key, value in expected.items():
            problem = suite.difference(value, got[key], RTOL, NOISE.get(case, ATOL))
            if problem:
                return ends("wrong", f"{key}: {problem}")
    return ends("passed")


def tested_op(name, model):
    """What the test is about: its only op, or, where an op is spelled out in others, the one in its name."""
    ops = {node.op_type for node in model.graph.node}
    if len(ops) == 1:
        return next(iter(ops))
    words = name.removeprefix("test_").removesuffix("_expanded").replace("_", "")
    known = [op for op in known_ops() if words.startswith(op.lower())]
    return max(known, key=len, default=model.graph.node[-1].op_type)


@functools.cache
def known_ops():
    return sorted({schema.name for schema in onnx.defs.get_all_schemas()})


# --- what is printed ---------------------------------------------------------------------------------------------------


def tables(a, results):
    nodes = {case: r for case, r in results.items() if case.startswith("node/")}
    lights = {case: r for case, r in results.items() if case.startswith("light/")}
    by_op = collections.defaultdict(list)
    for result in nodes.values():
        by_op[result.get("op", "?")].append(result)
    rows = [[op, *suite.count(found), len(found)] for op, found in sorted(by_op.items())]
    text = suite.table(["op", *suite.STATUSES, "tests"], rows)
    text += "\n\n" + suite.table(["light network", "", "why"], [
        [case.removeprefix("light/light_"), r["status"], r["message"][:160]] for case, r in lights.items()])
    wrong = [[case, r["message"][:200]] for case, r in results.items() if r["status"] == "wrong"]
    if wrong:
        text += "\n\n" + suite.table(["wrong", "why"], wrong)
    if a.ops:
        said = collections.Counter((r["status"], r["message"][:200]) for r in results.values() if r["message"])
        text += "\n\n" + suite.table(["tests", "", "what was said"], [[n, *key] for key, n in said.most_common()])
    return text, [suite.summary("node", nodes.values()), suite.summary("light", lights.values())]


def main():
    a = parse_arguments()
    if onnx.__version__ != VERSION:
        sys.exit(f"onnx_conformance.py: onnx {onnx.__version__} has other tests: python3 -m pip install onnx=={VERSION}")
    a.work = a.work.resolve()
    (a.work / "files").mkdir(parents=True, exist_ok=True)
    cases = suite.selected(all_cases(), a.only, a.shard)
    state = suite.State(a.work / f"results-{a.device}.jsonl", suite.identity_of(a.lamina), a.again)
    quiet = len(cases) > 100

    def show(line, flush):
        if not quiet or ": wrong" in line or line.split("/")[0].endswith("00"):
            print(line, flush=flush)

    suite.run_all(cases, functools.partial(run_case, a), state, a.jobs, a.timeout * 2, a.work / "answers", show)
    text, lines = tables(a, {case: state.results[case] for case in cases if case in state.results})
    if a.report:
        suite.write_section(a.report, "onnx_conformance", "\n\n".join([text, *lines]))
    print(text, *lines, sep="\n")
    return 1 if any(state.results[case]["status"] == "wrong" for case in cases if case in state.results) else 0


if __name__ == "__main__":
    sys.exit(main())
