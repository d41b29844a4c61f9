"""What programs that load detectors and voices do first: a file's bytes, options by the dozen, and what the exporter noted."""

import ast
import pathlib
import sys

import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(3)
options = ort.SessionOptions()
options.log_severity_level = 3
options.log_verbosity_level = 0
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.enable_cpu_mem_arena = False
options.enable_mem_pattern = False
options.enable_mem_reuse = True
options.enable_profiling = False
options.use_deterministic_compute = True
options.logid = "described"
options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
options.add_free_dimension_override_by_name("batch", 1)
print(options.get_session_config_entry("session.intra_op.allow_spinning"))
try:
    options.intra_op_threads = 1
except AttributeError:
    print("there is no intra_op_threads")

session = ort.InferenceSession(pathlib.Path(sys.argv[1]).read_bytes(), sess_options=options,
                               providers=[("CPUExecutionProvider", {})])
meta = session.get_modelmeta()
print(meta.producer_name, meta.version, meta.domain, meta.description, meta.graph_name, meta.graph_description, sep="|")
names = ast.literal_eval(meta.custom_metadata_map["names"])
print(names[1], sorted(meta.custom_metadata_map))
print(session.get_providers(), list(session.get_provider_options()), session.get_overridable_initializers())
session.disable_fallback()
run = ort.RunOptions()
run.log_severity_level = 3
scale = np.float32(3)  # a scalar
(scores,) = session.run(["scores"], {"images": np.ones((1, 2), np.float32), "scale": np.array(scale)}, run)
print(names[int(scores.argmax())])
np.save(sys.argv[2], scores)
