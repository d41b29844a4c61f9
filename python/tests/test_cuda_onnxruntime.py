"""ONNX Runtime's values and bindings with memory of a GPU. Needs a GPU, and nothing else beside the package."""

import lamina
import lamina.onnxruntime as ort
import numpy as np
import pytest
from conftest import ROOT

pytestmark = pytest.mark.skipif(lamina.cuda_device_count() == 0, reason="needs a GPU")


@pytest.fixture
def session():
    return ort.InferenceSession(ROOT / "weights/digits.safetensors",
                                providers=[("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"])


def test_values_on_a_gpu(x):
    value = ort.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
    assert value.device_name() == "cuda" and value.shape() == [2, 3, 32, 32] and value.data_type() == "tensor(float)"
    np.testing.assert_array_equal(value.numpy(), x)
    value.update_inplace(2 * x)
    np.testing.assert_array_equal(np.asarray(value), 2 * x)
    other = ort.OrtValue.ortvalue_from_shape_and_type(value.shape(), np.float32, "cuda", 0)
    other.update_inplace(value)
    np.testing.assert_array_equal(other.numpy(), 2 * x)
    assert other.data_ptr() != value.data_ptr() and ort.OrtValue.from_dlpack(other).data_ptr() == other.data_ptr()


def test_a_session_says_where_it_is(session, x):
    assert session.get_providers() == ["CUDAExecutionProvider"]
    assert session.get_provider_options() == {"CUDAExecutionProvider": {"device_id": "0"}}
    value = ort.OrtValue.ortvalue_from_numpy(x, "cuda", 0)
    (scores,) = session.run_with_ort_values(None, {"input": value})
    assert scores.device_name() == "cuda"
    np.testing.assert_array_equal(scores.numpy(), session.run(None, {"input": x})[0])


@pytest.mark.parametrize("given", ["cpu", "cuda"])
@pytest.mark.parametrize("asked", ["cpu", "cuda"])
def test_bindings_on_either_side(session, x, given, asked):
    (expected,) = session.run(None, {"input": x})
    name = session.get_outputs()[0].name
    value = ort.OrtValue.ortvalue_from_numpy(x.copy(), given, 0)  # on the host it is the array, which is written to
    binding = session.io_binding()
    binding.bind_input("input", given, 0, np.float32, value.shape(), value.data_ptr())
    binding.bind_output(name, asked)
    for _ in range(3):  # of the same addresses the second run is captured, the third replayed
        binding.synchronize_inputs()
        session.run_with_iobinding(binding)
        (output,) = binding.get_outputs()
        assert output.device_name() == asked
        np.testing.assert_array_equal(output.numpy(), expected)
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], expected)
    kept = ort.OrtValue.ortvalue_from_shape_and_type([2, 10], np.float32, asked, 0)
    binding.bind_ortvalue_output(name, kept)
    for scale in (1, 2, 0, 1):
        value.update_inplace(scale * x)
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(kept.numpy(), session.run(None, {"input": scale * x})[0])


def test_runs_on_a_stream_of_the_callers(x):
    torch = pytest.importorskip("torch")
    stream = torch.cuda.Stream()
    session = ort.InferenceSession(ROOT / "weights/digits.safetensors", providers=[
        ("CUDAExecutionProvider", {"user_compute_stream": str(stream.cuda_stream)})])
    (expected,) = session.run(None, {"input": x})
    image = torch.from_numpy(x).cuda()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        (scores,) = session.run(None, {"input": image})
        np.testing.assert_array_equal(torch.from_dlpack(scores).cpu().numpy(), expected)
