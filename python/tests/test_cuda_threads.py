"""Plans of a GPU and threads, forks, and the end of the interpreter. Needs PyTorch."""

import subprocess
import sys
import threading
import time

import lamina
import numpy as np
import pytest

from conftest import forked, ROOT, together

torch = pytest.importorskip("torch")
from test_cuda import busy, image, plan, pytestmark  # noqa: E402, F401


def test_a_plan_of_two_threads_is_an_error(plan, x):
    expected, stream, outcome = plan(x), torch.cuda.Stream(), []
    busy(stream, 2)
    first = threading.Thread(target=lambda: outcome.append(plan(x, stream=stream)))
    first.start()
    time.sleep(0.5)
    with pytest.raises(lamina.Error, match="two threads use one Plan"):
        plan(x)
    first.join()
    assert np.array_equal(outcome[0], expected)


def test_threads_with_a_plan_and_a_stream_each(digits, x):
    expected = [digits.compile(device="cuda", batch=2)(x + i) for i in range(8)]
    wrong = []

    def work():
        plan, stream = digits.compile(device="cuda", batch=2), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            results = [plan(torch.from_numpy(x).cuda() + i % 8, stream=stream) for i in range(80)]
        wrong.extend(i for i, y in enumerate(results) if not np.array_equal(y.numpy(), expected[i % 8]))

    together(4, work)
    assert not wrong


def test_a_pool(digits, plan, x):
    with lamina.Pool(digits, devices="all", batch=8, max_delay=0.001) as pool:
        assert {worker.device for worker in pool.workers()} == {f"cuda:{i}" for i in range(lamina.cuda_device_count())}
        futures = [pool.submit(x + i % 8) for i in range(80)]
        for i, future in enumerate(futures):
            assert np.allclose(future.result(timeout=60), plan(x + i % 8), rtol=1e-4, atol=1e-4)


def test_more_memory_than_there_is(digits, plan, x):
    with pytest.raises(lamina.Error, match="MiB|bytes"):
        digits.compile(device="cuda", batch=1 << 25)
    assert np.isfinite(plan(x)).all()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork(digits, plan, x, image):
    expected, y = plan(x), plan(image)
    assert "Error: plan: compiled before this process was forked" in forked(lambda: plan(image))
    # CUDA does not go on in a child; the CPU does.
    assert forked(lambda: digits.compile(device="cuda")).startswith("Error: ")
    on_cpu = digits.compile(device="cpu", batch=2)(x)
    assert forked(lambda: np.array_equal(digits.compile(device="cpu", batch=2)(x), on_cpu)) == "True"

    def drop():
        nonlocal plan, y
        plan = y = None
        return "dropped"

    assert forked(drop) == "dropped"
    assert np.array_equal(plan(x), expected) and np.array_equal(y.numpy(), expected)


@pytest.mark.parametrize("end", [
    "", "sys.exit(3)", "torch.cuda._sleep(400_000_000); z = plan(image)",
    "pool = lamina.Pool(model, batch=4); futures = [pool.submit(x) for _ in range(200)]",
    "threading.Thread(target=lambda: [plan(image) for _ in iter(int, 1)], daemon=True).start(); time.sleep(0.2)"])
def test_the_interpreter_ends_with_plans_alive(end):
    program = f"""
import sys, threading, time
import lamina, torch, numpy as np
model = lamina.load({str(ROOT / 'weights/digits.safetensors')!r})
plan = model.compile(device="cuda")
x = np.zeros((1, 3, 32, 32), np.float32)
image = torch.from_numpy(x).cuda()
y = plan(image)
shared = torch.from_dlpack(y)
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (3 if "exit" in end else 0, "")
