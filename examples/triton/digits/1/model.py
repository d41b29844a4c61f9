"""Runs a model of Lamina's in Triton's Python backend. Tensors of a GPU go in and out by DLPack where they are."""

import json

import lamina
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:

    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        self.input, self.output = config["input"][0]["name"], config["output"][0]["name"]
        device = f"cuda:{args['model_instance_device_id']}" if args["model_instance_kind"] == "GPU" else "cpu"
        batch = max(config["max_batch_size"], 1)
        self.plan = lamina.load(parameters["model"]).compile(device=device, batch=batch)

    def execute(self, requests):
        """The requests of one batch, run together where they are on the host."""
        inputs = [pb_utils.get_input_tensor_by_name(request, self.input) for request in requests]
        try:
            outputs = self.run(inputs)
        except lamina.Error as error:
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))) for _ in requests]
        return [pb_utils.InferenceResponse([tensor]) for tensor in outputs]

    def run(self, inputs):
        if not all(tensor.is_cpu() for tensor in inputs):
            return [pb_utils.Tensor.from_dlpack(self.output, self.plan(tensor)) for tensor in inputs]
        arrays = [tensor.as_numpy() for tensor in inputs]
        ends = np.cumsum([len(array) for array in arrays])
        # A copy even of a single one: Triton's host memory is not aligned to the elements.
        scores = self.plan(np.concatenate(arrays))
        return [pb_utils.Tensor(self.output, part) for part in np.split(scores, ends[:-1])]

    def finalize(self):
        del self.plan
