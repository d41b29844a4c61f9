"""NVIDIA's cuDNN graph API in compare_pytorch_model.py. Each convolution of a torchvision network, its batch norm folded, is
one graph of cuDNN's: with its bias, the residual that is added and the activation, channels last, products summed in f32. Of
all plans of heuristics A and fallback the fastest is taken, PyTorch's own convolution among them; what cuDNN cannot fuse, and
all else, is PyTorch's. The network is one CUDA graph.

Plans are built and timed until most of --compile-limit is over: first those that the heuristics put first for every convolution, then the second
ones, and so on. The GPU is held while a plan is timed. Needs nvidia-cudnn-frontend.
"""

import copy
import json
import math
import sys
import time
from collections import Counter

import torch
import torch.nn.functional as F

from race.contestant import capture, in_layout, one_line, relative_error, set_precision, time_replays, turn, wait_for_gpu
from race.fused_convolutions import Convolution, fuse, plain
from race.networks import build, image_shape

WORKSPACE = 256 << 20
TOLERANCE = 2e-2
X, W, B, R, Y = range(1, 6)  # names of tensors
KEPT = []  # the first graph, whose memory is that of all
FUSED = ["convolution", "+ bias", "+ bias, residual, activation"]

def strides(shape):
    """Of a tensor that is channels last."""
    n, c, h, w = shape
    return [c * h * w, 1, w * c, c]


class Graph:
    """cuDNN's, of a convolution and the first parts of what follows."""

    def __init__(self, cudnn, handle, module, x, other, y_shape, fused, padded):
        self.cudnn, self.handle, self.fused, self.padded = cudnn, handle, fused, padded
        self.dtype, self.y_shape, conv = x.dtype, y_shape, module.conv
        kind = {torch.float16: cudnn.data_type.HALF, torch.bfloat16: cudnn.data_type.BFLOAT16}[x.dtype]
        self.graph = graph = cudnn.pygraph(io_data_type=kind, intermediate_data_type=cudnn.data_type.FLOAT,
                                           compute_data_type=cudnn.data_type.FLOAT, handle=handle)

        def tensor(uid, shape):
            return graph.tensor(name=f"t{uid}", dim=list(shape), stride=strides(shape), data_type=kind, uid=uid)

        n, c, height, width = x.shape
        y = graph.conv_fprop(image=tensor(X, (n, c + padded, height, width)), weight=tensor(W, module.weight(padded).shape),
                             padding=list(conv.padding), stride=list(conv.stride), dilation=list(conv.dilation))
        self.bias = fused > 0 and conv.bias is not None
        self.residual = fused == 2 and other is not None
        if self.bias:
            y = graph.bias(input=y, bias=tensor(B, (1, y_shape[1], 1, 1)))
        if self.residual:
            y = graph.add(a=y, b=tensor(R, y_shape))
        if fused == 2 and module.activation == "swish":
            y = graph.swish(input=y)
        elif fused == 2 and module.activation:
            y = graph.relu(input=y, **({"lower_clip": 0.0, "upper_clip": 6.0} if module.activation == "relu6" else {}))
        y.set_output(True)
        y.set_data_type(kind)
        y.set_dim(list(y_shape))
        y.set_stride(strides(y_shape))
        y.set_uid(Y)
        graph.validate()

    def plans(self):
        """How many there are; raises if cuDNN supports none."""
        self.graph.build_operation_graph()
        self.graph.create_execution_plans([self.cudnn.heur_mode.A, self.cudnn.heur_mode.FALLBACK])
        self.graph.check_support()
        return self.graph.get_execution_plan_count()

    def runner(self, index, space):
        """What computes a Convolution by a plan."""
        self.graph.build_plan_at_index(index)
        if self.graph.get_workspace_size_plan_at_index(index) > space.numel():
            raise RuntimeError("wants more workspace than it is given")

        def run(module, x, other):
            if self.padded:
                x = F.pad(x, (0, 0, 0, 0, 0, self.padded))
            x = x.contiguous(memory_format=torch.channels_last)
            y = torch.empty(self.y_shape, dtype=self.dtype, device=x.device, memory_format=torch.channels_last)
            tensors = {X: x, W: module.weight(self.padded), Y: y}
            if self.bias:
                tensors[B] = module.conv.bias
            if self.residual:
                tensors[R] = other = other.contiguous(memory_format=torch.channels_last)
            self.cudnn.set_stream(handle=self.handle, stream=torch.cuda.current_stream().cuda_stream)
            self.graph.execute_plan_at_index(tensors, space, index, handle=self.handle)
            return module.finish(y, other, self.fused)
        return run


class Kind:
    """Convolutions of one shape with the same behind them; `module` is one of them."""

    def __init__(self, module, x, other):
        self.module, self.x, self.other, self.users = module, x, other, []
        self.run, self.ms, self.by, self.graphs, self.why = plain, None, "PyTorch", [], Counter()

    def make_graphs(self, cudnn, handle, truth):
        """Those that cuDNN supports; parts only of what it does not fuse whole, or seldom fuses well."""
        conv, self.truth = self.module.conv, truth
        whole = 2 if self.module.activation or self.other is not None else 1
        for padded in [0, 4 - conv.in_channels] if conv.in_channels < 4 else [0]:
            for fused in range(whole, -1, -1):
                if self.graphs and conv.groups == 1 and self.graphs[-1][0].padded == padded:
                    break
                try:
                    graph = Graph(cudnn, handle, self.module, self.x, self.other, tuple(truth.shape), fused, padded)
                    self.graphs.append((graph, graph.plans()))
                except Exception as error:  # noqa: BLE001
                    self.why[f"{FUSED[fused]}: {one_line(error)[:120]}"] += 1

    def try_plan(self, graph, index, space, lock):
        try:
            run = graph.runner(index, space)
            with turn(lock):
                y = run(self.module, self.x, self.other)
                if not (y.float() - self.truth.float()).norm() < TOLERANCE * self.truth.float().norm():
                    raise RuntimeError("wrong answers")
                ms = milliseconds(lambda: run(self.module, self.x, self.other), 3 * self.ms)
        except Exception as error:  # noqa: BLE001
            self.why[one_line(error)[:120]] += 1
            return
        if ms < self.ms:
            self.run, self.ms, self.by = run, ms, FUSED[graph.fused] + " in channels padded" * bool(graph.padded)


def once(call):
    """Milliseconds of a call with its launches."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    call()
    after.record()
    after.synchronize()
    return before.elapsed_time(after)


def milliseconds(call, hopeless=math.inf, calls=8):
    """Of a call, in the fastest of four replays of some; in a single one if that is hopeless."""
    if (single := min(once(call), once(call))) > hopeless + 0.2:  # launches take a part of that
        return single
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=KEPT[0].pool() if KEPT else None):
        for _ in range(calls):
            call()
    if not KEPT:
        KEPT.append(graph)
    return min([once(graph.replay) for _ in range(5)][1:]) / calls


def kinds_of(net, x):
    """Runs the network by PyTorch, and says which kinds of convolutions it has."""
    kinds = {}

    def record(module, x, other):
        kind = kinds.setdefault(module.kind(x, other), Kind(module, x, other))
        kind.users.append(module)
        return plain(module, x, None if other is None else other.clone())

    for module in net.modules():
        if isinstance(module, Convolution):
            module.run = record
    net(x)
    return list(kinds.values())


def search(kinds, lock, until):
    """Gives every kind's modules what is fastest."""
    import cudnn
    handle, space = cudnn.create_handle(), torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")
    for kind in kinds:
        with turn(lock):
            truth = plain(kind.module, kind.x, kind.other)
            kind.ms = milliseconds(lambda: plain(kind.module, kind.x, kind.other))
        kind.make_graphs(cudnn, handle, truth)
    kinds.sort(key=lambda kind: -kind.ms * len(kind.users))
    tried = 0
    for rank in range(max((plans for kind in kinds for _, plans in kind.graphs), default=0)):
        for kind in kinds:
            for graph, plans in kind.graphs:
                if rank < plans and time.monotonic() < until:
                    kind.try_plan(graph, rank, space, lock)
                    tried += 1
    for kind in kinds:
        for module in kind.users:
            module.run = kind.run
    by = Counter(kind.by for kind in kinds for _ in kind.users)
    why = sum((kind.why for kind in kinds), Counter())
    possible = sum(plans for kind in kinds for _, plans in kind.graphs)
    return (f"cuDNN {cudnn.backend_version()}: {tried} of {possible} plans; convolutions: {dict(by)}"
            + "".join(f"; {n} times {said}" for said, n in why.most_common(3)))


def cell(task, model, precision, batch):
    """(what replays it, the error of its answers, in words what was chosen)"""
    if precision not in ("fp16", "bf16"):
        raise RuntimeError(f"made for 16 bits, not for {precision}")
    x = torch.randn(batch, *image_shape(task["arch"]))
    picked = sorted({0, batch // 2, batch - 1})
    truth = copy.deepcopy(model).cuda().double()(x[picked].cuda().double()).cpu()
    set_precision(precision)
    net, x = in_layout(fuse(model), x, precision, "NHWC", "cuda")
    with turn(task["turns"]):  # PyTorch's search
        kinds = kinds_of(net, x)
    notes = search(kinds, task["turns"], task["until"])
    error = relative_error(net(x)[picked], truth)
    if not error < TOLERANCE:
        raise RuntimeError(f"relative error {error:.1e}; {notes}")
    return capture(lambda: net(x)), error, notes


def main():
    task = json.loads(sys.stdin.readline())
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark_limit = task["search"]
    model = build(task["arch"])
    wait_for_gpu()
    found, replays = {}, {}
    with torch.no_grad():
        for precision, batch in task["cells"]:
            name = f"{precision}:{batch}"
            try:
                replays[name], error, notes = cell(task, model, precision, batch)
                found[name] = {"errors": {"cudnn": error}, "notes": notes}
            except Exception as error:  # noqa: BLE001
                found[name] = {"failed": {"cudnn": one_line(error)}}
        print(json.dumps(found), flush=True)
        if sys.stdin.readline():  # or nobody asks any more
            print(json.dumps({name: {"cudnn": time_replays(call, task["seconds"])} for name, call in replays.items()}), flush=True)


if __name__ == "__main__":
    main()
