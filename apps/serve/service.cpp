#include "serve/service.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>

#include "complain.h"
#include "inputs.h"
#include "lamina/base/names.h"
#include "lamina/cuda/runtime/device.h"
#include "serve/inference.h"
#include "serve/page.h"
#include "words.h"

namespace lamina::app {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> segments(const std::string& path) {
  std::vector<std::string> result;
  for (const std::string_view part : parts_of(path, '/')) {
    if (!part.empty()) result.emplace_back(part);
  }
  return result;
}

void require(const Call& call, const std::string& method) {
  if (call.method != method) throw Refusal{405, fmt::format("{}: expected {}, got {}", call.path, method, call.method)};
}

/// A misspelt one would change nothing, and nobody would know.
void require_known(const Call& call, const std::vector<std::string>& parameters) {
  for (const auto& [name, value] : call.query) {
    if (std::ranges::count(parameters, name) > 0) continue;
    refuse(fmt::format("{}: there is no parameter {}{}; it takes {}", call.path, detail::quote(name),
                       detail::nearest_text(name, parameters), listed(parameters)));
  }
}

/// Of a model that takes pictures, why it is not among those that the page offers.
void say_what_page_lacks(const Hosted& hosted) {
  const Model& model = hosted.model();
  if (model.preprocess || !hosted.answers().empty() || model.graph.inputs().size() != 1 ||
      !picture_input(*input_node(model.graph).shape))
    return;
  complain(
      fmt::format("{}: the page cannot offer it, as the model does not say how a photograph becomes its input: "
                  "--preprocess does, imagenet for most models",
                  hosted.name()));
}

}  // namespace

Service::Service(const ServiceOptions& options) : options_(options), memory_(options.memory) {}

void Service::load() {
  std::vector<std::unique_ptr<Hosted>> loaded;
  for (const std::string& file : options_.models) {
    loaded.push_back(std::make_unique<Hosted>(file, options_.host));
    const std::string& name = loaded.back()->name();
    say_what_page_lacks(*loaded.back());
    if (std::ranges::count(loaded, name, [](const auto& hosted) { return hosted->name(); }) > 1) {
      throw Error(fmt::format("{}: two models are called {}; a model is called as its file without extension", file,
                              detail::quote(name)));
    }
  }
  hosted_ = std::move(loaded);
  ready_ = true;
}

void Service::close() {
  if (!ready_) return;
  for (const auto& hosted : hosted_) hosted->pool().close();
}

void Service::require_ready() const {
  if (!ready_) throw Refusal{503, "the models are being loaded"};
}

Hosted& Service::hosted(const std::string& name) {
  require_ready();
  for (const auto& hosted : hosted_) {
    if (hosted->name() == name) return *hosted;
  }
  std::vector<std::string> names;
  for (const auto& hosted : hosted_) names.push_back(hosted->name());
  throw Refusal{404, fmt::format("there is no model \"{}\" among those served: {}", name, listed(names))};
}

const std::vector<Service::Route>& Service::routes() {
  static const std::vector<Route> all = {{"classify", "POST", &Service::classify, {"model", "top"}},
#ifdef LAMINA_DETECT
                                         {"detect", "POST", &Service::detect, {"model", "confidence", "iou"}},
#endif
                                         {"segment", "POST", &Service::segment, {"model"}},
                                         {"features", "POST", &Service::features, {"model", "layer"}},
                                         {"picture", "POST", &Service::picture},
                                         {"input", "POST", &Service::input, {"model"}},
                                         {"filters", "GET", &Service::filters, {"model", "layer", "filter"}},
                                         {"models", "GET", &Service::models},
                                         {"profile", "GET", &Service::profile, {"model"}},
                                         {"metrics", "GET", &Service::metrics}};
  return all;
}

Reply Service::handle(const Call& call) {
  const std::vector<std::string> path = segments(call.path);
  if (!path.empty() && path[0] == "v2") {
    require_known(call, {});
    return v2(call, path);
  }
  const auto route = std::ranges::find(routes(), path.size() == 1 ? path[0] : "", &Route::path);
  if (route == routes().end()) return page(call);
  require(call, route->method);
  require_known(call, route->parameters);
  return (this->*route->answer)(call);
}

/// The Open Inference Protocol's paths.
Reply Service::v2(const Call& call, const std::vector<std::string>& path) {
  const auto is = [&](std::initializer_list<const char*> words) {
    return std::equal(path.begin() + 1, path.end(), words.begin(), words.end());
  };
  if (is({})) {
    const Json extensions = {"binary_tensor_data", "model_configuration"};
    return {.body = Json{{"name", "lamina"}, {"version", version()}, {"extensions", extensions}}.dump()};
  }
  if (is({"health", "live"})) return {};
  if (is({"health", "ready"})) return {.status = ready_ ? 200 : 503, .body = {}};
  if (path.size() < 3 || path[1] != "models") throw Refusal{404, fmt::format("there is no {}", call.path)};
  Hosted& model = hosted(path[2]);
  std::vector<std::string> rest(path.begin() + 3, path.end());
  if (rest.size() >= 2 && rest[0] == "versions") {
    if (rest[1] != "1") throw Refusal{404, fmt::format("{} has version 1 alone, not {}", model.name(), rest[1])};
    rest.erase(rest.begin(), rest.begin() + 2);
  }
  const std::string what = rest.empty() ? "" : rest[0];
  if (rest.size() > 1) throw Refusal{404, fmt::format("there is no {}", call.path)};
  if (what == "infer") {
    require(call, "POST");
    return infer(call, model);
  }
  require(call, "GET");
  if (what.empty()) return {.body = model_metadata(model)};
  if (what == "config") return {.body = model_config(model)};
  if (what == "ready") return {};
  throw Refusal{404, fmt::format("there is no {}", call.path)};
}

Reply Service::infer(const Call& call, Hosted& model) {
  InferenceRequest request = parse_inference(call, model);
  if (!request.constants.empty()) {
    return inference_reply(model, request, model.run_with(request.constants, request.inputs));
  }
  const std::shared_ptr<PlanPool> pool = model.pool_for(request.inputs);
  reserve_results(call, request, pool->plan());
  const PoolAnswer answer = run(model, *pool, std::move(request.inputs));
  return inference_reply(model, request, answer.outputs);
}

PoolAnswer Service::run(Hosted& model, PlanPool& pool, std::vector<Tensor> inputs) {
  std::promise<PoolAnswer> promise;
  try {
    pool.submit(std::move(inputs), [&](PoolAnswer answer) { promise.set_value(std::move(answer)); });
  } catch (const PoolFull& full) {
    throw Refusal{503, full.what()};
  }
  PoolAnswer answer = promise.get_future().get();
  say_not_finite(pool.plan(), answer.outputs);
  const std::string labels = fmt::format("model=\"{}\"", model.name());
  if (!answer.error.empty()) {
    metrics_.count("lamina_failures_total", labels);
    throw Refusal{500, answer.error};
  }
  metrics_.observe("lamina_batch_images", labels, static_cast<double>(answer.batch));
  metrics_.observe("lamina_queue_seconds", labels, std::chrono::duration<double>(answer.waited).count());
  metrics_.observe("lamina_run_seconds", labels, std::chrono::duration<double>(answer.ran).count());
  return answer;
}

void Service::done(const Call& call, const Reply& reply, double seconds) {
  // Few paths that are there, one for all others: whoever asks for many must not fill the memory.
  const std::vector<std::string> path = segments(call.path);
  std::string kind = call.path == "/" ? "page" : "other";
  if (!path.empty() && std::ranges::count(routes(), path[0], &Route::path) > 0) kind = path[0];
  if (!path.empty() && path[0] == "v2") kind = path.back() == "infer" ? "infer" : "v2";
  metrics_.count("lamina_requests_total", fmt::format("path=\"{}\",status=\"{}\"", kind, reply.status));
  metrics_.observe("lamina_request_seconds", fmt::format("path=\"{}\"", kind), seconds);
}

Reply Service::profile(const Call& call) { return {.body = hosted(call.parameter("model")).profile()}; }

Reply Service::metrics(const Call& /*call*/) {
  std::string text = metrics_.text();
  if (ready_) {
    text += "# TYPE lamina_queue_images gauge\n";
    for (const auto& model : hosted_) {
      text += fmt::format("lamina_queue_images{{model=\"{}\"}} {}\n", model->name(), model->pool().waiting());
    }
    text += "# TYPE lamina_device_images_total counter\n";
    std::map<std::string, std::int64_t> images;
    std::map<std::string, Device> devices;
    std::string lost;
    for (const auto& model : hosted_) {
      for (const PoolWorker& worker : model->pool().workers()) {
        images[fmt::format("model=\"{}\",device=\"{}\"", model->name(), to_string(worker.device))] += worker.images;
        devices[to_string(worker.device)] = worker.device;
        if (!worker.lost.empty()) lost += fmt::format("# lost: {}\n", detail::printable(worker.lost));
      }
    }
    for (const auto& [labels, count] : images)
      text += fmt::format("lamina_device_images_total{{{}}} {}\n", labels, count);
    text += "# TYPE lamina_device_free_bytes gauge\n";
    for (const auto& [name, device] : devices) {
      if (device.is_cpu()) continue;
      try {
        text += fmt::format("lamina_device_free_bytes{{device=\"{}\"}} {}\n", name, cuda::free_memory(device.index));
      } catch (const Error&) {  // a device that is lost
      }
    }
    text += lost;
  }
  return {.body = std::move(text), .type = "text/plain; version=0.0.4"};
}

/// The page's files by name: no path of a request reaches the file system.
Reply Service::page(const Call& call) const {
  const auto file = std::ranges::find_if(page_files, [&](const PageFile& each) { return call.path == each.path; });
  if (file == page_files.end()) {
#ifndef LAMINA_DETECT
    if (call.path == "/detect") throw Refusal{404, "this build has no detect: configure with -DLAMINA_DETECT=ON"};
#endif
    std::vector<std::string> paths;
    for (const Route& route : routes()) paths.push_back(std::string("/") + route.path);
    throw Refusal{
        404, fmt::format("there is no {}{}", detail::printable(call.path), detail::nearest_text(call.path, paths))};
  }
  require(call, "GET");
  Reply reply = {.body = std::string(file->content), .type = file->type};
  reply.headers["Content-Security-Policy"] = "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'";
  if (options_.page.empty()) return reply;
  std::ifstream source(options_.page + '/' + file->name, std::ios::binary);
  if (!source) throw Refusal{404, fmt::format("{}/{} cannot be read", options_.page, file->name)};
  reply.body.assign(std::istreambuf_iterator<char>(source), {});
  return reply;
}

}  // namespace lamina::app
