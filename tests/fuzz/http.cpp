// What `lamina serve` reads from a connection and answers, from the socket on.

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "fuzz/target.h"
#include "lamina/lamina.h"
#include "serve/body.h"
#include "serve/page.h"
#include "serve/request.h"
#include "serve/service.h"

namespace lamina::app {

namespace {
constexpr PageFile files[] = {{"/", "index.html", "text/html", "<!doctype html>"}};
}
const std::span<const PageFile> page_files = files;

}  // namespace lamina::app

namespace lamina::fuzz {
namespace {

constexpr std::size_t max_body = 1 << 16;

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

/// What is answered: whatever the service does, a reply of HTTP.
void answer(app::Call& call) {
  app::Reply reply;
  try {
    app::decode_body(call, max_body);
    call.body = app::file_of_form(call.header("content-type"), call.body);
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

/// Reads the bytes of a connection that come `piece` at a time, and gives `whole` each request. Returns them in words.
template <class F>
std::string requests_of(Bytes input, std::size_t piece, const F& whole) {
  static const app::ServerOptions options = {.max_body = max_body};
  static app::MemoryBudget memory(std::uint64_t{256} << 20);
  app::RequestReader reader(options, memory);
  std::string words;
  for (;;) {
    if (reader.state() == app::RequestReader::State::refused) {
      if (reader.verdict().status < 400 || reader.verdict().status > 599) broken("what is refused is an error of HTTP");
      return words;  // or waits for more: Beast 1.74 seeks the end of a quoted extension of a chunk beyond its line
    }
    if (reader.state() == app::RequestReader::State::whole) {
      app::Call& call = reader.call();
      if (call.body.size() > max_body) broken("a body has its limit");
      if (call.method != "POST" && !call.body.empty()) broken("GET and HEAD have no body");
      words += call.method + ' ' + call.path + ' ' + std::string(call.body) + '\n';
      for (const auto& [name, value] : call.headers) words += name + ':' + value + '\n';
      whole(call);
      reader.next();
      continue;
    }
    if (input.empty()) return words;
    const std::span<char> room = reader.room();
    const std::size_t bytes = std::min({room.size(), piece, input.size()});
    if (bytes == 0) broken("there is room for more");
    std::memcpy(room.data(), input.data(), bytes);
    input = input.subspan(bytes);
    reader.take(bytes);
  }
}

}  // namespace

void http(Bytes input) {
  const std::string at_once = requests_of(input, input.size(), answer);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}}) {
    if (requests_of(input, piece, [](const app::Call&) {}) != at_once) broken("how bytes come says nothing");
  }
}

}  // namespace lamina::fuzz
