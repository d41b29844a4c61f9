"""Threads, forks, and the end of the interpreter."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import lamina
import numpy as np
import pytest

from conftest import forked, ROOT, together


@pytest.fixture(scope="module")
def slow():
    """A graph that takes long enough to be met in the middle."""
    graph = lamina.Graph()
    x = graph.input("x", ("N", 32, 96, 96))
    weight = np.full((32, 32, 5, 5), 1e-3, np.float32)
    for i in range(6):
        x = graph.add(f"conv{i}", "conv2d", x, weight=weight, padding=2)
    graph.output(x)
    return graph


def test_a_plan_of_two_threads_is_an_error(slow):
    plan = slow.compile(device="cpu", batch=2, threads=1)
    x = np.ones((2, 32, 96, 96), np.float32)
    expected = plan(x)
    started = threading.Barrier(2)
    outcomes = []

    def run():
        started.wait()
        for _ in range(20):
            try:
                outcomes.append(np.array_equal(plan(x), expected))
            except lamina.Error as error:
                outcomes.append("two threads use one Plan" in str(error))

    together(2, run)
    assert all(outcomes) and len(outcomes) == 40
    assert np.array_equal(plan(x), expected)


def test_the_gil_is_released(slow):
    plan = slow.compile(device="cpu", batch=2, threads=1)
    x = np.ones((2, 32, 96, 96), np.float32)
    running = threading.Event()

    def run():
        running.set()
        for _ in range(5):
            plan(x)
        running.clear()

    thread = threading.Thread(target=run)
    steps = 0
    thread.start()
    running.wait()
    while running.is_set():
        steps += 1
        time.sleep(0.001)
    thread.join()
    assert steps > 5  # held, it would have been let in between the runs alone


def test_threads_with_a_plan_each(digits):
    x = np.random.default_rng(0).standard_normal((8, 1, 3, 32, 32), np.float32)
    expected = [digits.compile(device="cpu", threads=1)(image) for image in x]

    def work(_):
        plan = digits.compile(device="cpu", threads=1)
        return [plan(image) for image in x for _ in range(20)][::20]

    with ThreadPoolExecutor(4) as pool:
        for results in pool.map(work, range(8)):
            assert np.array_equal(results, expected)


def test_classify_from_threads(digits, photos):
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda _: digits.classify(photos, top=1), range(8)))
    assert all(row == rows[0] for row in rows)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork(digits, x):
    plan = digits.compile(device="cpu", batch=2, threads=2)
    expected = plan(x)
    assert "Error: threads: the process was forked since 2 threads were started" in forked(lambda: plan(x))
    # One of a single thread has nothing that the child lacks.
    single = digits.compile(device="cpu", batch=2, threads=1)
    assert forked(lambda: np.array_equal(single(x), expected)) == "True"
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    child = context.Process(target=lambda: answers.put(single(x)))
    child.start()
    assert np.array_equal(answers.get(timeout=60), expected)
    child.join()
    # The model goes along, and the child may compile.
    assert forked(lambda: np.array_equal(digits.compile(device="cpu", batch=2, threads=2)(x), expected)) == "True"

    def drop():
        nonlocal plan
        plan = None
        return "dropped"

    assert forked(drop) == "dropped"
    assert np.array_equal(plan(x), expected)


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(3)", "import threading, time\n"
                                 "threading.Thread(target=lambda: [plan(x) for _ in iter(int, 1)], daemon=True).start()\n"
                                 "time.sleep(0.2)"])
def test_the_interpreter_ends_with_plans_alive(end):
    program = f"""
import lamina, numpy as np
model = lamina.load({str(ROOT / 'weights/digits.safetensors')!r})
plan = model.compile(device="cpu", threads=2)
x = np.zeros((1, 3, 32, 32), np.float32)
y = plan(x)
{end}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == (3 if "exit" in end else 0), done.stderr
    assert done.stderr == ""


def test_ctrl_c_ends_a_compilation():
    """Of a network that takes long to compile: a product that depends on nothing, two hundred times."""
    program = """
import _thread, signal, threading, time
import lamina, numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it
graph = lamina.Graph()
x = graph.input("x", ("N", 4))
big = mean = graph.constant("mean of 1024", np.full((1024, 1024), 1 / 1024, np.float32))
for i in range(200):
    big = graph.add(f"product{i}", "MatMul", [big, mean])
graph.output(graph.add("sum", "Add", [x, graph.add("mean", "ReduceMean", big, keepdims=0)]))
threading.Timer(0.3, _thread.interrupt_main).start()
begin = time.monotonic()
try:
    COMPILE
    print("compiled")
except KeyboardInterrupt:
    print("interrupted" if time.monotonic() - begin < 5 else "too late")
"""
    for call in ('graph.compile(device="cpu")', 'lamina.Pool(lamina.Model(graph), devices="cpu")'):
        done = subprocess.run([sys.executable, "-c", program.replace("COMPILE", call)], capture_output=True, text=True,
                              timeout=120)
        assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr


def test_models_can_be_stopped(digits):
    stop, x = lamina.Stop(), np.zeros((1, 3, 32, 32), np.float32)
    assert digits(x, device="cpu", stop=stop).shape == (1, 10)
    stop.request()
    with pytest.raises(lamina.Stopped, match="stop"):
        digits(x, device="cpu", stop=stop)
    assert issubclass(lamina.Stopped, lamina.Error) and lamina.Stopped.__module__ == "lamina"
    plan = digits.compile(device="cpu")
    for time in (10, 1e300, float("inf"), None):
        assert plan(x, time=time).shape == digits(x, device="cpu", time=time).shape == (1, 10)
    with pytest.raises(lamina.Stopped):
        plan(x, time=0)
    for time in (-1, float("nan")):
        with pytest.raises(lamina.Error, match="time: expected seconds, 0 or more"):
            plan(x, time=time)
    assert plan(x).shape == (1, 10)
    assert "stop=stop" in lamina.Stop.__doc__


def test_a_long_run_ends_by_ctrl_c_by_a_stop_and_by_its_time():
    """Of a network that takes seconds; the plan can run again."""
    program = """
import _thread, signal, threading, time
import lamina, numpy as np
signal.signal(signal.SIGINT, signal.default_int_handler)
graph = lamina.Graph()
x = graph.input("x", (1024, 1024))
mean = graph.constant("mean of 1024", np.full((1024, 1024), 1 / 1024, np.float32))
big = x
for i in range(400):
    big = graph.add(f"product{i}", "MatMul", [big, mean])
graph.output(big)
model, array, stop = lamina.Model(graph), np.ones((1024, 1024), np.float32), lamina.Stop()
plan = model.compile(device="cpu", threads=1)
def ends(kind, run, after=None):
    if after is not None:
        threading.Timer(0.2, after).start()
    begin = time.monotonic()
    try:
        run()
        print("done")
    except kind as error:
        print(type(error).__name__ if time.monotonic() - begin < 3 else "too late")
ends(KeyboardInterrupt, lambda: plan(array), _thread.interrupt_main)
ends(lamina.Stopped, lambda: plan(array, stop=stop), stop.request)
ends(lamina.Stopped, lambda: plan.run(array, time=0.2))
ends(lamina.Stopped, lambda: model(array, device="cpu", threads=1, time=0.2))
ends(lamina.Stopped, lambda: plan(array, stop=stop))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout.split(), done.returncode) == (["KeyboardInterrupt"] + ["Stopped"] * 4, 0), done.stdout + done.stderr


def test_a_subinterpreter_is_refused_and_does_no_harm():
    subinterpreters = pytest.importorskip("_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters")
    program = f"""
import {subinterpreters.__name__} as subinterpreters
import lamina, numpy as np
model = lamina.load({str(ROOT / 'weights/digits.safetensors')!r})
inner = subinterpreters.create()
run = getattr(subinterpreters, "run_string", None) or subinterpreters.exec
try:
    failed = run(inner, "import lamina._core")
    print(failed)
except BaseException as error:
    print(error)
print(model.compile(device="cpu")(np.zeros((1, 3, 32, 32), np.float32)).shape)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "ImportError" in done.stdout and done.stdout.endswith("(1, 10)\n"), done.stdout + done.stderr


def test_the_package_imports_no_more_than_numpy():
    program = "import lamina, sys; print([m for m in ('ray', 'torch', 'tqdm', 'onnx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.skipif(shutil.which("lamina") is None, reason="built without the command")
def test_the_command(tmp_path):
    def lamina(*words):
        return subprocess.run(["lamina", *words], capture_output=True, timeout=60, cwd=tmp_path)

    digit = b"\xe9.png"  # a name that is not UTF-8
    shutil.copy(ROOT / "weights/digits/7.png", tmp_path / os.fsdecode(digit))
    done = lamina("classify", digit, "--model", ROOT / "weights/digits.safetensors", "--top", "1")
    assert b"100.00 %  seven" in done.stdout, done.stderr
    done = lamina("features", digit, "--out", "features.png")  # by the filters that the package ships
    assert done.returncode == 0 and (tmp_path / "features.png").exists(), done.stderr
    done = lamina("nothing")
    assert done.returncode == 2 and b'no command "nothing"' in done.stderr
    done = lamina("run", "--model", ROOT / "weights/digits.safetensors", "--input", ROOT / "tests/golden/heic/colour.heic",
                  "--out", "out.safetensors")  # by libheif, or by pillow-heif, which is named where there is neither
    assert done.returncode == 0 or b"after pip install pillow-heif" in done.stderr, done.stderr
