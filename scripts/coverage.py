#!/usr/bin/env python3
"""How much of torchvision and timm runs: each network exported, run by `lamina run`, and compared with PyTorch.

    scripts/coverage.py --lamina build/release/bin/lamina                              # everything: hours
    scripts/coverage.py --only 'classification/.*by onnx' --shard 1/4 --device cuda
    scripts/coverage.py --prepare                                                      # only write the ONNX files

Sets: torchvision's 80 classifiers, 6 segmentation networks, 3 backbones of its detectors; and of each file of timm's
models the first of its sorted names with at most 50 M parameters. Ways: by torch.onnx.export, and by export_torch.py.
A case is "SET/NAME by WAY". It is passed if the relative L2 error of all outputs together is below --rtol, or, in a
network so chaotic that PyTorch's own float32 is further than that from its float64, within three times PyTorch's error;
refused if the exporter or Lamina say that they cannot; wrong otherwise, a crash and a late answer included. Parameters
and running statistics are drawn afresh, and one block in the middle of each network is zeroed in PyTorch: where that
moves the output by less than 1 %, the case is wrong, since it would show nothing.

A run goes on where the last one of the same lamina stopped. Needs torch, torchvision, timm, onnx, onnxscript, NumPy.
"""

import argparse
import contextlib
import functools
import json
import shutil
import sys
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import suite  # noqa: E402

SETS, WAYS = ("classification", "segmentation", "backbones", "timm"), ("onnx", "torch")
OPSET = 20
INLINE = 1_800_000_000  # bytes of weights; protobuf ends at 2 GiB, beyond that they go to a file beside


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    suite.add_options(parser, Path("build/coverage"), reports=True)
    parser.add_argument("--sets", type=lambda t: t.split(","), default=list(SETS))
    parser.add_argument("--ways", type=lambda t: t.split(","), default=list(WAYS))
    parser.add_argument("--exporter", choices=["dynamo", "script"], default="dynamo",
                        help="which of torch.onnx.export's two; where it fails the other one is tried")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--rtol", type=float, help="relative L2 error of the outputs; by default 1e-4 on the CPU, 2e-3 "
                        "on a GPU: a block that is wrong moves the output by 1e-2 or more")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for one network")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch, in each of the jobs")
    parser.add_argument("--prepare", action="store_true", help="write the ONNX files, inputs and expected outputs alone")
    parser.add_argument("--discard", action="store_true", help="remove a network's files when it has run")
    parser.add_argument("--ops", type=Path, help="write the ops of all ONNX files there, by how many networks need each")
    a = parser.parse_args()
    a.rtol = a.rtol or (1e-4 if a.device == "cpu" else 2e-3)
    return a


# --- preparing: in a process for each network --------------------------------------------------------------------------


def folder_of(work, network):
    return work / "networks" / network.replace("/", ".").replace(":", ".")


def export_onnx(module, x, path, outputs, way):
    import torch
    names = {"input_names": ["input"], "output_names": [f"output_{i}" for i in range(outputs)]}
    big = sum(t.numel() * t.element_size() for t in module.state_dict().values()) > INLINE
    if way == "dynamo":
        program = torch.onnx.export(module, (x,), dynamo=True, opset_version=OPSET, verbose=False, **names)
        program.save(str(path), external_data=big)
    else:
        torch.onnx.export(module, (x,), str(path), dynamo=False, opset_version=OPSET, external_data=big, **names)


def prepare(a, network):
    """Writes the network's files once, and returns what is known of it."""
    import torch
    import coverage_models
    import onnx_ops
    folder = folder_of(a.work, network)
    facts = folder / "facts.json"
    if facts.exists():
        return json.loads(facts.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(a.threads)
    warnings.filterwarnings("ignore")
    begin = time.monotonic()
    known = {}
    with open(folder / "log.txt", "w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        try:
            module, x, y = coverage_models.prepared(network)
            known["parameters"] = sum(p.numel() for p in module.parameters())
            known["block"], known["moved"] = coverage_models.moved_by_a_block(module, x, y)
            known["made"] = round(time.monotonic() - begin, 1)
            suite.write_safetensors(folder / "input.safetensors", {"input": x.numpy()})
            suite.write_safetensors(folder / "expected.safetensors",
                                    {f"output_{i}": v.numpy() for i, v in enumerate(y)})
            for way in dict.fromkeys([a.exporter, "dynamo", "script"]):
                try:
                    with torch.no_grad():
                        export_onnx(module, x, folder / "model.onnx", len(y), way)
                    known["exporter"] = way
                    break
                except Exception as error:  # noqa: BLE001
                    known.setdefault("failed", {})[way] = " ".join(str(error).split())[:300]
            if "exporter" in known:
                known["ops"] = onnx_ops.describe(folder / "model.onnx")
                known["batched_matmul"] = known["ops"].pop("batched_matmul")
                with contextlib.suppress(ImportError):
                    known["onnxruntime"] = error_of_onnxruntime(folder, x.numpy(), [v.numpy() for v in y])
        except Exception as error:  # noqa: BLE001
            known["error"] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    known["seconds"] = round(time.monotonic() - begin, 1)
    facts.write_text(json.dumps(known))
    return known


def error_of_onnxruntime(folder, x, y):
    """What somebody else's engine makes of the file: where it is far off as well, the file is to blame."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options)
        return suite.relative_error(y, session.run(None, {"input": x}))[0]
    except Exception as error:  # noqa: BLE001
        return " ".join(str(error).split())[:200]


# --- a case ------------------------------------------------------------------------------------------------------------


def run_case(a, case):
    network, way = case.rsplit(" by ", 1)
    begin = time.monotonic()
    known = prepare(a, network)
    result = {"convolutional": not known.get("batched_matmul", True)}

    def ends(status, message="", **more):
        return {**result, "status": status, "message": message, "seconds": round(time.monotonic() - begin, 1), **more}

    if "error" in known:
        return ends("wrong", f"cannot be prepared: {known['error']}")
    if not known["moved"] >= 0.01:
        return ends("wrong", f"zeroing {known['block']} moves the output by {known['moved']:.2%} only")
    folder = folder_of(a.work, network)
    if way == "onnx":
        model = folder / "model.onnx"
        if "exporter" not in known:
            return ends("refused", "torch.onnx.export: " + "; ".join(f"{k}: {v}" for k, v in known["failed"].items()))
        inputs = folder / "input.safetensors"
        expected = list(suite.read_safetensors(folder / "expected.safetensors").values())
        names = [f"output_{i}" for i in range(len(expected))]
    else:
        model, inputs = folder / f"model-{a.device}.safetensors", folder / f"input-{a.device}.safetensors"
        said, expected, names = export_torch_way(a, network, model, inputs)
        if said:
            return ends("refused", said)
    output = folder / f"output-{way}-{a.device}.safetensors"
    status, said, seconds = suite.run_lamina(a.lamina, model, inputs, output, a.device, a.timeout,
                                             ["--precision", a.precision])
    if way == "torch":
        model.unlink()
        inputs.unlink()
    if status != "ran":
        return ends(status, said)
    got = suite.read_safetensors(output)
    output.unlink()
    if set(got) != set(names):
        return ends("wrong", f"outputs {sorted(got)}, expected {sorted(set(names))}")
    got = [got[name] for name in names]
    if [v.shape for v in expected] != [v.shape for v in got]:
        return ends("wrong", "the outputs have other shapes")
    error, largest = suite.relative_error(expected, got)
    good, said = error < a.rtol, f"relative error {error:.1e}, largest {largest:.1e}"
    if not good and error < 0.1:
        good, more = in_float64(a, network, expected, got)
        said += more
    return ends("passed" if good else "wrong", said, error=error, largest=largest, lamina_seconds=round(seconds, 2))


def in_float64(a, network, expected, got):
    """Random networks can be chaotic. Where PyTorch's own float32 is far from its float64, another one cannot be near to
    it; it has to be as near to the float64 as PyTorch is, within a factor of 3."""
    import torch
    import coverage_models
    module, x, y = coverage_models.prepared(network)
    if suite.relative_error(expected, [v.numpy() for v in y])[0] > 1e-6:
        return False, ""  # prepared by another version of this script
    with torch.no_grad():
        truth = [v.numpy() for v in coverage_models.outputs_of(module.double()(x.double()))]
    own, ours = suite.relative_error(truth, expected)[0], suite.relative_error(truth, got)[0]
    return ours < 3 * own and own < 1e-2, f"; to float64 {ours:.1e}, and PyTorch's own float32 {own:.1e}"


def export_torch_way(a, network, model, inputs):
    """Writes the model file by export_torch.py; returns what it says if it cannot, the outputs and their names."""
    import torch
    import coverage_models
    import export_torch
    torch.set_num_threads(a.threads)
    warnings.filterwarnings("ignore")
    module, x, y = coverage_models.prepared(network)
    try:
        try:
            graph = export_torch.export(module, model, [tuple(x.shape[1:])])
        except export_torch.ExportError as error:
            if "--batch" not in str(error):
                raise
            graph = export_torch.export(module, model, [tuple(x.shape[1:])], batch=x.shape[0])
    except export_torch.ExportError as error:
        return " ".join(str(error).split())[:1000], [], []
    suite.write_safetensors(inputs, {graph["inputs"][0]["name"]: x.numpy()})
    return "", [v.numpy() for v in y], graph["outputs"]


# --- what is printed ---------------------------------------------------------------------------------------------------


def share(results):
    return f"{sum(r['status'] == 'passed' for r in results) / max(len(results), 1):.1%}"


def tables(a, results):
    """results: case -> result, of the cases that were asked for and have run"""
    groups = defaultdict(list)
    for case, result in results.items():
        network, way = case.rsplit(" by ", 1)
        groups[network.split("/")[0], way].append(result)
        if network.startswith("timm/") and result.get("convolutional"):
            groups["timm, convnets", way].append(result)
    rows = [[name, way, *suite.count(found), len(found), share(found)] for (name, way), found in groups.items()]
    text = suite.table(["set", "by", "passed", "refused", "wrong", "of", "passed"], rows)
    failed = [[case, result["status"], result["message"][:160]] for case, result in results.items()
              if result["status"] != "passed"]
    if failed:
        text += "\n\nWhat has not passed:\n\n" + suite.table(["network", "", "why"], failed)
    lines = [suite.summary(f"{name} by {way}", found) for (name, way), found in groups.items()]
    return text, lines


def write_ops(a):
    """By how many of the prepared networks each op is needed, and with which attributes."""
    users, nodes, variants = Counter(), Counter(), defaultdict(Counter)
    files = 0
    for facts in sorted((a.work / "networks").glob("*/facts.json")):
        ops = json.loads(facts.read_text()).get("ops")
        if not ops:
            continue
        files += 1
        for op, entry in ops.items():
            users[op] += 1
            nodes[op] += entry["count"]
            for variant in entry["variants"]:
                variants[op][variant] += 1
    lines = [f"{files} ONNX files; op: networks that have it, nodes; below it what its nodes look like, by networks"]
    for op, used in users.most_common():
        lines.append(f"{op}: {used} networks, {nodes[op]} nodes")
        lines += [f"    {number:4}  {variant}" for variant, number in variants[op].most_common(12)]
    a.ops.write_text("\n".join(lines) + "\n")


def main():
    a = parse_arguments()
    import coverage_models
    a.work = a.work.resolve()
    a.work.mkdir(parents=True, exist_ok=True)
    networks = coverage_models.cases(a.sets, a.work / "timm_files.json")
    if a.prepare:
        chosen = suite.selected(networks, a.only, a.shard)
        state = suite.State(a.work / "prepared.jsonl", "", a.again)
        import torch  # noqa: F401  once, for all that are forked

        def work(network):
            known = prepare(a, network)
            good = "exporter" in known and known.get("moved", 0) >= 0.01
            return {"status": "passed" if good else "wrong", "message": json.dumps(
                {k: v for k, v in known.items() if k != "ops"}), "seconds": known["seconds"]}

        suite.run_all(chosen, work, state, a.jobs, a.timeout, a.work / "answers")
    else:
        chosen = suite.selected([f"{network} by {way}" for network in networks for way in a.ways], a.only, a.shard)
        state = suite.State(a.work / f"results-{a.device}-{a.precision}.jsonl", suite.identity_of(a.lamina), a.again)
        suite.run_all(chosen, functools.partial(run_case, a), state, a.jobs, a.timeout, a.work / "answers")
        text, lines = tables(a, {case: state.results[case] for case in chosen if case in state.results})
        if a.report:
            suite.write_section(a.report, "coverage", text)
        print(text, *lines, sep="\n")
    if a.ops:
        write_ops(a)
    if a.discard:
        for network in networks:
            shutil.rmtree(folder_of(a.work, network), ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
