"""After ONNX Runtime's page on I/O binding, and what programs make of it: arrays, addresses and OrtValues, bound both ways."""

import sys

import numpy as np
import onnxruntime as ort

session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
random = np.random.default_rng(5)
x, y = random.random((3, 4), np.float32), random.random((3, 4), np.float32)

binding = session.io_binding()
binding.bind_cpu_input("X", x)
Y = ort.OrtValue.ortvalue_from_numpy(y)
print(Y.device_name(), Y.shape(), Y.data_type(), Y.element_type(), Y.is_tensor(), Y.data_ptr() == y.ctypes.data)
binding.bind_input(name="Y", device_type=Y.device_name(), device_id=0, element_type=np.float32, shape=Y.shape(),
                   buffer_ptr=Y.data_ptr())
binding.bind_output("product")
session.run_with_iobinding(binding)
(first,) = binding.copy_outputs_to_cpu()

kept = np.zeros((3, 4), np.float32)
total = ort.OrtValue.ortvalue_from_shape_and_type([3, 4], np.float32, "cpu", 0)
binding.clear_binding_outputs()
binding.bind_ortvalue_output("sum", total)
binding.bind_output("product", "cpu", 0, 1, [3, 4], kept.ctypes.data)
Y.update_inplace(x)
binding.synchronize_inputs()
session.run_with_iobinding(binding, ort.RunOptions())
binding.synchronize_outputs()
outputs = binding.get_outputs()
assert [value.shape() for value in binding.get_outputs_as_ortvaluevector()] == [value.shape() for value in outputs]
print(len(outputs), outputs[0].data_ptr() == total.data_ptr(), outputs[1].data_ptr() == kept.ctypes.data, y[0, 0] == x[0, 0])
print(np.array_equal(kept, outputs[1].numpy()), np.asarray(outputs[0]).shape)

values = session.run_with_ort_values(["sum"], {"X": ort.OrtValue.ortvalue_from_numpy(x), "Y": Y})
lent = ort.OrtValue.from_dlpack(x)
print(type(values[0]).__name__, values[0].shape(), lent.data_ptr() == x.ctypes.data, np.from_dlpack(lent).shape)
plain = session.run([], {"X": ort.OrtValue.ortvalue_from_numpy(x), "Y": y})
print(len(plain), all(isinstance(each, np.ndarray) for each in plain))
try:
    binding.bind_output("quotient")
    session.run_with_iobinding(binding)
except Exception as error:
    print("quotient" in str(error))
np.save(sys.argv[2], np.stack([first, total.numpy(), kept, values[0].numpy(), *plain]))
