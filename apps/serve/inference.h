#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "inputs.h"
#include "serve/hosted.h"
#include "serve/http.h"

/// The Open Inference Protocol, version 2: what is said of a model, and inference with JSON and binary tensors.
namespace lamina::app {

/// What `/v2/models/M` says: names, types and shapes, the batch as -1.
std::string model_metadata(const Hosted& hosted);
/// The same in the words of Triton's configuration, which its clients ask for.
std::string model_config(const Hosted& hosted);

/// What a request for inference asks for.
struct InferenceRequest {
  struct Output {
    std::size_t index = 0;
    bool binary = false;
  };
  std::string id;
  std::vector<Tensor> inputs;   ///< in the order of the model's
  Constants constants;          ///< optional inputs that it gives
  std::vector<Output> outputs;  ///< in the order of the request
};

/// Throws Refusal (400) naming what does not fit.
InferenceRequest parse_inference(const Call& call, Hosted& hosted);

/// Before they are computed. Throws Refusal (503).
void reserve_results(const Call& call, const InferenceRequest& request, const Plan& plan);

Reply inference_reply(const Hosted& hosted, const InferenceRequest& request, const std::vector<Tensor>& outputs);

/// A tensor of the numbers in `data`, lists in lists or one list, in row-major order. Throws Refusal (400), naming the
/// tensor, if they are not as many, no numbers, or out of the type's range.
Tensor tensor_of(const std::string& name, const nlohmann::ordered_json& data, const Shape& shape, DType dtype);

/// Appends the values as one list. Floats are the shortest texts that read back as the same bits; NaN and infinities,
/// which JSON has not, are null.
void append_values(std::string& out, const Tensor& tensor);

}  // namespace lamina::app
