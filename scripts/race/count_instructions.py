#!/usr/bin/env python3
"""What one inference on a CPU takes by the processor's counters, in this process: user cycles, instructions, raw events.

    scripts/race/count_instructions.py --engine lamina --model resnet50.onnx --events r400a,r0129
    scripts/race/count_instructions.py --engine onnxruntime --model resnet50.onnx --threads 2 --events r0444

Unlike times, these hardly move when others use the machine: cycles are the fewest of all runs, since caches that others
have emptied cost some, the rest are medians. Cycles and instructions of threads that wait are counted too, so engines are
compared with one thread. Raw events are the processor's own, as `perf stat` writes them; on AMD's Zen 5 r400a are vector
multiply-adds, r0129 loads, r0244 lines from the L3 cache or a neighbour, r0444 lines from a core of another L3 cache.
Needs Linux, numpy, and lamina's, ONNX Runtime's or OpenVINO's Python package.
"""

import argparse
import ctypes
import os
import statistics
import struct
import time

HARDWARE, RAW = 0, 4  # perf_event_attr.type
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}[os.uname().machine]


def counter(kind, config):
    """A file that counts an event, of user code, in this thread and those that it starts from now on."""
    inherit, exclude_kernel, exclude_hypervisor = 1 << 1, 1 << 5, 1 << 6
    attributes = bytearray(128)
    struct.pack_into("<IIQ", attributes, 0, kind, len(attributes), config)
    struct.pack_into("<Q", attributes, 40, inherit | exclude_kernel | exclude_hypervisor)
    libc = ctypes.CDLL(None, use_errno=True)
    file = libc.syscall(PERF_EVENT_OPEN, (ctypes.c_char * len(attributes)).from_buffer(attributes), 0, -1, -1, 0)
    if file < 0:
        raise SystemExit(f"perf_event_open: {os.strerror(ctypes.get_errno())}; see /proc/sys/kernel/perf_event_paranoid")
    return file


def lamina_call(options, x):
    import lamina
    plan = lamina.load(options.model).compile(device="cpu", batch=options.batch, threads=options.threads)
    return lambda: plan(x)


def onnxruntime_call(options, x):
    import onnxruntime
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    session = onnxruntime.InferenceSession(options.model, settings, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda: session.run(None, {name: x})


def openvino_call(options, x):
    import openvino
    core = openvino.Core()
    model = core.read_model(options.model)
    model.reshape(list(x.shape))
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": options.threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    return lambda: request.infer([x], share_inputs=True, share_outputs=True)


ENGINES = {"lamina": lamina_call, "onnxruntime": onnxruntime_call, "openvino": openvino_call}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=ENGINES, default="lamina")
    parser.add_argument("--model", required=True, help="an .onnx file")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--events", default="", help="raw ones, at most four lest they take turns: r400a,r0129")
    options = parser.parse_args()
    raw = [event for event in options.events.split(",") if event]
    files = [counter(HARDWARE, 0), counter(HARDWARE, 1)] + [counter(RAW, int(event.lstrip("r"), 16)) for event in raw]

    import numpy as np  # its threads and the engines' are to be counted
    x = np.random.default_rng(1).standard_normal((options.batch, 3, 224, 224), dtype=np.float32)
    call = ENGINES[options.engine](options, x)
    for _ in range(3):
        call()
    runs, end = [], time.perf_counter() + options.seconds
    while len(runs) < 5 or time.perf_counter() < end:
        before = [int.from_bytes(os.read(file, 8), "little") for file in files]
        call()
        runs.append([int.from_bytes(os.read(file, 8), "little") - b for file, b in zip(files, before)])
    columns = list(zip(*runs))
    counts = [min(columns[0])] + [statistics.median(column) for column in columns[1:]]
    print(f"{options.engine}, batch {options.batch}, {options.threads} threads, {len(runs)} runs, millions:",
          ", ".join(f"{name} {count / 1e6:.2f}" for name, count in zip(["cycles", "instructions"] + raw, counts)))


if __name__ == "__main__":
    main()
