"""Arrays of a GPU: used where they are, in the order of their streams, without a wait on the host. Needs PyTorch."""

import gc

import lamina
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available() or lamina.cuda_device_count() == 0, reason="needs a GPU")


@pytest.fixture
def plan(digits):
    return digits.compile(device="cuda", batch=2)


@pytest.fixture
def image(x):
    image = torch.from_numpy(x).cuda()
    torch.cuda.synchronize()
    return image


def busy(stream, seconds=0.2):
    """Keeps the stream busy for so long: whoever does not wait for what follows on it comes too early."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(int(seconds * 2e9))  # cycles; Hopper runs at up to 2 GHz


def idle(stream):
    """Whether what was enqueued on the stream is done, its waiting for other streams included."""
    return stream.record_event().query()


def test_results_stay_on_the_gpu(plan, x, image):
    expected = plan(x)  # of the host: NumPy
    assert isinstance(expected, np.ndarray)
    y = plan(image)
    assert y.device == "cuda:0" and y.shape == (2, 10) and y.dtype == "f32"
    assert np.array_equal(y.numpy(), expected) and np.array_equal(torch.from_dlpack(y).cpu().numpy(), expected)
    assert "cuda:0" in repr(y)


def test_the_same_memory_whoever_looks(plan, image):
    y = plan(image)
    interface = y.__cuda_array_interface__
    assert interface["shape"] == (2, 10) and interface["typestr"] == "<f4" and interface["version"] == 3
    address = interface["data"][0]
    assert torch.from_dlpack(y).data_ptr() == address and torch.as_tensor(y, device="cuda").data_ptr() == address
    torch.from_dlpack(y).fill_(7)
    assert (y.numpy() == 7).all()


def test_out(plan, x, image):
    expected = plan(x)
    out = torch.full((2, 10), float("nan"), device="cuda")
    address = out.data_ptr()
    for _ in range(3):  # the second run at the same addresses is captured, the third replayed
        assert plan(image, out=out) is out and out.data_ptr() == address
        assert np.array_equal(out.cpu().numpy(), expected)
        out.zero_()
    one = torch.empty(1, 10, device="cuda")
    assert np.array_equal(plan(image[:1], out=one).cpu().numpy(), expected[:1])
    with pytest.raises(lamina.Error, match=r"expected f32 \[2, 10\]"):
        plan(image, out=torch.empty(2, 11, device="cuda"))
    with pytest.raises(lamina.Error, match="expected f32"):
        plan(image, out=torch.empty(2, 10, device="cuda", dtype=torch.float16))
    with pytest.raises(lamina.Error, match="not contiguous"):
        plan(image, out=torch.empty(2, 20, device="cuda")[:, ::2])


def test_an_array_of_the_host_is_complete(plan, x, image):
    stream, out = torch.cuda.Stream(), np.full((2, 10), np.nan, np.float32)
    busy(stream)
    assert plan(image, out=out, stream=stream) is out
    assert np.array_equal(out, plan(x))


def test_a_run_waits_for_its_input(plan, x, image):
    expected = plan(x)
    late, stream, producer = torch.zeros_like(image), torch.cuda.Stream(), torch.cuda.Stream()
    torch.cuda.synchronize()
    busy(producer)
    with torch.cuda.stream(producer):  # the current stream is the one that PyTorch's tensors are computed on
        late.copy_(image)
        y = plan(late, stream=stream)
    assert np.array_equal(y.numpy(), expected)


def test_the_caller_does_not_wait(plan, x, image):
    stream, out = torch.cuda.Stream(), torch.full((2, 10), float("nan"), device="cuda")
    for _ in range(3):  # captured by now
        plan(image, out=out, stream=stream)
    torch.cuda.synchronize()
    for handle in (stream, stream.cuda_stream):
        busy(stream)
        out.fill_(float("nan"))
        plan(image, out=out, stream=handle)
        assert not idle(stream)
        stream.synchronize()
        assert np.array_equal(out.cpu().numpy(), plan(x))


def test_who_takes_a_result_waits_for_it(plan, x, image):
    expected = plan(x)
    stream, consumer = torch.cuda.Stream(), torch.cuda.Stream()
    busy(stream)
    y = plan(image, stream=stream)
    y.__dlpack__(stream=-1)  # asks for no order
    assert idle(consumer) and not idle(stream)
    assert y.__cuda_array_interface__["stream"] == stream.cuda_stream
    y.__dlpack__(stream=consumer.cuda_stream)
    assert not idle(consumer)
    with torch.cuda.stream(consumer):
        taken = torch.from_dlpack(y) + 0
    consumer.synchronize()
    assert np.array_equal(taken.cpu().numpy(), expected)
    busy(stream)
    assert np.array_equal((torch.from_dlpack(plan(image, stream=stream)) + 0).cpu().numpy(), expected)  # default stream


def test_runs_of_one_plan_follow_each_other(plan, x, image):
    """On whatever stream: they share the plan's memory."""
    expected = plan(x)
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    outs = [torch.empty(2, 10, device="cuda") for _ in range(2)]
    torch.cuda.synchronize()
    busy(first)
    plan(image, out=outs[0], stream=first)
    plan(image, out=outs[1], stream=second)
    assert not idle(second)
    assert np.array_equal(plan(x + 1), plan(torch.from_numpy(x + 1).cuda()).numpy())
    assert idle(first)  # which that had to wait for
    for out in outs:
        assert np.array_equal(out.cpu().numpy(), expected)


def test_inputs_results_and_plans_may_be_dropped_in_flight(digits, plan, x):
    expected = [plan(x + i) for i in range(20)]
    stream, results = torch.cuda.Stream(), []
    busy(stream)
    for i in range(20):
        image = torch.from_numpy(x).cuda() + i
        results.append(plan(image, stream=stream))
        del image
        torch.full((2, 3, 32, 32), float("nan"), device="cuda")  # where it lay, had it been given back
    for result, right in zip(results, expected):
        assert np.array_equal(result.numpy(), right)
    dropped = digits.compile(device="cuda", batch=2)
    busy(stream)
    y = dropped(torch.from_numpy(x).cuda(), stream=stream)
    del dropped
    gc.collect()
    assert np.array_equal(y.numpy(), expected[0])
    busy(stream)
    plan(torch.from_numpy(x).cuda(), stream=stream)  # its result is dropped at once
    assert np.array_equal(plan(x), expected[0])


def test_what_was_read_is_given_back(plan, image):
    out = torch.empty(2, 10, device="cuda")

    def held():
        plan(image, out=out)
        torch.cuda.synchronize()
        plan(image, out=out)
        return torch.cuda.memory_allocated()

    before = held()
    for _ in range(50):
        plan(image.clone(), out=out)
    assert held() == before


def test_gaps_and_types(plan, image):
    with pytest.raises(lamina.Error, match="not contiguous"):
        plan(image.to(memory_format=torch.channels_last))
    with pytest.raises(lamina.Error, match="not contiguous"):
        plan(torch.empty(2, 3, 32, 64, device="cuda")[..., ::2])
    for wrong in (image.half(), image.double(), image.bfloat16(), image.int(), image[:, :2].contiguous(), image[:0]):
        with pytest.raises(lamina.Error, match=r"input: expected f32 \["):
            plan(wrong)
    with pytest.raises(TypeError, match="stream"):
        plan(image, stream="fast")


def test_memory_that_is_aligned_to_its_elements_alone(plan, x, image):
    odd = torch.empty(image.numel() + 1, device="cuda")[1:].view_as(image)
    odd.copy_(image)
    assert odd.data_ptr() % 16 != 0
    assert np.array_equal(plan(odd).numpy(), plan(x))


def test_nan_stays_nan(plan, image):
    image[0, 0, 16, 16] = float("nan")
    y = plan(image).numpy()
    assert np.isnan(y[0]).all() and np.isfinite(y[1]).all()


def test_other_devices(digits, plan, x, image):
    with pytest.raises(lamina.Error, match="on the cpu"):
        digits.compile(device="cpu", batch=2)(image)
    if lamina.cuda_device_count() < 2:
        return
    second = digits.compile(device="cuda:1", batch=2)
    with torch.cuda.device(1):  # PyTorch lends tensors of its current device alone
        y = second(image.to("cuda:1"))
    assert y.device == "cuda:1" and torch.from_dlpack(y).device == torch.device("cuda:1")
    assert np.array_equal(y.numpy(), plan(x))
    with pytest.raises(lamina.Error, match="expected a tensor on cuda:1 or on the cpu"):
        second(image)


def test_results_go_into_other_plans(plan, x, image):
    graph = lamina.Graph()
    graph.output(graph.add("twice", "flatten", graph.input("input", ("N", 10))))
    after = graph.compile(device="cuda", batch=2)
    stream = torch.cuda.Stream()
    busy(stream)
    assert np.array_equal(after(plan(image, stream=stream)).numpy(), plan(x))


@pytest.mark.parametrize("precision", ["fp16", "bf16", "tf32"])
def test_precisions(digits, plan, x, image, precision):
    lower = digits.compile(device="cuda", batch=2, precision=precision)
    y, right = lower(image), plan(x)
    assert y.dtype == lower.output_dtypes[0]
    assert np.linalg.norm(torch.from_dlpack(y).float().cpu().numpy() - right) < 0.05 * np.linalg.norm(right)


def test_photographs_are_bytes(digits, photos):
    plan = digits.compile(device="cuda", batch=1, photos=True)
    pixels = lamina.resize_and_crop(photos / "7.png", digits.preprocess)[None]
    assert np.array_equal(plan(torch.from_numpy(pixels).cuda()).numpy(), plan(pixels))
    rows = digits.classify(photos, top=1, device="cuda")
    assert [row.classes[0][0] for row in rows] == [row.classes[0][0] for row in digits.classify(photos, top=1, device="cpu")]


def test_cupy(plan, x):
    cupy = pytest.importorskip("cupy")
    expected, image = plan(x), cupy.asarray(x)
    y = plan(image, stream=cupy.cuda.Stream(non_blocking=True))
    taken = cupy.asarray(y)  # by __cuda_array_interface__, whose stream it waits for
    assert taken.data.ptr == cupy.from_dlpack(y).data.ptr == y.__cuda_array_interface__["data"][0]
    assert np.array_equal(cupy.asnumpy(taken), expected)
    out = cupy.empty((2, 10), cupy.float32)
    assert plan(image, out=out) is out and np.array_equal(cupy.asnumpy(out), expected)


def test_captured_by_the_caller(plan, x, image):
    """What is captured reads and writes the memory of the caller, without a copy in between."""
    out = torch.empty(2, 10, device="cuda")
    plan(image, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream()
        plan(image, out=out, stream=stream)
        with pytest.raises(lamina.Error, match="needs out="):
            plan(image, stream=stream)
    image.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert np.array_equal(out.cpu().numpy(), plan(x + 1))
