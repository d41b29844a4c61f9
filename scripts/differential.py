#!/usr/bin/env python3
"""Random ONNX graphs by Lamina and by ONNX Runtime, whose answers must agree; where they do not, ONNX's own reference
implementation is asked.

    python3 -m pip install onnx==1.22.0 onnxruntime
    scripts/differential.py --lamina build/release/bin/lamina --graphs 20000      # before a release
    scripts/differential.py --first 4711 --graphs 1 --keep                        # one of them again

Graphs have one to six nodes of about a hundred ops (suite/random_graphs), operator sets 7 to 22, ranks 0 to 5, extents of 0
and 1, elements that are not finite. A graph is its number, which --first counts from. equal: types, shapes and values
agree, floats within 1e-3 of each other and 1e-4 of the largest. special: so they do but where ONNX Runtime has NaN, or
Inf and Lamina NaN (0 times Inf, if a 0 is multiplied). refused: Lamina says why it cannot. reference: ONNX Runtime is alone
in what it answers. wrong: everything else, a crash and a late answer included; the model, its inputs and what ONNX Runtime
answered stay in --work/NUMBER. Exits with 1 if there is one. Never needed to build, run or test Lamina.
"""

import argparse
import collections
import functools
import multiprocessing
import os
import shutil
import sys
import warnings
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError as error:
    sys.exit(f"differential.py: {error}; python3 -m pip install onnx==1.22.0 onnxruntime")

sys.path.insert(0, str(Path(__file__).resolve().parent))
import suite  # noqa: E402
from suite.random_graphs import counts, draw, elements, moving, windows  # noqa: E402

NODES = elements.NODES + moving.NODES + windows.NODES


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", type=Path, default=Path("build/release/bin/lamina"), help="the lamina command")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--first", type=int, default=0, help="the number of the first graph")
    parser.add_argument("--graphs", type=int, default=1000, help="how many")
    parser.add_argument("--counts", action="store_true", help="graphs of values whose extents only a run knows")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many run at a time")
    parser.add_argument("--work", type=Path, default=Path("build/differential"), help="where files are kept")
    parser.add_argument("--keep", action="store_true", help="keep the files of graphs that agree, too")
    parser.add_argument("--timeout", type=float, default=30, help="seconds for a graph")
    return parser.parse_args()


def value_info(name, array, shape=()):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)


def model_of(nodes, inputs, constants, outputs, opset, batch=()):
    """`batch`: inputs whose first extent the model leaves open."""
    declared = [value_info(n, a, ["N", *a.shape[1:]] if n in batch else a.shape) for n, a in inputs.items()]
    graph = helper.make_graph(nodes, "graph", declared, [helper.make_empty_tensor_value_info(n) if a is None else
                                                         value_info(n, a, None) for n, a in outputs.items()],
                              [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8 if opset < 19 else 10)


def answers(model, inputs):
    """ONNX Runtime's; draw.Skip where it refuses the model."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, inputs)
    except Exception as error:  # noqa: BLE001: they have no other base
        raise draw.Skip from error


def grow(seed, counted=False):
    """(model, inputs, what ONNX Runtime answers); None if it takes none of the nodes that were drawn. `counted`: it
    begins with a value of which only a run knows how many elements it has."""
    g, made = draw.Draw(seed, 13 + seed % 10 if counted else None), {}
    wanted = g.r.choice([1, 1, 2, 2, 3, 4, 5, 6])
    for _ in range(6 * wanted):
        before = dict(g.values), dict(g.inputs), dict(g.constants)
        try:
            kinds = NODES if not counted else counts.PRODUCERS if not g.nodes else counts.NODES + NODES[::5]
            drawn = g.r.choice(kinds)(g)
            nodes = drawn if isinstance(drawn, list) else [drawn]
            known, given = {**g.values, **g.constants}, {n for node in nodes for n in node.output}
            fed = {n: known[n] for node in nodes for n in node.input if n and n not in given}
            names = [n for node in nodes for n in node.output]
            results = answers(model_of(nodes, fed, {}, dict.fromkeys(names), g.opset), fed)
            if any(r.size > draw.MOST or r.ndim > 6 for r in results):
                raise draw.Skip
        except draw.Skip:
            g.values, g.inputs, g.constants = before
            continue
        g.nodes.extend(nodes)
        for name, result in zip(names, map(np.asarray, results)):
            made[name] = g.values[name] = result
        if len(g.nodes) >= wanted:
            break
    if not g.nodes:
        return None
    read = {name for node in g.nodes for name in node.input}
    inputs = {n: a for n, a in g.inputs.items() if n in read}
    outputs = made if g.maybe(0.3) else {n: a for n, a in made.items() if n not in read}
    first = [a.shape[0] for a in inputs.values() if a.ndim and a.shape[0] > 0]
    batch = g.r.choice(first) if first and g.maybe(0.25) else None
    return model_of(g.nodes, inputs, {n: a for n, a in g.constants.items() if n in read}, outputs, g.opset,
                    {n for n, a in inputs.items() if a.ndim and a.shape[0] == batch}), inputs, outputs


def differences(expected, got, special=False):
    """{output: what is wrong with it}. The absolute tolerance is a part of the largest element, for sums of large terms
    that cancel."""
    found = {}
    for name, value in expected.items():
        if name not in got:
            found[name] = "missing"
            continue
        floats = value.dtype.kind == "f"
        if floats and special and value.shape == got[name].shape and value.dtype == got[name].dtype:
            value = np.where(np.isnan(value) | np.isinf(value) & np.isnan(got[name]), got[name], value)
        loose = 10 if value.dtype == np.float16 else 1
        largest = float(np.abs(value[np.isfinite(value)]).max(initial=0)) if floats else 0
        problem = suite.difference(value, got[name], 1e-3 * loose, 1e-5 + 1e-4 * loose * largest)
        if problem:
            found[name] = problem
    return found


def by_reference(model, inputs, names):
    """What ONNX's reference makes of these outputs; none where it fails, as it does in places."""
    nodes, needed = [], set(names)
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            nodes.insert(0, node)
            needed |= set(node.input)
    part = onnx.ModelProto.FromString(model.SerializeToString())
    del part.graph.node[:], part.graph.output[:]
    part.graph.node.extend(nodes)
    part.graph.output.extend(output for output in model.graph.output if output.name in names)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answered = ReferenceEvaluator(part).run(None, {n: a for n, a in inputs.items() if n in needed})
        return dict(zip([output.name for output in part.graph.output], map(np.asarray, answered)))
    except Exception:  # noqa: BLE001
        return {}


def judged(model, inputs, expected, got):
    """(status, what differs)"""
    strict, bad = differences(expected, got), differences(expected, got, True)
    if not strict:
        return "equal", ""
    if not bad:
        return "special", ""
    reference = by_reference(model, inputs, bad)
    said = "; ".join(f"{name}: {problem}" for name, problem in bad.items())
    return "reference" if reference and not differences(reference, got, True) else "wrong", said


def run_graph(a, seed):
    """(number, status, ops, what was said)"""
    grown = grow(seed, a.counts)
    if grown is None:
        return seed, "empty", [], ""
    model, inputs, expected = grown
    ops, folder = [node.op_type for node in model.graph.node], a.work / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "m.onnx")
    suite.write_safetensors(folder / "i.safetensors", inputs)
    threads = ["--threads", str(1 + seed % 3)] if a.device == "cpu" else []
    status, said, _ = suite.run_lamina(a.lamina, folder / "m.onnx", folder / "i.safetensors" if inputs else None,
                                       folder / "o.safetensors", a.device, a.timeout, threads)
    if status == "ran":
        status, said = judged(model, inputs, expected, suite.read_safetensors(folder / "o.safetensors"))
        suite.write_safetensors(folder / "onnxruntime.safetensors", expected)
    if status != "wrong" and not a.keep:
        shutil.rmtree(folder)
    return seed, status, ops, said


def main():
    a = parse_arguments()
    a.work, a.lamina = a.work.resolve(), a.lamina.resolve()
    statuses, ops, refused = collections.Counter(), collections.Counter(), collections.Counter()
    with multiprocessing.get_context("spawn").Pool(a.jobs) as pool:
        seeds = range(a.first, a.first + a.graphs)
        for count, (seed, status, used, said) in enumerate(pool.imap_unordered(functools.partial(run_graph, a), seeds), 1):
            statuses[status] += 1
            ops.update(set(used))
            if status == "refused":
                refused[said.splitlines()[-1][:120]] += 1
            if status in ("wrong", "reference"):
                print(f"{seed}: {status}: {', '.join(used)}: {said}", flush=True)
            if count % 500 == 0:
                print(f"{count}/{a.graphs}: {dict(statuses)}", flush=True)
    rows = [[said, n] for said, n in refused.most_common(20)]
    print(suite.table(["refused", "graphs"], rows) if rows else "nothing was refused")
    print(f"{len(ops)} ops; the fewest: {', '.join(f'{op} {n}' for op, n in ops.most_common()[:-11:-1])}")
    print(f"{sum(statuses.values())} graphs: {', '.join(f'{n} {status}' for status, n in sorted(statuses.items()))}")
    return 1 if statuses["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
