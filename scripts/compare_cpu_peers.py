#!/usr/bin/env python3
"""Races Lamina on a CPU against ONNX Runtime, OpenVINO, PyTorch and ncnn, where installed: any network of torchvision or timm.

    scripts/compare_cpu_peers.py --lamina build/release/bin/lamina --networks resnet50,mobilenet_v2 --batch 1,8
    scripts/compare_cpu_peers.py --networks timm:convnextv2_atto --precision fp32,bf16 --results cpu.json
    scripts/compare_cpu_peers.py --results cpu.json --table

A network is built with the weights of a fixed seed and exported to ONNX on the spot. Every engine gets the same weights,
input and number of threads, and a process of its own, so that no other engine's threads spin beside it; what it answers
must agree with Lamina's. Engines take turns, `--rounds` of `--seconds` each, and each is given the 10th percentile of its
best round: on a machine that others use, the fairest figure there is. A row is written to `--results` as soon as it is
measured, and rows that are there already are not measured again. --memory prints a table of memory instead of times: the most that each
process had resident, less what it had before it opened the network, weights in files that it mapped included. ONNX Runtime and OpenVINO run with the latency settings
of their manuals; OpenVINO's bf16 is what it takes by default where the processor has it; PyTorch is frozen (prepacked
oneDNN weights), in bf16 under autocast; ncnn (one image) has what pnnx makes of the network. int8 is the file that ONNX Runtime's quantize_static makes of the network (QDQ), the
rest of which is f32 in all engines. Never needed to build, run or test Lamina.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import warnings

from race.networks import NETWORKS, build, export, image_shape, quantize

HERE = os.path.dirname(os.path.abspath(__file__))
ENGINES = {"fp32": ["lamina", "onnxruntime", "openvino", "pytorch", "ncnn"], "bf16": ["lamina", "openvino", "pytorch", "ncnn"],
           "int8": ["lamina", "onnxruntime", "openvino"]}
# Codes that another order of operations rounds to a neighbour change many of a random network's.
TOLERANCE = {"fp32": 1e-4, "bf16": 1e-1, "int8": 3e-1}  # of the largest answer, beside Lamina's fp32


def pictures(network, batch):
    import numpy as np
    return np.random.default_rng(1).standard_normal((batch, *image_shape(network)), dtype=np.float32)


def onnxruntime_call(options, x):
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})[0]


def openvino_call(options, x):
    import openvino
    core = openvino.Core()
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": options.threads}
    if options.precision != "bf16":
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    model = core.read_model(options.model)
    model.reshape(list(x.shape))
    compiled = core.compile_model(model, "CPU", settings)
    if options.precision == "bf16" and "bfloat16" not in str(compiled.get_property("INFERENCE_PRECISION_HINT")):
        sys.exit("OpenVINO has no bf16 on this processor")
    request = compiled.create_infer_request()
    return lambda: request.infer([x], share_inputs=True, share_outputs=True)[0]


def pytorch_call(options, x):
    import torch
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    model, tensor = build(options.network), torch.from_numpy(x).contiguous(memory_format=torch.channels_last)
    model = model.to(memory_format=torch.channels_last)
    low = options.precision == "bf16"
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=low, cache_enabled=False):
        traced = torch.jit.trace(model, tensor, check_trace=False)
        frozen = torch.jit.freeze(traced) if low else torch.jit.optimize_for_inference(traced)

    def call():
        with torch.inference_mode():
            return frozen(tensor).float().numpy()
    return call


def ncnn_call(options, x):
    import ncnn
    import numpy as np
    import pnnx
    import torch
    if len(x) > 1:
        sys.exit("ncnn takes one image")
    with tempfile.TemporaryDirectory() as folder:
        with torch.no_grad():
            pnnx.export(build(options.network), f"{folder}/x.pt", torch.from_numpy(x), check_trace=False, fp16=False)
        net = ncnn.Net()
        net.opt.num_threads = options.threads
        net.opt.use_vulkan_compute = net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
        net.opt.use_bf16_storage = net.opt.use_bf16_packed = options.precision == "bf16"
        if net.load_param(f"{folder}/x.ncnn.param") or net.load_model(f"{folder}/x.ncnn.bin"):
            sys.exit("ncnn cannot load what pnnx wrote")

    def call():
        extractor = net.create_extractor()
        extractor.input("in0", ncnn.Mat(x[0]))
        return np.array(extractor.extract("out0")[1])
    return call


def peak_resident():
    """The most bytes that this process has had in memory."""
    return int(re.search(r"VmHWM:\s*(\d+) kB", open("/proc/self/status").read())[1]) << 10


def child(options):
    """One engine, in this process: writes its answer, prints the 10th percentile in ms, and the bytes that it took."""
    import numpy as np
    __import__({"pytorch": "torch"}.get(options.engine, options.engine))
    x = pictures(options.network, options.batch)
    before = peak_resident()
    call = {"onnxruntime": onnxruntime_call, "openvino": openvino_call, "pytorch": pytorch_call, "ncnn": ncnn_call}[options.engine](options, x)
    np.save(options.answer, np.array(call()))
    for _ in range(2):
        call()
    times, end = [], time.perf_counter() + options.seconds
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    print(sorted(times)[len(times) // 10] * 1e3, peak_resident() - before)


def lamina(options, row, model, folder, seconds):
    """The same of Lamina: (answer, ms, bytes)."""
    import numpy as np
    common = ["--model", model, "--device", "cpu", "--threads", str(options.threads), "--precision",
              row["precision"].replace("int8", "fp32")]
    answer = os.path.join(folder, "answer.safetensors")
    np.save(os.path.join(folder, "x.npy"), pictures(row["network"], row["batch"]))
    run = [options.lamina, "run", "--input", os.path.join(folder, "x.npy"), "--output", answer, *common]
    subprocess.run(run, check=True, capture_output=True, text=True)
    with open(answer, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    info = next(value for key, value in json.loads(data[8:8 + size]).items() if key != "__metadata__")
    begin, end = (8 + size + offset for offset in info["data_offsets"])
    bench = [options.lamina, "bench", "model", "--batch", str(row["batch"]), "--seconds", str(seconds), "--json", "-", *common]
    text = subprocess.run(bench, check=True, capture_output=True, text=True).stdout
    measured = json.loads(text[text.index("{"):])
    taken = measured["resident_peak"] - measured["resident_before"]
    return np.frombuffer(data[begin:end], np.float32).reshape(info["shape"]), measured["p10"], taken


def measure(options, row, model, folder):
    """(answer, ms, bytes); raises CalledProcessError."""
    import numpy as np
    if row["engine"] == "lamina":
        return lamina(options, row, model, folder, options.seconds)
    answer = os.path.join(folder, "answer.npy")
    command = [sys.executable, __file__, "--child", "--engine", row["engine"], "--network", row["network"], "--model", model,
               "--batch", str(row["batch"]), "--threads", str(options.threads), "--seconds", str(options.seconds),
               "--precision", row["precision"], "--answer", answer]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    ms, taken = text.split()[-2:]
    return np.load(answer), float(ms), int(taken)


def race(options, network, batch, precision, model, folder):
    """All engines that can, in turns."""
    import numpy as np
    rows = [{"network": network, "batch": batch, "precision": precision, "engine": engine, "threads": options.threads}
            for engine in ENGINES[precision] if engine in options.engines]
    truth, _, _ = lamina(options, {**rows[0], "precision": "fp32"}, model, folder, 0.01)
    for _ in range(options.rounds):
        for row in rows:
            if "why" in row:
                continue
            try:
                answer, ms, taken = measure(options, row, model, folder)
            except (subprocess.CalledProcessError, OSError) as error:
                row["why"] = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1][:200]
                continue
            # torchvision's transformers answer with zeros before they are trained.
            difference = float(np.abs(answer.reshape(truth.shape) - truth).max() / max(np.abs(truth).max(), 1e-30))
            if not difference <= TOLERANCE[precision]:
                row["why"] = f"disagrees by {difference:.1e} of the largest answer"
            row["ms"] = min(ms, row.get("ms", ms))
            row["bytes"] = min(taken, row.get("bytes", taken))
    return rows


def same(row, other):
    return all(row[key] == other.get(key) for key in ("network", "batch", "precision", "threads"))


def table(results, measured):
    """Markdown: a line for each network, batch and precision. `measured`: ms or bytes."""
    print(f"{results['machine']}\n")
    unit, scale = ("ms", 1) if measured == "ms" else ("MB", 1e-6)
    print(f"| network | N | precision | Lamina, {unit} | ONNX Runtime | OpenVINO | PyTorch | ncnn | Lamina : best |")
    print("|---|---|---|---|---|---|---|---|---|")
    done = []
    for row in results["rows"]:
        if any(same(row, other) for other in done):
            continue
        done.append(row)
        found = {r["engine"]: r[measured] * scale for r in results["rows"] if same(row, r) and measured in r and "why" not in r}
        peers = [value for engine, value in found.items() if engine != "lamina"]
        cells = [f"{found[e]:.2f}" if e in found else "–" for e in ENGINES["fp32"]]
        ratio = f"{found['lamina'] / min(peers):.2f}" if peers and "lamina" in found else "–"
        print(f"| {row['network']} | {row['batch']} | {row['precision']} | {' | '.join(cells)} | {ratio} |")


def machine(threads):
    """The processor, what it has, and its ceilings: multiply-adds and reading memory."""
    text = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
    model = re.search(r"model name\s*: (.*)", text)
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile") if f" {name}" in text]
    line = f"{model[1] if model else platform.machine()} ({', '.join(features)}), {threads} threads"
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "ceilings")
        command = ["c++", "-O3", "-march=native", "-std=c++20", "-pthread", os.path.join(HERE, "race", "cpu_ceilings.cpp"), "-o", program]
        try:
            subprocess.run(command, check=True, capture_output=True)
            output = subprocess.run([program, str(threads)], check=True, capture_output=True, text=True).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            return line
    line += "; {} GFLOP/s of fp32 multiply-adds, reading {} GB/s".format(*output)
    return line + (f", {output[2]} GFLOP/s of AMX's bf16 products" if len(output) > 2 else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lamina", default="build/release/bin/lamina", help="the lamina command")
    parser.add_argument("--networks", default=",".join(NETWORKS), help="names of torchvision, or timm:NAME")
    parser.add_argument("--batch", default="1,8")
    parser.add_argument("--precision", default="fp32", help="fp32, bf16, int8 or several, with commas")
    parser.add_argument("--engines", default=",".join(ENGINES["fp32"]), help="Lamina must be among them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each engine in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", help="folder where exported networks are kept (default: one that vanishes)")
    parser.add_argument("--results", help="JSON file that rows are added to")
    parser.add_argument("--memory", action="store_true", help="the table is of memory in MB, not of times")
    parser.add_argument("--table", action="store_true", help="print what --results has and measure nothing")
    for name in ("engine", "network", "model", "answer"):
        parser.add_argument("--" + name, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        options.batch = int(options.batch)
        return child(options)
    results = {"rows": []}
    if options.results and os.path.exists(options.results):
        with open(options.results) as file:
            results = json.load(file)
    if options.table:
        return table(results, "bytes" if options.memory else "ms")
    results["machine"] = machine(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks.split(","):
            model = os.path.join(options.models or folder, network.replace(":", "_") + ".onnx")
            if not os.path.exists(model):
                export(network, model)
            for batch in map(int, options.batch.split(",")):
                for precision in options.precision.split(","):
                    wanted = {"network": network, "batch": batch, "precision": precision, "threads": options.threads}
                    if any(same(wanted, row) for row in results["rows"]):
                        continue
                    file = model.replace(".onnx", ".int8.onnx") if precision == "int8" else model
                    if not os.path.exists(file):
                        quantize(model, file)
                    rows = race(options, network, batch, precision, file, folder)
                    for row in rows:
                        print(network, batch, precision, row["engine"], row.get("why") or f"{row['ms']:.2f} ms", flush=True)
                    results["rows"] += rows
                    if options.results:
                        with open(options.results + ".part", "w") as file:
                            json.dump(results, file, indent=1)
                        os.replace(options.results + ".part", options.results)
    table(results, "bytes" if options.memory else "ms")


if __name__ == "__main__":
    main()
