"""Programs written for ONNX Runtime, with one line changed."""


import lamina
import lamina.onnxruntime as ort
import numpy as np
import onnx_writer as onnx
import pytest
from conftest import ROOT, together


@pytest.fixture
def model(digits, tmp_path):
    path = tmp_path / "digits.safetensors"
    digits.save(path)
    return path


@pytest.fixture
def session(model):
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"])


def test_runs_as_a_plan_does(session, plan, x):
    (scores,) = session.run(None, {"input": x})
    np.testing.assert_array_equal(scores, plan(x))
    (scores,) = session.run([session.get_outputs()[0].name], {session.get_inputs()[0].name: x})
    np.testing.assert_array_equal(scores, plan(x))


def test_says_what_it_takes_and_gives(session):
    assert session.get_inputs() == [ort.NodeArg("input", "tensor(float)", ["N", 3, 32, 32])]
    assert session.get_outputs() == [ort.NodeArg("classifier.6", "tensor(float)", ["N", 10])]
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_other_outputs_and_forms_are_the_sessions_own(model, session, plan, x):
    """What is asked for of `compile` is what the session takes, gives and says, by names."""
    of = {"providers": ["CPUExecutionProvider"]}
    hidden, scores = ("classifier.4", "classifier.6")
    both = ort.InferenceSession(model, outputs=[hidden, scores], **of)
    (expected,) = session.run(None, {"input": x})
    np.testing.assert_array_equal(both.run([scores], {"input": x})[0], expected)
    assert [each.shape for each in both.run([scores, hidden], {"input": x})] == [(2, 10), (2, 64)]
    assert [(port.name, port.shape) for port in both.get_outputs()] == [(hidden, ["N", 64]), (scores, ["N", 10])]
    halves = ort.InferenceSession(model, input_format="f16,nhwc", output_format="f16", **of)
    assert [str(port) for port in (*halves.get_inputs(), *halves.get_outputs())] == [
        "NodeArg(name='input', type='tensor(float16)', shape=['N', 32, 32, 3])",
        "NodeArg(name='classifier.6', type='tensor(float16)', shape=['N', 10])"]
    np.testing.assert_allclose(halves.run(None, {"input": x.transpose(0, 2, 3, 1).astype("f2")})[0], expected, rtol=0.05, atol=0.05)
    photos = ort.InferenceSession(model, photos=True, **of)
    assert (photos.get_inputs()[0].type, photos.get_inputs()[0].shape) == ("tensor(uint8)", ["N", 32, 32, 3])
    assert photos.run(None, {"input": np.zeros((3, 32, 32, 3), np.uint8)})[0].shape == (3, 10)
    with pytest.raises(TypeError, match='no option "precison"; nearest: "precision"'):
        ort.InferenceSession(model, precison="fp32")


def test_exceptions_of_onnx_runtimes(session, tmp_path, x):
    from lamina.onnxruntime.capi import onnxruntime_pybind11_state as state

    (tmp_path / "text.onnx").write_text("not a model")
    for kind, other, call in ((state.NoSuchFile, FileNotFoundError, lambda: ort.InferenceSession(tmp_path / "missing.onnx")),
                              (state.InvalidProtobuf, lamina.Error, lambda: ort.InferenceSession(tmp_path / "text.onnx")),
                              (state.InvalidProtobuf, lamina.Error, lambda: ort.InferenceSession(b"not a model")),
                              (state.InvalidArgument, ValueError, lambda: session.run(None, {"image": x})),
                              (state.InvalidArgument, lamina.Error, lambda: session.run(None, {"input": None})),
                              (state.InvalidArgument, lamina.Error, lambda: session.run(None, {"input": [[1], [2, 3]]}))):
        with pytest.raises(kind) as raised:
            call()
        assert isinstance(raised.value, (lamina.Error, other)) and isinstance(raised.value, other)


def test_compiles_for_the_shapes_that_come(model, x):
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"], plans=2, threads=1)
    for count in (1, 2, 1, 2, 1):
        assert session.run(None, {"input": x[:count]})[0].shape == (count, 10)
    idle = session._network._plans.idle
    assert len(idle) == 2
    two, one = idle
    kept = idle[one][0]
    session.run(None, {"input": np.concatenate([x, x])})  # of a third shape: the one not used for longest goes
    assert len(idle) == 2 and two not in idle and idle[one][0] is kept


def test_keeps_plans_of_many_shapes_while_they_have_room(model, x, monkeypatch):
    def kept():
        session = ort.InferenceSession(model, providers=["CPUExecutionProvider"], threads=1)
        for count in range(1, 7):
            session.run(None, {"input": np.concatenate([x, x, x])[:count]})
        return len(session._network._plans.idle)

    assert kept() == 6
    monkeypatch.setattr("lamina._idle.ROOM", 0)
    assert kept() == 4


def test_what_cannot_be_compiled_is_not_kept(model, x):
    idle = lamina._idle.Idle()

    def fail():
        raise lamina.Error("no")

    graph = lamina.load(model).graph
    for batch in range(1, 9):
        with pytest.raises(lamina.Error), idle.one(graph, {"batch": batch}, fail):
            pass
    assert not idle.idle


def test_takes_arrays_with_gaps_and_converts_when_told(model, session, x):
    (expected,) = session.run(None, {"input": x})
    wide = np.zeros((2, 3, 32, 64), np.float32)
    wide[..., ::2] = x
    np.testing.assert_array_equal(session.run(None, {"input": wide[..., ::2]})[0], expected)
    with pytest.raises(lamina.Error, match=r"expected float32, got float64; convert=True converts"):
        session.run(None, {"input": x.astype(np.float64)})
    converting = ort.InferenceSession(model, providers=["CPUExecutionProvider"], convert=True)
    np.testing.assert_array_equal(converting.run(None, {"input": x.astype(np.float64)})[0], expected)


def test_names_what_is_wrong(session, x, tmp_path):
    with pytest.raises(lamina.Error, match="there is no output scores; expected some of classifier.6"):
        session.run(["scores"], {"input": x})
    with pytest.raises(lamina.Error, match="expected inputs input, got image"):
        session.run(None, {"image": x})
    with pytest.raises(lamina.Error, match=r"input: expected f32 \[N, 3, 32, 32\], got f32 \[3, 32, 32\]; x\[None\] is a batch of one$"):
        session.run(None, {"input": x[0]})
    path = onnx.write(tmp_path / "named.onnx", [onnx.node("Relu", ["x"], "y")], [("x", "float32", ["batch", 4])], [("y", "float32", ["batch", 4])], {})
    named = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match=r"^x: expected f32 \[batch, 4\], got f32 \[2, 5\]$"):  # and not a plan's batch
        named.run(None, {"x": np.ones((2, 5), np.float32)})


def test_takes_the_first_provider_that_is_here(model):
    with pytest.warns(UserWarning, match="TensorrtExecutionProvider is not here"):
        session = ort.InferenceSession(model, providers=["TensorrtExecutionProvider", "CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="QNNExecutionProvider is not here"):
        session = ort.InferenceSession(model, providers=["QNNExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]  # as there


def test_options_of_a_session(model, x, session):
    options = ort.SessionOptions()
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False  # means nothing here
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    apart = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    np.testing.assert_allclose(apart.run(None, {"input": x})[0], session.run(None, {"input": x})[0], rtol=1e-4, atol=1e-5)


def test_what_would_change_a_result_is_refused(model):
    options = ort.SessionOptions()
    with pytest.raises(lamina.Error, match="weights come from the model file"):
        options.add_initializer("w", None)
    with pytest.raises(lamina.Error, match=r"ops.so: libraries with operators"):
        options.register_custom_ops_library("ops.so")
    with pytest.raises(AttributeError, match="SessionOptions has no intra_op_threads"):
        options.intra_op_threads = 1


def test_metadata_of_laminas_own_file():
    meta = ort.InferenceSession(ROOT / "weights/digits.safetensors", providers=["CPUExecutionProvider"]).get_modelmeta()
    assert "handwritten digit" in meta.description and not meta.custom_metadata_map and meta.version == 0


def test_bindings_name_what_is_wrong(session, x):
    binding = session.io_binding()
    with pytest.raises(lamina.Error, match="bind_input: there is no input image; expected one of input"):
        binding.bind_cpu_input("image", x)
    with pytest.raises(lamina.Error, match="bind_output: there is no output scores"):
        binding.bind_output("scores")
    with pytest.raises(lamina.Error, match="device_type: expected cpu or cuda, got dml"):
        binding.bind_output("classifier.6", "dml")
    with pytest.raises(lamina.Error, match="expected element_type and shape"):
        binding.bind_output("classifier.6", buffer_ptr=x.ctypes.data)
    with pytest.raises(lamina.Error, match="run: input input is not bound"):
        session.run_with_iobinding(binding)
    fixed = x.copy()
    fixed.flags.writeable = False
    value = ort.OrtValue.ortvalue_from_numpy(fixed)
    assert not value.numpy().flags.writeable
    with pytest.raises(lamina.Error, match="read-only"):
        value.update_inplace(x)
    with pytest.raises(lamina.Error, match=r"expected a type of NumPy's or a number of ONNX's, got 8"):
        ort.OrtValue.ortvalue_from_shape_and_type([2], 8)


def test_threads_share_a_session(session, x):
    (expected,) = session.run(None, {"input": x})
    wrong = []

    def work():
        for _ in range(20):
            if not np.array_equal(session.run(None, {"input": x})[0], expected):
                wrong.append(1)

    together(4, work)
    assert not wrong


def test_extents_that_a_run_decides_are_open(tmp_path):
    nodes, inputs = [onnx.node("NonZero", ["x"], "places")], [("x", "float32", [3, 4])]
    path = onnx.write(tmp_path / "found.onnx", nodes, inputs, [("places", "int64", [2, "n"])], {})
    session = ort.InferenceSession(path)
    assert session.get_outputs() == [ort.NodeArg("places", "tensor(int64)", [2, "n"])]
    assert lamina.load(path).graph.output_ports() == [("places", (2, None), "i64")]
    unsaid = onnx.write(tmp_path / "unsaid.onnx", nodes, inputs, [("places", "int64", None)], {})
    assert ort.InferenceSession(unsaid).get_outputs()[0].shape in ([2, None], [])


def test_a_provider_may_be_a_text(model):
    assert ort.InferenceSession(model, providers="CPUExecutionProvider").get_providers() == ["CPUExecutionProvider"]
    with pytest.warns(UserWarning, match="^TensorrtExecutionProvider is not here"):
        ort.InferenceSession(model, providers=["CPUExecutionProvider"]).set_providers("TensorrtExecutionProvider")


def test_entries_that_nobody_added_are_runtime_errors():
    for options, get in ((ort.SessionOptions(), "get_session_config_entry"), (ort.RunOptions(), "get_run_config_entry")):
        with pytest.raises(RuntimeError, match="there is no entry none") as raised:
            getattr(options, get)("none")
        assert isinstance(raised.value, lamina.Error)


def test_one_number_in_a_list_is_a_scalar(tmp_path):
    inputs = [("x", "float32", [3]), ("y", "float32", [])]
    model = onnx.write(tmp_path / "add.onnx", [onnx.node("Add", ["x", "y"], "z")], inputs, [("z", "float32", [3])], {})
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    for two in (2, [2], [2.0], np.float32([2]), np.float32(2), ort.OrtValue.ortvalue_from_numpy(np.float32(2))):
        np.testing.assert_array_equal(session.run(None, {"x": [1, 2, 3], "y": two})[0], [3, 4, 5])
    for given, said in (([2, None, 3], "run: x: expected numbers, got None"), ([2, "5", 3], "run: x: expected numbers, got '5'")):
        with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument, match=said):
            session.run(None, {"x": given, "y": 2})


def test_what_cannot_run_is_said_when_the_session_is_made(tmp_path):
    def written(*extents):
        inputs = [(name, "float32", [extent]) for name, extent in zip("xy", extents)]
        return onnx.write(tmp_path / "add.onnx", [onnx.node("Add", ["x", "y"], "z")], inputs, [("z", "float32", None)], {})

    with pytest.raises(ort.capi.onnxruntime_pybind11_state.Fail, match="^z: add: expected inputs whose shapes are equal or broadcast"):
        ort.InferenceSession(written(3, 4), providers=["CPUExecutionProvider"])
    session = ort.InferenceSession(written(3, 3), providers=["CPUExecutionProvider"])
    (kept,) = session._network._plans.idle.values()
    session.run(None, {"x": [1, 2, 3], "y": [1, 2, 3]})
    assert [kept] == list(session._network._plans.idle.values())  # by the plan that was compiled then
    assert not ort.InferenceSession(written("a", "b"), providers=["CPUExecutionProvider"])._network._plans.idle  # these inputs tell
    pool = onnx.write(tmp_path / "pool.onnx", [onnx.node("MaxPool", ["x"], "y", "places", kernel_shape=[2, 2])],
                      [("x", "float32", ["n", 3, "h", "w"])], [("y", "float32", None), ("places", "int64", None)], {})
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.NotImplemented, match="its second output, Indices, is not supported"):
        ort.InferenceSession(pool, providers=["CPUExecutionProvider"])
