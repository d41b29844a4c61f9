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


def test_other_types_and_channels_last(digits, x):
    expected = torch.from_numpy(digits.compile(device="cpu", batch=2)(x))
    images = torch.from_numpy(x).bfloat16().to(memory_format=torch.channels_last).permute(0, 2, 3, 1)
    plan = digits.compile(device="cpu", batch=2, input_format="bf16,nhwc", output_format="f16")
    assert (plan.input_shapes, plan.input_dtypes, plan.output_dtypes) == (((2, 32, 32, 3),), ("bf16",), ("f16",))
    scores = torch.from_numpy(plan(images))
    assert scores.dtype == torch.float16 and torch.allclose(scores.float(), expected, atol=0.05, rtol=0.05)
    out = torch.empty(2, 10, dtype=torch.bfloat16)
    plan = digits.compile(device="cpu", batch=2, input_format="bf16,nhwc", output_format="bf16")
    assert plan(images, out=out) is out and torch.allclose(out.float(), expected, atol=0.05, rtol=0.05)
    with pytest.raises(lamina.Error, match=r"expected bf16 \[2, 32, 32, 3\] as compiled, got bf16 \[2, 3, 32, 32\]"):
        plan(torch.from_numpy(x).bfloat16())


def test_nothing_is_cast_or_copied(plan, x):
    tensor = torch.from_numpy(x)
    with pytest.raises(lamina.Error, match="got f64"):
        plan(tensor.double())
    with pytest.raises(lamina.Error, match="got bf16"):
        plan(tensor.bfloat16())
    with pytest.raises(lamina.Error, match="not contiguous"):
        plan(tensor.to(memory_format=torch.channels_last))
    with pytest.raises(lamina.Error, match="input: cannot be read: .*gradient"):
        plan(tensor.requires_grad_())


def test_a_model_takes_what_a_plan_refuses(digits, x):
    tensor = torch.from_numpy(x)
    expected = digits(x, device="cpu")
    for other in (tensor.clone().requires_grad_(), tensor.double(), tensor.permute(0, 2, 3, 1), tensor.to(memory_format=torch.channels_last),
                  torch.stack([tensor, tensor], -1)[..., 0]):
        assert np.array_equal(digits(other, device="cpu"), expected)
    assert np.array_equal(digits(tensor.bfloat16(), device="cpu"), digits(tensor.bfloat16().float(), device="cpu"))
