"""What goes into a plan and what comes out: nothing is cast or copied unasked, and what does not fit is an error."""

import array
import warnings

import lamina
import numpy as np
import pytest
from lamina._fitted import fitted


def refused(words, call, kind=lamina.Error):
    with pytest.raises(kind) as raised:
        call()
    assert words in str(raised.value)


def test_results_are_new_and_right(plan, x):
    first = plan(x)
    assert first.dtype == np.float32 and first.shape == (2, 10) and first.flags.writeable
    kept = first.copy()
    second = plan(x + 1)
    assert np.array_equal(first, kept) and not np.array_equal(second, kept)
    assert np.array_equal(plan.run(x), kept)


def test_out_is_written_and_returned(plan, x):
    out = np.full((2, 10), np.nan, np.float32)
    assert plan(x, out=out) is out
    assert np.array_equal(out, plan(x))


def test_by_name_and_as_a_tuple(plan, x):
    expected = plan(x)
    assert np.array_equal(plan((x,)), expected)
    assert np.array_equal(plan({"input": x}), expected)
    refused("input \"input\" is missing", lambda: plan({}))
    refused("no input \"image\"; there is \"input\"", lambda: plan({"input": x, "image": x}))
    refused("no input \"0\"", lambda: plan({"input": x, 0: x}))
    refused("expected 1 inputs, got 2", lambda: plan((x, x)))


def test_fewer_images_than_the_batch(plan, x):
    assert np.array_equal(plan(x[:1]), plan(x)[:1])
    out = np.empty((1, 10), np.float32)
    assert np.array_equal(plan(x[:1], out=out), plan(x)[:1])
    refused("expected f32 [1, 10]", lambda: plan(x[:1], out=np.empty((2, 10), np.float32)))


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "u1", "?"])
def test_nothing_is_cast(plan, x, dtype):
    refused("input: expected f32 [2, 3, 32, 32] as compiled, got ", lambda: plan(x.astype(dtype)))


@pytest.mark.parametrize("shape", [(3, 3, 32, 32), (2, 3, 32), (2, 3, 32, 31), (2 * 3 * 32 * 32,), ()])
def test_wrong_shape(plan, shape):
    refused("input: expected f32 [", lambda: plan(np.zeros(shape, np.float32)))


@pytest.mark.parametrize("shape", [(0, 3, 32, 32), (2, 3, 0, 32)])
def test_zero_size(plan, shape):
    refused("input: expected f32 [", lambda: plan(np.zeros(shape, np.float32)))


def test_gaps_are_an_error(plan, x):
    refused("input: the array f32 [2, 3, 32, 32] on cpu is not contiguous", lambda: plan(x[:, ::-1]))
    refused("not contiguous", lambda: plan(np.asfortranarray(x)))
    refused("not contiguous", lambda: plan(x, out=np.zeros((2, 20), np.float32)[:, ::2]))
    refused("not contiguous", lambda: plan(np.broadcast_to(np.float32(1), x.shape)))


def test_strides_of_single_extents_do_not_count(digits, x):
    one = digits.compile(device="cpu", batch=1)
    odd = np.lib.stride_tricks.as_strided(x, (1, 3, 32, 32), (7, *x.strides[1:]))
    assert np.array_equal(one(odd), one(x[:1]))


def test_byte_order(plan, x):
    refused("byte order", lambda: plan(x.astype(x.dtype.newbyteorder())))


def test_read_only(plan, x):
    expected = plan(x)
    x.flags.writeable = False
    assert np.array_equal(plan(x), expected)
    out = np.empty((2, 10), np.float32)
    out.flags.writeable = False
    refused("classifier.6: the array is read-only", lambda: plan(x, out=out))


def test_read_only_by_dlpack(plan, x):
    class Lender:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    out = np.empty((2, 10), np.float32)
    assert np.array_equal(plan(Lender(x), out=Lender(out)).array, plan(x))
    for array in (x, out):
        array.flags.writeable = False
    try:
        x.__dlpack__(max_version=(1, 0))
    except (TypeError, BufferError):
        pytest.skip("NumPy before 2.1 lends no read-only memory")
    assert np.array_equal(plan(Lender(x)), plan(x))
    refused("classifier.6: the array is read-only", lambda: plan(x, out=Lender(out)))


def test_misaligned(plan, x):
    memory = np.zeros(x.nbytes + 1, np.uint8)
    refused("not aligned", lambda: plan(memory[1:].view(np.float32).reshape(x.shape)))


@pytest.mark.parametrize("dtype", [object, "S4", "c8", "M8[s]", [("a", "f4")]])
def test_what_is_no_number(plan, x, dtype):
    refused("input: ", lambda: plan(np.zeros(x.shape, dtype)))


@pytest.mark.parametrize("thing", [None, 3, "photo.jpg", object(), [[1.0]]])
def test_what_is_no_array(plan, thing):
    refused("expected an array", lambda: plan(thing), TypeError)


def test_what_is_not_finite_is_said_once():
    """Of each output of a plan, when it comes to the host: as numbers beyond f16's are in fp16."""
    graph = lamina.Graph()
    x = graph.input("x", ("N", 3))
    for name in ("Log", "Sqrt", "Neg"):
        graph.output(graph.add(name, name, x))
    model, given = lamina.Model(graph), np.array([[1, -1, 0]], np.float32)
    words = "^Log: 2 of its 3 numbers are NaN or infinite; Sqrt: 1 of its 3 numbers are NaN or infinite$"
    plan = model.compile(device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan(np.abs(given) + 1)
        with pytest.raises(lamina.NotFiniteWarning, match=words):
            plan(given)
        plan(given)
        with pytest.raises(lamina.NotFiniteWarning, match=words), lamina.Pool(model, "cpu") as pool:
            pool(given)
        half = {"precision": "bf16", "outputs": ["Log"]}
        with pytest.raises(lamina.NotFiniteWarning, match='^Log: 2 .* infinite in bf16; precision="fp32" may do$'):
            model(given, device="cpu", **half)
    assert issubclass(lamina.NotFiniteWarning, RuntimeWarning)


def test_what_is_not_finite_is_said_of_each_model_at_the_callers_line():
    def log():
        graph = lamina.Graph()
        graph.output(graph.add("log", "Log", graph.input("x", ("N", 3))))
        return lamina.Model(graph)

    given = np.array([[1, -1, 0]], np.float32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for call in (log().compile(device="cpu"), log(), log()):
            call(given)
            call(given)
    assert [(each.filename, each.lineno) for each in said] == [(__file__, said[0].lineno)] * 3


def test_nan_stays_nan(plan, x):
    x[0, 0, 16, 16] = np.nan
    y = plan(x)
    assert np.isnan(y[0]).all() and np.isfinite(y[1]).all()


def test_other_lenders(plan, x):
    expected = plan(x)
    plain = memoryview(array.array("f", x.ravel().tolist())).cast("B").cast("f", x.shape)
    assert np.array_equal(plan(plain), expected)

    class Lender:  # DLPack alone, of before the versions
        def __dlpack__(self, *, stream=None):
            return x.__dlpack__()

        def __dlpack_device__(self):
            return x.__dlpack_device__()

    assert np.array_equal(plan(Lender()), expected)


def test_other_devices(plan):
    class Elsewhere:
        def __buffer__(self, _):  # of Python 3.12; CuPy's arrays have one that refuses
            raise TypeError("not on the host")

        def __dlpack__(self, **_):
            raise BufferError("not from here")

        def __dlpack_device__(self):
            return (2, 0)

    refused("input: cannot be read: BufferError: not from here", lambda: plan(Elsewhere()))


@pytest.mark.parametrize("device", [(1, 2**40), None, "cpu"])
def test_what_lenders_get_wrong(plan, device):
    class Lender:
        def __dlpack__(self, **_):
            raise KeyError("boom")

        def __dlpack_device__(self):
            return device

    refused("input: expected two numbers of __dlpack_device__, got ", lambda: plan(Lender()))
    device = (1, 0)
    refused("input: cannot be read: KeyError: 'boom'", lambda: plan(Lender()))


def test_results_over_what_is_read(plan, x):
    refused("classifier.6: expected memory of its own for the result, got memory of input", lambda: plan(x, out=x.reshape(-1)[:20].reshape(2, 10)))


def test_memory_is_used_where_it_is(x):
    """A view changes nothing, so its result is what lies in the array."""
    graph = lamina.Graph()
    graph.output(graph.add("same", "flatten", graph.input("input", ("N", 3, 32, 32))))
    same = graph.compile(device="cpu", batch=2)
    out = np.empty((2, 3 * 32 * 32), np.float32)
    assert np.array_equal(same(x, out=out), x.reshape(2, -1))


def test_results_outlive_the_plan(digits, x):
    y = digits.compile(device="cpu", batch=2)(x)
    assert np.isfinite(y).all()


def test_photographs_are_bytes(digits, photos, x):
    plan = digits.compile(device="cpu", batch=1, photos=True)
    assert plan.input_dtypes == ("u8",) and plan.input_shapes == ((1, 32, 32, 3),)
    pixels = lamina.resize_and_crop(photos / "7.png", digits.preprocess)
    expected = digits.compile(device="cpu", batch=1)(lamina.preprocess(photos / "7.png", digits.preprocess))
    assert np.array_equal(plan(pixels[None]), expected)
    refused("expected u8", lambda: plan(x))


def test_errors_have_kinds(digits, tmp_path):
    for kind, python in ((lamina.OutOfMemory, MemoryError), (lamina.FileAccess, OSError), (lamina.Failed, RuntimeError),
                         (lamina.Unsupported, NotImplementedError), (lamina.Stopped, ValueError)):
        assert issubclass(kind, lamina.Error) and issubclass(kind, python) and kind.__module__ == "lamina"
    with pytest.raises(lamina.FileAccess, match="cannot read"):
        lamina.load(tmp_path)
    with pytest.raises(lamina.NoSuchFile, match="there is no folder"):
        digits.save(tmp_path / "nowhere" / "m.safetensors")
    with pytest.raises(lamina.Unsupported, match="fp16 needs a CUDA device"):
        digits.compile(device="cpu", precision="fp16")


@pytest.mark.parametrize("numbers, dtype", [
    (np.array([300, -1]), "u8"), (np.array([2**40 + 5]), "i32"), (np.array([2**64 - 1], np.uint64), "i64"), (np.array([-1], np.int8), "u64"),
    ([1.9], "i64"), ([300], "u8"), ([float("nan")], "i32")])
def test_numbers_that_a_type_lacks_are_refused(numbers, dtype):
    refused("expected whole numbers from", lambda: fitted(numbers, (), dtype))


def test_numbers_that_a_type_has_become_it():
    for numbers in (np.array([0, 255]), np.array([0, 255], np.uint16), [0, 255], [0.0, 255.0]):
        assert fitted(numbers, (), "u8").dtype == np.uint8 and list(fitted(numbers, (), "u8")) == [0, 255]
    refused("lists of the same lengths", lambda: fitted([[1], [2, 3]], (), "f32"))
