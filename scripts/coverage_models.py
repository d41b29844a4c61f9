"""The networks of coverage.py: which, with what weights, and what it takes to see every block in the output."""

import contextlib
import functools
import inspect
import json
import multiprocessing
import zlib

import torch
from torch import nn

MOST_PARAMETERS = 50_000_000
SETS = ("classification", "segmentation", "backbones", "timm")
# Between them: FrozenBatchNorm2d, a feature pyramid with its interpolation, F.normalize and ceil_mode.
BACKBONES = ("fasterrcnn_resnet50_fpn", "fasterrcnn_mobilenet_v3_large_fpn", "ssd300_vgg16")


# --- which -------------------------------------------------------------------------------------------------------------


def timm_files(cache):
    """file of timm's models -> architecture: the first of its sorted names with at most 50 M parameters, or the smallest
    where none has. It takes minutes of a core to ask all, so the answer is kept."""
    import timm
    if cache.exists():
        kept = json.loads(cache.read_text())
        if kept["version"] == timm.__version__:
            return kept["files"]
    with multiprocessing.get_context("fork").Pool() as pool:
        files = {file: name for file, name in pool.imap(timm_file, timm.list_modules()) if name}
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(json.dumps({"version": timm.__version__, "files": files}, indent=1))
    return files


def timm_file(file):
    import timm
    sizes = {}
    for name in sorted(timm.list_models(module=file)):
        sizes[name] = timm_parameters(name)
        if sizes[name] <= MOST_PARAMETERS:
            break
    return file, min(sizes, key=sizes.get, default=None)


def timm_parameters(name):
    import timm
    for device in ("meta", "cpu"):  # on meta no memory is touched; some constructors cannot
        with contextlib.suppress(Exception), torch.device(device):
            return sum(p.numel() for p in timm.create_model(name, pretrained=False).parameters())
    return MOST_PARAMETERS  # it cannot be made at all: taken, so that it counts as a failure


def cases(sets, cache):
    """[(set, name, what timm calls it)]"""
    import torchvision
    found = []
    if "classification" in sets:
        found += [("classification", name) for name in torchvision.models.list_models(module=torchvision.models)]
    if "segmentation" in sets:
        found += [("segmentation", name) for name in
                  torchvision.models.list_models(module=torchvision.models.segmentation)]
    if "backbones" in sets:
        found += [("backbones", name) for name in BACKBONES]
    if "timm" in sets:
        found += [("timm", f"{file}:{name}") for file, name in timm_files(cache).items()]
    return ["/".join(case) for case in found]


# --- a network ---------------------------------------------------------------------------------------------------------


class Tuple(nn.Module):
    """Of a module that returns a dict, its values."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return tuple(self.inner(x).values())


def build(case):
    """(module, shape of its input)"""
    import torchvision
    group, name = case.split("/", 1)
    torch.manual_seed(zlib.crc32(case.encode()))
    if group == "timm":
        import timm
        module = timm.create_model(name.split(":")[1], pretrained=False)
        size = timm.data.resolve_model_data_config(module)["input_size"]
        return module, (1 if size[1] > 300 else 2, *size)
    make = torchvision.models.get_model_builder(name)
    options = {"weights": None}
    if group != "classification":
        options["weights_backbone"] = None
    if "init_weights" in inspect.signature(make).parameters:
        options["init_weights"] = False  # minutes of SciPy; they are drawn afresh anyway
    module = make(**options)
    if group == "segmentation":
        return Tuple(module), (2, 3, 160, 224)
    if group == "backbones":
        size = 300 if name.startswith("ssd") else 224
        return Tuple(module.backbone), (2, 3, size, size if name.startswith("ssd") else 320)
    return module, (2, 3, *[299 if name == "inception_v3" else 224] * 2)


def draw(owner, name, old, generator):
    """New values of one parameter: near what it would be if it were trained, but nothing 0 and nothing alike."""
    def normal(std, mean=0.0):
        return torch.randn(old.shape, generator=generator) * std + mean

    def uniform(low, high):
        return torch.rand(old.shape, generator=generator) * (high - low) + low

    product = any(word in type(owner).__name__ for word in ("Conv", "Linear")) and old.dim() >= 2 and "weight" in name
    low, high = (old.min().item(), old.max().item()) if old.numel() else (0, 0)
    if product:
        transposed = isinstance(owner, (nn.ConvTranspose1d, nn.ConvTranspose2d))
        fan_in = old.shape[0] if transposed else old[0].numel()
        depthwise = old.dim() > 2 and getattr(owner, "groups", 1) == old.shape[0]
        gain = 0.25 if depthwise else 2 if old.dim() > 2 else 1  # many depthwise ones are added to what they are of
        return normal((gain / fan_in) ** 0.5)
    if low != high:
        weak = any(word in name for word in ("pos", "token", "table", "bias"))
        return normal(max(old.std().item(), 0.2 if weak else 0.02), old.mean().item())
    if low == 0:
        return normal(0.1 if "bias" in name else 0.3)
    if abs(low) < 0.3:  # a layer scale: 1e-6 of a block would hide what is wrong in it
        return uniform(0.5, 1)
    return uniform(0.75 * low, 1.25 * low)


def statistics(norm, inputs):
    """Before a batch norm runs: gives it statistics of the size of its input's."""
    x = inputs[0].detach()
    dims = [d for d in range(x.dim()) if d != 1]
    mean, var = x.mean(dims), x.var(dims, unbiased=False)
    # To subtract all of the mean, as training would, makes random networks chaotic: roundings grow by a fifth in each
    # layer, to 1e-3 in fifty.
    norm.running_mean.copy_(mean * torch.empty(mean.shape).uniform_(0, 0.4)
                            + 0.2 * var.sqrt() * torch.randn(mean.shape))
    var = var + (mean - norm.running_mean).square() + 1e-6  # a channel of one pixel has none
    if norm.bias is not None:
        norm.bias.uniform_(0.2, 1)
    norm.running_var.copy_(var * torch.empty(var.shape).uniform_(0.8, 1.5))


def randomise(module, x):
    """Draws every parameter and every running statistic afresh; activations keep a sane range."""
    generator = torch.Generator().manual_seed(torch.initial_seed() % 2**31)
    seen = set()
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            if id(parameter) not in seen and parameter.is_floating_point():
                parameter.copy_(draw(owner, name, parameter, generator))
            seen.add(id(parameter))
        if type(owner).__name__ == "FrozenBatchNorm2d":
            for name in ("weight", "bias"):
                buffer = getattr(owner, name)
                buffer.copy_(draw(owner, name, buffer, generator))
    calibrate(module.eval(), x)


@torch.no_grad()
def calibrate(module, x):
    """Gives batch norms statistics of what they see."""
    hooks = [norm.register_forward_pre_hook(statistics) for norm in module.modules()
             if getattr(norm, "running_mean", None) is not None]
    if hooks:
        module(x)
    for hook in hooks:
        hook.remove()


def outputs_of(result):
    """All tensors that a module returned, in order."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = result.values()
    return [tensor for part in result for tensor in outputs_of(part)]


@torch.no_grad()
def prepared(case):
    """(module with weights, input, its outputs)"""
    module, shape = build(case)
    x = torch.randn(shape)
    randomise(module, x)
    y = outputs_of(module(x))
    if not all(bool(torch.isfinite(v).all()) for v in y) or not any(bool(v.any()) for v in y):
        raise RuntimeError("PyTorch's own output is 0 or not finite")
    return module, x, y


# --- is a block seen? --------------------------------------------------------------------------------------------------


def blocks(module, x):
    """Innermost modules of at least two layers with parameters, in the order they run in; or the layers, if a network
    has too few of them."""
    order = []

    def ran(path, *_):
        if path not in order:
            order.append(path)

    hooks = [m.register_forward_hook(functools.partial(ran, path)) for path, m in module.named_modules() if path]
    module(x)
    for hook in hooks:
        hook.remove()
    paths = dict(module.named_modules())
    total = sum(p.numel() for p in module.parameters())

    def layers(m):
        return [part for part in m.modules() if any(p.dim() > 1 for p in part.parameters(recurse=False))]

    big = {path for path in order
           if len(layers(paths[path])) > 1 and sum(p.numel() for p in paths[path].parameters()) < total / 2}
    inner = [path for path in order
             if path in big and not any(other.startswith(path + ".") for other in big)]
    return inner if len(inner) > 2 else [path for path in order if layers(paths[path]) == [paths[path]]]


@torch.no_grad()
def moved_by_a_block(module, x, y):
    """(a block in the middle, by how much of its norm the output moves when all parameters of the block are 0)"""
    found = blocks(module, x)
    path = found[len(found) // 2]
    block = module.get_submodule(path)
    kept = [p.clone() for p in block.parameters()]
    for parameter in block.parameters():
        parameter.zero_()
    moved = outputs_of(module(x))
    for parameter, old in zip(block.parameters(), kept):
        parameter.copy_(old)
    before, after = (torch.cat([v.double().flatten() for v in values]) for values in (y, moved))
    return path, float((after - before).norm() / before.norm())
