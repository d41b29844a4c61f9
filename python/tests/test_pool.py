"""A pool: many threads, one queue, every answer right."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import lamina
import numpy as np
import pytest

from conftest import ROOT, forked


def test_answers_are_those_of_a_plan(digits):
    x = np.random.default_rng(0).standard_normal((64, 1, 3, 32, 32), np.float32)
    plan = digits.compile(device="cpu", batch=1, threads=1)
    expected = [plan(image) for image in x]
    with lamina.Pool(digits, devices="cpu", batch=8, plans_per_device=2, max_delay=0.001, threads=2) as pool:
        assert pool.max_batch == 8
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(pool, x))
        assert sum(worker.images for worker in pool.workers()) == 64
        three = pool.submit(x[:3, 0]).result(timeout=30)
    for answer, right in zip(answers, expected):
        assert np.array_equal(answer, right)
    assert np.array_equal(three, np.concatenate(expected[:3]))


def test_an_array_may_change_once_it_is_submitted(digits):
    plan = digits.compile(device="cpu", batch=1, threads=1)
    x = np.empty((1, 3, 32, 32), np.float32)
    with lamina.Pool(digits, devices="cpu", batch=4, max_delay=0.05, threads=1) as pool:
        futures = []
        for i in range(32):
            x[:] = i
            futures.append(pool.submit(x))
        x[:] = np.nan
        for i, future in enumerate(futures):
            assert np.array_equal(future.result(timeout=30), plan(np.full_like(x, i)))


def test_what_does_not_fit(digits):
    pool = lamina.Pool(digits, devices="cpu", batch=4)
    for wrong in (np.zeros((1, 3, 32, 31), np.float32), np.zeros((1, 3, 32, 32)), np.zeros((5, 3, 32, 32), np.float32),
                  np.zeros((0, 3, 32, 32), np.float32)):
        with pytest.raises(lamina.Error, match="input"):
            pool.submit(wrong)
    pool.close()
    with pytest.raises(lamina.Error, match="closed"):
        pool.submit(np.zeros((1, 3, 32, 32), np.float32))


@pytest.mark.parametrize("delay", [-1, float("nan"), float("inf")])
def test_delays_are_seconds(digits, delay):
    with pytest.raises(lamina.Error, match="max_delay: expected seconds of 0 or more, got"):
        lamina.Pool(digits, devices="cpu", max_delay=delay)


def test_full(digits):
    x = np.zeros((1, 3, 32, 32), np.float32)
    with lamina.Pool(digits, devices="cpu", batch=2, max_queue=2, max_delay=5, wait_when_full=False) as pool:
        futures = []
        with pytest.raises(lamina.PoolFull):
            for _ in range(1000):
                futures.append(pool.submit(np.concatenate([x, x])))
        assert issubclass(lamina.PoolFull, lamina.Error)
        for future in futures:
            assert future.result(timeout=30).shape == (2, 10)


def test_inputs_and_pool_may_be_dropped(digits):
    pool = lamina.Pool(digits, devices="cpu", batch=2)
    futures = [pool.submit(np.full((1, 3, 32, 32), i, np.float32)) for i in range(50)]
    del pool
    assert all(np.isfinite(future.result(timeout=30)).all() for future in futures)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork(digits):
    x = np.zeros((1, 3, 32, 32), np.float32)
    pool = lamina.Pool(digits, devices="cpu", batch=2)
    pool(x)
    assert "Error: pool: made before this process was forked" in forked(lambda: pool(x))
    assert pool(x).shape == (1, 10)


def test_the_interpreter_ends_with_requests_under_way():
    program = f"""
import lamina, numpy as np
pool = lamina.Pool(lamina.load({str(ROOT / 'weights/digits.safetensors')!r}), devices="cpu", batch=4)
futures = [pool.submit(np.zeros((1, 3, 32, 32), np.float32)) for _ in range(200)]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
