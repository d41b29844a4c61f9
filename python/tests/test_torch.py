"""PyTorch's tensors of the host, where PyTorch is. test_cuda.py has those of a GPU."""

import lamina
import numpy as np
import pytest

torch = pytest.importorskip("torch")


def test_tensors_of_the_host(plan, x):
    expected = plan(x)
    assert np.array_equal(plan(torch.from_numpy(x)), expected)
    out = torch.empty(2, 10)
    assert plan(torch.from_numpy(x), out=out) is out and np.array_equal(out.numpy(), expected)
    assert torch.equal(torch.from_dlpack(plan(x)), out)


def test_nothing_is_cast_or_copied(plan, x):
    tensor = torch.from_numpy(x)
    with pytest.raises(lamina.Error, match="got f64"):
        plan(tensor.double())
    with pytest.raises(lamina.Error, match="got bf16"):
        plan(tensor.bfloat16())
    with pytest.raises(lamina.Error, match="not contiguous"):
        plan(tensor.to(memory_format=torch.channels_last))
    with pytest.raises(BufferError, match="gradient"):
        plan(tensor.requires_grad_())
