"""Runs a model of Lamina's in Triton's Python backend; tensors go in and out by DLPack, without a copy of ours."""

import json

import lamina
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:

    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        self.batch = max(config["max_batch_size"], 1)
        self.input, self.output = config["input"][0]["name"], config["output"][0]["name"]
        device = parameters.get("device", "auto")
        self.plan = lamina.load(parameters["model"]).compile(device=device, batch=self.batch)

    def execute(self, requests):
        """The requests of one batch, run together."""
        inputs = [pb_utils.get_input_tensor_by_name(request, self.input) for request in requests]
        try:
            outputs = self.run(inputs)
        except lamina.Error as error:
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))) for _ in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor.from_dlpack(self.output, y)]) for y in outputs]

    def run(self, inputs):
        if len(inputs) == 1 or not all(tensor.is_cpu() for tensor in inputs):
            return [self.plan(tensor) for tensor in inputs]
        arrays = [tensor.as_numpy() for tensor in inputs]
        ends = np.cumsum([len(array) for array in arrays])
        scores = self.plan(np.concatenate(arrays))
        return np.split(scores, ends[:-1])

    def finalize(self):
        del self.plan
