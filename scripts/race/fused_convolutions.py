"""A torchvision network as a graph in which a convolution is one module with its batch norm, the residual that is added and
the activation behind it, so that somebody else can compute them: PyTorch does until then."""

import copy
import operator

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.experimental import optimization

ACTIVATIONS = {nn.ReLU: "relu", nn.ReLU6: "relu6", nn.SiLU: "swish", F.relu: "relu", F.relu6: "relu6", F.silu: "swish",
               torch.relu: "relu"}
FINISH = {None: lambda y: y, "relu": torch.relu_, "relu6": lambda y: y.clamp_(0, 6), "swish": lambda y: F.silu(y, inplace=True)}
ADDITIONS = (operator.add, operator.iadd, torch.add)


class Convolution(nn.Module):
    """A convolution, what is added to it and the activation behind. `run` computes it."""

    def __init__(self, conv, activation):
        super().__init__()
        self.conv, self.activation, self.padded, self.run = conv, activation, {}, plain

    def forward(self, x, other=None):
        return self.run(self, x, other)

    def kind(self, x, other):
        c = self.conv
        return tuple(x.shape), tuple(c.weight.shape), c.stride, c.padding, c.dilation, self.activation, other is not None

    def weight(self, channels):
        """With so many channels more, of zeros."""
        if channels not in self.padded:
            self.padded[channels] = F.pad(self.conv.weight, (0, 0, 0, 0, 0, channels)).contiguous(memory_format=torch.channels_last)
        return self.padded[channels]

    def finish(self, y, other, fused):
        """What a graph left out; fused: an index of FUSED."""
        if fused == 0 and self.conv.bias is not None:
            y += self.conv.bias.view(1, -1, 1, 1)
        if fused == 2:
            return y
        if other is not None:
            y += other
        return FINISH[self.activation](y)


def plain(module, x, other):
    c = module.conv
    return module.finish(F.conv2d(x, c.weight, c.bias, c.stride, c.padding, c.dilation, c.groups), other, 1)


def only_user(node):
    return next(iter(node.users)) if len(node.users) == 1 else None


def fuse(model):
    """The network as a graph, whose convolutions are `Convolution`s."""
    traced = optimization.fuse(copy.deepcopy(model).eval())

    def activation(node):
        if node is None or node.op not in ("call_module", "call_function"):
            return None
        return ACTIVATIONS.get(type(traced.get_submodule(node.target)) if node.op == "call_module" else node.target)

    for node in list(traced.graph.nodes):
        conv = traced.get_submodule(node.target) if node.op == "call_module" else None
        if not isinstance(conv, nn.Conv2d) or isinstance(conv.padding, str) or conv.padding_mode != "zeros":
            continue
        taken, inputs, added = [node], [node.args[0]], only_user(node)
        if added is not None and added.op == "call_function" and added.target in ADDITIONS:
            others = [a for a in added.args if isinstance(a, fx.Node) and a is not node]
            if len(others) == 1:
                taken.append(added)
                inputs += others
        if function := activation(only_user(taken[-1])):
            taken.append(only_user(taken[-1]))
        name = node.target.replace(".", "_") + "_cudnn"
        traced.add_module(name, Convolution(conv, function))
        with traced.graph.inserting_before(taken[-1]):
            new = traced.graph.call_module(name, tuple(inputs))
        taken[-1].replace_all_uses_with(new)
        for old in reversed(taken):
            traced.graph.erase_node(old)
    traced.graph.lint()
    traced.recompile()
    return traced
