"""PyTorch's tensors, where PyTorch is; those of a GPU where there is one."""

import lamina
import numpy as np
import pytest

torch = pytest.importorskip("torch")
gpu = pytest.mark.skipif(not torch.cuda.is_available() or lamina.cuda_device_count() == 0, reason="needs a GPU")


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


@pytest.fixture
def gpu_plan(digits):
    return digits.compile(device="cuda", batch=2)


@gpu
def test_results_stay_on_the_gpu(gpu_plan, x):
    expected = gpu_plan(x)  # of the host: NumPy
    assert isinstance(expected, np.ndarray)
    y = gpu_plan(torch.from_numpy(x).cuda())
    assert y.device == "cuda:0" and y.shape == (2, 10) and y.dtype == "f32"
    shared = torch.from_dlpack(y)
    assert shared.data_ptr() == y.__cuda_array_interface__["data"][0]
    assert np.array_equal(shared.cpu().numpy(), expected) and np.array_equal(y.numpy(), expected)
    out = torch.empty(2, 10, device="cuda")
    assert gpu_plan(torch.from_numpy(x).cuda(), out=out) is out
    assert np.array_equal(out.cpu().numpy(), expected)


@gpu
def test_a_stream_of_ones_own(gpu_plan, x):
    """Nothing waits on the host, and yet every result is of its own input."""
    expected = [gpu_plan(x + i) for i in range(20)]
    stream, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    results = []
    for i in range(20):
        image = torch.from_numpy(x).pin_memory().cuda(non_blocking=True) + i  # on the current stream
        y = gpu_plan(image, stream=stream)
        del image  # in flight
        garbage = torch.full((2, 3, 32, 32), float("nan"), device="cuda")  # where it may have lain
        with torch.cuda.stream(consumer):
            results.append(torch.from_dlpack(y) + 0)
        del y, garbage
    consumer.synchronize()
    for result, right in zip(results, expected):
        assert np.array_equal(result.cpu().numpy(), right)


@gpu
def test_gaps_on_a_gpu(gpu_plan, x):
    with pytest.raises(lamina.Error, match="not contiguous"):
        gpu_plan(torch.from_numpy(x).cuda().to(memory_format=torch.channels_last))


@gpu
def test_a_plan_of_the_cpu_takes_no_tensor_of_a_gpu(plan, x):
    with pytest.raises(lamina.Error, match="on the cpu"):
        plan(torch.from_numpy(x).cuda())


@gpu
def test_captured_by_the_caller(gpu_plan, x):
    image, out = torch.from_numpy(x).cuda(), torch.empty(2, 10, device="cuda")
    gpu_plan(image, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream()
        gpu_plan(image, out=out, stream=stream)
        with pytest.raises(lamina.Error, match="needs out="):
            gpu_plan(image, stream=stream)
    image.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert np.array_equal(out.cpu().numpy(), gpu_plan(x + 1))
