import os
import signal
import threading
from pathlib import Path

import lamina
import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def digits():
    """The digits that ship: input [N, 3, 32, 32], 10 classes."""
    return lamina.load(ROOT / "weights/digits.safetensors")


@pytest.fixture
def plan(digits):
    return digits.compile(device="cpu", batch=2, threads=1)


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((2, 3, 32, 32), np.float32)


@pytest.fixture
def photos():
    return ROOT / "weights/digits"


def forked(work):
    """What `work` says, in a child made by fork()."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # a lock that another thread held is held forever here
        try:
            said = str(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def together(count, work):
    """Calls `work` on so many threads at once, and waits for them."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
