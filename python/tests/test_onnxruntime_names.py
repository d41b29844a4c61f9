"""What programs written for ONNX Runtime ask beside running: names, options, threads, traces, values that decide shapes."""

import importlib
import json
import subprocess
import sys
import threading

import lamina
import lamina.onnxruntime as ort
import numpy as np
import onnx_writer as onnx
import pytest

OF_CPU = {"providers": ["CPUExecutionProvider"]}


@pytest.fixture
def relu(tmp_path):
    return onnx.write(tmp_path / "relu.onnx", [onnx.node("Relu", ["x"], "y")], [("x", "float32", ["batch", 2, "width"])],
                      [("y", "float32", ["batch", 2, "width"])], {})


@pytest.fixture
def x():
    return np.random.default_rng(1).standard_normal((3, 2, 4), np.float32)


def test_extents_that_are_open_may_be_fixed(relu, x):
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 3)
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 5)
    session = ort.InferenceSession(relu, options, **OF_CPU)
    assert session.get_inputs()[0].shape == session.get_outputs()[0].shape == [3, 2, "width"]
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.maximum(x, 0))
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match=r"x: expected \[3, 2, 'width'\], as SessionOptions say, got \[2, 2, 4\]"):
        session.run(None, {"x": x[:2]})


def test_denotations(tmp_path):
    """A dimension of TensorShapeProto has one in field 3."""
    shape = onnx.field(2, onnx.field(1, onnx.field(2, "n") + onnx.field(3, "DATA_BATCH")) + onnx.field(1, onnx.field(1, 2)))
    port = onnx.field(2, onnx.field(1, onnx.field(1, 1) + shape))
    graph = (onnx.field(1, onnx.node("Relu", ["x"], "y")) + onnx.field(2, "g") + onnx.field(11, onnx.field(1, "x") + port) +
             onnx.field(12, onnx.field(1, "y") + port))
    (tmp_path / "net.onnx").write_bytes(onnx.field(1, 8) + onnx.field(7, graph) + onnx.field(8, onnx.field(2, 17)))
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 5)
    assert ort.InferenceSession(tmp_path / "net.onnx", options, **OF_CPU).get_inputs()[0].shape == [5, 2]
    assert ort.InferenceSession(tmp_path / "net.onnx", **OF_CPU).get_inputs()[0].shape == ["n", 2]


def test_what_a_session_was_made_of(relu):
    session = ort.InferenceSession(relu, providers=[("CPUExecutionProvider", {"arena": 1})], enable_fallback=False)
    assert session._model_path == relu and session._model_bytes is None
    assert session._providers == session.get_providers() == ["CPUExecutionProvider"]
    assert session._provider_options == session.get_provider_options() == {"CPUExecutionProvider": {"arena": "1"}}
    assert session._sess_options is session.get_session_options()
    session.set_providers(["CPUExecutionProvider"])
    assert session.get_provider_options() == {"CPUExecutionProvider": {}}
    content = relu.read_bytes()
    assert ort.InferenceSession(content, **OF_CPU)._model_bytes == content
    with pytest.warns(UserWarning, match="TensorrtExecutionProvider is not here"):
        session.set_providers(["TensorrtExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_a_run_on_a_thread_of_its_own(relu, x):
    session, done, answers = ort.InferenceSession(relu, **OF_CPU), threading.Event(), []

    def callback(*answer):
        answers.append(answer)
        done.set()

    session.run_async(["y"], {"x": x}, callback, "mine")
    assert done.wait(30)
    (results, data, error), = answers
    assert (data, error) == ("mine", "") and np.array_equal(results[0], np.maximum(x, 0))
    done.clear()
    session.run_async(None, {"x": x[0]}, callback, None)
    assert done.wait(30) and answers[1][0] == [] and "expected" in answers[1][2]
    with pytest.raises(ValueError, match="expected inputs x, got z"):
        session.run_async(None, {"z": x}, callback, None)


def test_a_model_is_left_where_it_is_asked_for(relu, x, tmp_path):
    """Programs keep it, and open that file the next time."""
    options = ort.SessionOptions()
    for model in (relu, relu.read_bytes()):
        options.optimized_model_filepath = str(tmp_path / "kept.onnx")
        ort.InferenceSession(model, options, **OF_CPU)
        np.testing.assert_array_equal(ort.InferenceSession(tmp_path / "kept.onnx", **OF_CPU).run(None, {"x": x})[0], np.maximum(x, 0))
    options.optimized_model_filepath = str(tmp_path / "no folder/kept.onnx")
    with pytest.raises(lamina.Error, match="optimized_model_filepath .*: cannot be written: No such file or directory"):
        ort.InferenceSession(relu, options, **OF_CPU)


def test_terminate(relu, x):
    session, options = ort.InferenceSession(relu, **OF_CPU), ort.RunOptions()
    assert len(session.run(None, {"x": x}, options)) == 1
    options.terminate = True
    for run in (lambda: session.run(None, {"x": x}, options), lambda: session.run_with_iobinding(session.io_binding(), options)):
        with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match=r"RunOptions\.terminate"):
            run()
    options.terminate = False
    assert len(session.run(None, {"x": x}, options)) == 1


def test_a_stop_ends_a_plan_s_run(relu, x):
    plan, stop = lamina.load(relu).compile(device="cpu", input_shapes={"x": (3, 2, 4)}), lamina.Stop()
    np.testing.assert_array_equal(plan(x, stop=stop), np.maximum(x, 0))
    stop.request()
    with pytest.raises(lamina.Error, match="^run: stopped, as was asked for$"):
        plan(x, stop=stop)
    assert stop.requested and plan(x).shape == x.shape


def test_a_trace(relu, x, tmp_path):
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "runs")
    session = ort.InferenceSession(relu, options, **OF_CPU)
    for _ in range(2):
        session.run(None, {"x": x})
    name = session.end_profiling()
    assert name.startswith(str(tmp_path / "runs_")) and name.endswith(".json")
    events = json.loads((tmp_path / name).read_text())
    assert [event["name"] for event in events].count("model_run") == 2
    assert {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"} == set(events[0])
    assert any(event["cat"] == "Node" and event["name"] == "y_kernel_time" for event in events)
    assert session.end_profiling() == "" == ort.InferenceSession(relu, **OF_CPU).end_profiling()


def test_values_that_decide_a_shape(tmp_path):
    """They are constants of the plan, one for each value; ONNX Runtime computes shapes as it runs."""
    model = onnx.write(tmp_path / "net.onnx", [onnx.node("Reshape", ["x", "shape"], "r"), onnx.node("Mul", ["r", "k"], "y")],
                       [("x", "float32", [6]), ("shape", "int64", [2]), ("k", "float32", [])], [("y", "float32", ["a", "b"])], {})
    session, loaded = ort.InferenceSession(model, **OF_CPU), lamina.load(model)
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, 2], [2, 3], [-1, 1]):
        expected = x.reshape(shape) * 2
        np.testing.assert_array_equal(session.run(None, {"x": x, "shape": shape, "k": 2})[0], expected)
        given = (x, np.array(shape), np.array(2, np.float32))
        np.testing.assert_array_equal(loaded(given, device="cpu"), expected)
        np.testing.assert_array_equal(loaded(dict(zip(("x", "shape", "k"), given)), device="cpu"), expected)
    plans = [plan for kind in session._network._plans.idle.values() for plan in kind]
    assert len(plans) == 3  # one for each value, whatever k is


def test_a_number_that_decides_a_shape(tmp_path):
    """As silero-vad's rate of samples does."""
    nodes = [onnx.node("Unsqueeze", ["n", "first"], "rows"), onnx.node("Concat", ["rows", "rest"], "shape", axis=0),
             onnx.node("Reshape", ["x", "shape"], "y")]
    model = onnx.write(tmp_path / "net.onnx", nodes, [("x", "float32", [6]), ("n", "int64", [])], [("y", "float32", ["a", "b"])],
                       {"first": np.array([0]), "rest": np.array([-1])})
    session, x = ort.InferenceSession(model, **OF_CPU), np.arange(6, dtype=np.float32)
    for n in (2, np.array(3), np.int64(2)):
        np.testing.assert_array_equal(session.run(None, {"x": x, "n": n})[0], x.reshape(n, -1))


def test_bindings_that_lack_something(relu, x):
    session = ort.InferenceSession(relu, **OF_CPU)
    binding = session.io_binding()
    with pytest.raises(RuntimeError, match="run: input x is not bound"):
        session.run_with_iobinding(binding)
    with pytest.raises(RuntimeError, match="there is no input z; expected one of x"):
        binding.bind_cpu_input("z", x)
    binding.bind_cpu_input("x", x)
    with pytest.raises(RuntimeError, match="no output is bound"):  # as ONNX Runtime has it
        session.run_with_iobinding(binding)
    assert binding.get_outputs() == []
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], np.maximum(x, 0))
    assert (session.get_tuning_results(), session.get_profiling_start_time_ns()) == ([], 0)


STATE = ort.capi.onnxruntime_pybind11_state
ARGUMENTS = {
    r"input_feed: expected a dict of arrays .*, x, got list": lambda model, session, x: session.run(None, [x]),
    "input_feed: expected a dict .* got NoneType": lambda model, session, x: session.run_async(None, None, print, None),
    "run_options: expected RunOptions or None, got int": lambda model, session, x: session.run(None, {"x": x}, 5),
    "^run_options: expected RunOptions": lambda model, session, x: session.run_async(None, {"x": x}, print, None, 5),
    r"output_names: expected a list of names or None, got 'y'; \['y'\] is one": lambda model, session, x: session.run("y", {"x": x}),
    "providers: expected names, or tuples .* got 5": lambda model, session, x: ort.InferenceSession(model, providers=[5]),
    "provider_options: expected one for each of 1 providers, got 2": lambda model, session, x: session.set_providers(["CPUExecutionProvider"], [{}, {}]),
    "sess_options: expected SessionOptions or None, got str": lambda model, session, x: ort.InferenceSession(model, "fast"),
    r"iobinding: expected what io_binding\(\) makes, got int": lambda model, session, x: session.run_with_iobinding(5),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("words", ARGUMENTS)
def test_arguments_of_other_types_are_named(relu, x, words):
    session = ort.InferenceSession(relu, **OF_CPU)
    with pytest.raises((TypeError, ValueError), match=words):
        ARGUMENTS[words](relu, session, x)


def test_options_are_of_the_types_that_they_have_there():
    options = ort.SessionOptions()
    for name, wrong in (("intra_op_num_threads", "x"), ("intra_op_num_threads", 1.5), ("log_severity_level", "a"), ("logid", 5),
                        ("enable_mem_pattern", "no"), ("execution_mode", "ORT_PARALLEL")):
        with pytest.raises(TypeError, match=rf"SessionOptions\.{name}: expected .*, got {wrong!r}"):
            setattr(options, name, wrong)
    with pytest.raises(TypeError, match=r"RunOptions\.terminate: expected True or False, got 'x'"):
        ort.RunOptions().terminate = "x"
    options.intra_op_num_threads, options.enable_mem_pattern, options.execution_mode = np.int64(2), 0, 1
    assert (options.intra_op_num_threads, options.enable_mem_pattern, options.execution_mode) == (2, False, ort.ExecutionMode.ORT_PARALLEL)


def test_runtime_errors_are_those_here_too(relu, x):
    """ONNX Runtime raises RuntimeError for each of these."""
    value, session = ort.OrtValue.ortvalue_from_numpy(x), ort.InferenceSession(relu, **OF_CPU)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_ortvalue_output("y", ort.OrtValue.ortvalue_from_numpy(np.zeros((3, 2, 5), np.float32)))
    for call in (lambda: ort.OrtValue.ortvalue_from_numpy(x, "dml"), lambda: ort.OrtValue.ortvalue_from_numpy(x, "cuda", 99),
                 lambda: ort.OrtValue.ortvalue_from_shape_and_type([2], "nothing"), lambda: value.update_inplace(x[:2]),
                 lambda: binding.bind_input("x", "cuda", 99, np.float32, [3, 2], x.ctypes.data),
                 lambda: session.run_with_iobinding(binding)):
        with pytest.raises(RuntimeError) as raised:
            call()
        assert isinstance(raised.value, lamina.Error)
    assert value.tensor_size_in_bytes() == x.nbytes


def test_files_that_are_no_models(relu, tmp_path):
    whole = relu.read_bytes()
    for length in (20, len(whole) // 2, len(whole) - 1):
        (tmp_path / "part.onnx").write_bytes(whole[:length])
        for part in (whole[:length], tmp_path / "part.onnx"):
            with pytest.raises(STATE.InvalidProtobuf, match="truncated or damaged"):
                ort.InferenceSession(part, **OF_CPU)
    unknown = onnx.write(tmp_path / "foo.onnx", [onnx.node("Foo", ["x"], "y")], [("x", "float32", [2])], [("y", "float32", [2])], {})
    with pytest.raises(STATE.InvalidGraph, match="no such op"):
        ort.InferenceSession(unknown, **OF_CPU)


def test_what_onnx_runtime_has_and_this_has_not():
    with pytest.raises(AttributeError, match="ONNX Runtime has OrtDevice, Lamina does not"):
        ort.OrtDevice
    with pytest.raises(AttributeError, match="has no attribute 'OrtDevices'"):
        ort.OrtDevices
    assert not hasattr(ort, "quantization") and not set(ort._ABSENT) & set(dir(ort))


def test_names_that_packages_look_for():
    assert tuple(map(int, ort.__version__.split("."))) >= (1, 20) and ort.get_version_string() == ort.__version__
    for name in ("IOBinding", "InferenceSession", "OrtValue"):
        assert hasattr(importlib.import_module("lamina.onnxruntime.capi.onnxruntime_inference_collection"), name)
    binding = importlib.import_module("lamina.onnxruntime.capi._pybind_state")
    assert binding.get_available_providers() == ort.get_available_providers() and issubclass(binding.Fail, lamina.Error)
    ort.set_global_thread_pool_sizes(1, 1)


def test_errors_are_pythons_too(tmp_path):
    missing = tmp_path / "missing.onnx"
    for call in (lambda: lamina.load(missing), lambda: lamina.read_image(missing), lambda: lamina.Detector(missing),
                 lambda: ort.InferenceSession(missing)):
        with pytest.raises(FileNotFoundError) as raised:
            call()
        assert isinstance(raised.value, lamina.Error) and isinstance(raised.value, lamina.NoSuchFile)
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(ValueError, match=r"text\.onnx") as raised:
        lamina.load(tmp_path / "text.onnx")
    assert type(raised.value) is lamina.Error


PROGRAM = """
import lamina.onnxruntime.everywhere
import onnxruntime, sys
from onnxruntime.capi import _pybind_state as C
from onnxruntime.capi.onnxruntime_pybind11_state import NoSuchFile
import onnxruntime.capi.onnxruntime_inference_collection as collection
assert collection.InferenceSession is onnxruntime.InferenceSession is lamina.onnxruntime.InferenceSession
print(onnxruntime.InferenceSession(sys.argv[1], providers=C.get_available_providers()).get_inputs()[0].name)
"""


def test_packages_that_import_onnxruntime_get_this(relu):
    said = subprocess.run([sys.executable, "-c", PROGRAM, relu], capture_output=True, text=True)
    assert said.stdout == "x\n", said.stderr
    before = "import lamina.onnxruntime.everywhere, importlib.util as u; assert u.find_spec('onnxruntime.training') is None; "
    for line in ("import onnxruntime.training", "from onnxruntime.quantization import quantize_dynamic", "from onnxruntime import OrtDevice"):
        said = subprocess.run([sys.executable, "-c", before + line], capture_output=True, text=True)
        assert "of onnxruntime: lamina.onnxruntime.everywhere stands in for onnxruntime here" in said.stderr, said
    said = subprocess.run([sys.executable, "-c", before + "import onnxruntime; assert not hasattr(onnxruntime, 'OrtDevice')"])
    assert said.returncode == 0
    for line, more in (("import lamina.onnxruntime.quantization", "lamina.quantize makes eight bits of a model"), ("from lamina.onnxruntime import OrtDevice", "")):
        said = subprocess.run([sys.executable, "-c", "import lamina.onnxruntime, importlib.util as u; assert u.find_spec('lamina.onnxruntime.tools') is None; " + line],
                              capture_output=True, text=True)
        assert "of onnxruntime: Lamina has no such part (docs/coming_from.md in Lamina's repository lists" in said.stderr and more in said.stderr, said
    late = "import sys; sys.modules['onnxruntime'] = sys; import lamina.onnxruntime.everywhere"
    said = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True)
    assert "onnxruntime was imported before: import this first" in said.stderr
