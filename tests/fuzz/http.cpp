// What `lamina serve` answers, from the request's parts on: sockets and HTTP's own syntax are cpp-httplib's.

#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "fuzz/target.h"
#include "lamina/lamina.h"
#include "serve/page.h"
#include "serve/service.h"

namespace lamina::app {

namespace {
constexpr PageFile files[] = {{"/", "index.html", "text/html", "<!doctype html>"}};
}
const std::span<const PageFile> page_files = files;

}  // namespace lamina::app

namespace lamina::fuzz {
namespace {

/// Photographs of 8 x 8 in, scores of four classes out.
void write_model(const std::filesystem::path& path) {
  Model model;
  Graph& g = model.graph;
  Value x = g.input("input", {batch, 3, 8, 8});
  x = g.add("conv", Conv2d({.in = 3, .out = 4, .kernel = 3, .stride = 2}), x);
  x = g.add("relu", ReLU(), x);
  x = g.add("pool", AdaptiveAvgPool2d({1, 1}), x);
  x = g.add("flat", Flatten(), x);
  g.output(g.add("scores", Softmax(), x));
  for (const Graph::Node& node : g.nodes()) {
    if (node.module == nullptr) continue;
    for (const Module::Parameter& parameter : node.module->parameters()) {
      Tensor value(parameter.shape);
      int i = 0;
      for (float& v : value.values<float>()) v = static_cast<float>(i++ % 5 - 2) / 8;
      node.module->set_parameter(parameter.name, value);
    }
  }
  model.preprocess = torchvision_imagenet();
  model.preprocess->resize = model.preprocess->crop = 8;
  model.labels = {"one", "two", "three", "four"};
  save_model(path, model);
}

app::Service& service() {
  // Never freed: its threads end with the process.
  static app::Service& instance = [&]() -> app::Service& {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("lamina-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder);
    write_model(folder / "tiny.safetensors");
    app::ServiceOptions options;
    options.models = {folder / "tiny.safetensors"};
    options.host.run.device = "cpu";
    options.host.run.threads = 1;
    options.host.max_batch = 2;
    options.host.max_delay_ms = 0;
    options.memory = std::uint64_t{4} << 20;
    auto* service = new app::Service(options);
    service->load();
    std::filesystem::remove_all(folder);
    return *service;
  }();
  return instance;
}

/// "METHOD path?key=value&key=value", lines "name: value", an empty line, the body.
app::Call parse(Bytes input) {
  std::string_view rest(reinterpret_cast<const char*>(input.data()), input.size());
  const auto line = [&] {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view result = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return result;
  };
  const auto split = [](std::string_view text, std::string_view at) {
    const std::size_t place = std::min(text.find(at), text.size());
    return std::pair(std::string(text.substr(0, place)),
                     std::string(text.substr(std::min(place + at.size(), text.size()))));
  };
  app::Call call;
  std::string target, query;
  std::tie(call.method, target) = split(line(), " ");
  std::tie(call.path, query) = split(target, "?");
  while (!query.empty()) {
    auto [parameter, others] = split(query, "&");
    call.query.insert(split(parameter, "="));
    query = std::move(others);
  }
  for (std::string_view header = line(); !header.empty(); header = line()) call.headers.insert(split(header, ": "));
  call.body = rest;
  return call;
}

}  // namespace

void http(Bytes input) {
  const app::Call call = parse(input);
  app::Reply reply;
  try {
    reply = service().handle(call);
  } catch (const app::Refusal& refusal) {
    reply.status = refusal.status;
  } catch (const Error&) {
    reply.status = 500;
  }
  if (reply.status < 200 || reply.status > 599) broken("a reply has a status of HTTP");
  if (reply.type == "application/json" && !reply.body.empty() && reply.headers.empty() &&
      !nlohmann::json::accept(reply.body)) {
    broken("what is called JSON is JSON");
  }
  service().done(call, reply, 0);
}

}  // namespace lamina::fuzz
