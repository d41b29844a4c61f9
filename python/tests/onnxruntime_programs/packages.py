"""How packages open a session and run it: rapidocr, rembg, nudenet and fastembed, in turn."""
import os
import sys

import numpy as np
import onnxruntime as ort

rapidocr = ort.SessionOptions()
rapidocr.log_severity_level, rapidocr.enable_cpu_mem_arena, rapidocr.inter_op_num_threads = 4, False, 1
rapidocr.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
fastembed = ort.SessionOptions()
fastembed.intra_op_num_threads = fastembed.inter_op_num_threads = 1
fastembed.add_session_config_entry("session.intra_op.allow_spinning", "0")
here = ort.get_available_providers()
assert tuple(int(part) for part in ort.__version__.split(".")[:2]) >= (1, 23) and ort.get_device() in ("CPU", "GPU")
providers = ["CUDAExecutionProvider", "CPUExecutionProvider"] if "CUDAExecutionProvider" in here else ["CPUExecutionProvider"]
sessions = [
    ort.InferenceSession(sys.argv[1], sess_options=rapidocr,
                         providers=[("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})]),
    ort.InferenceSession(str(sys.argv[1]), providers=providers, sess_options=ort.SessionOptions()),
    ort.InferenceSession(os.path.join(os.path.dirname(sys.argv[1]), os.path.basename(sys.argv[1]))),
    ort.InferenceSession(sys.argv[1], providers=[p for p in providers if p in here], sess_options=fastembed)]
numbers, results = np.random.default_rng(3), []
for session in sessions:
    names = [port.name for port in session.get_inputs()]
    characters = session.get_modelmeta().custom_metadata_map["character"].splitlines()
    for height, width in ((48, 64), (32, 96)):
        feed = dict(zip(names, [numbers.random((1, 3, height, width), np.float32)]))
        results.append(session.run([port.name for port in session.get_outputs()], feed)[0][0])
        print(characters[int(results[-1].argmax())], results[-1].shape, names, session.get_providers()[0])
np.save(sys.argv[2], results)
