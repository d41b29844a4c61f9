#include <fmt/core.h>
#include <lamina/lamina.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "commands/commands.h"
#include "complain.h"
#include "inputs.h"
#include "lamina/base/names.h"
#include "model_options.h"
#include "models/shipped.h"
#include "options.h"
#include "photos/photos.h"
#include "serve/server.h"
#include "serve/service.h"

namespace lamina::app {
namespace {

struct ServeOptions {
  ServiceOptions service;
  ServerOptions server;
  std::int64_t body_megabytes = 64;
  PhotoOptions photos;
};

/// Ends the server at SIGTERM and SIGINT. These are held back in all threads made from now on, and waited for in one.
void stop_at_signals(HttpServer& server) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, &server] {
    int signal = 0;
    (void)sigwait(&signals, &signal);
    server.stop();
  }).detach();
}

/// Bodies and tensors of some hundred kilobytes come and go with every request: their pages stay, where glibc would
/// give them back and fault them in anew, a tenth of what a request of 600 kB takes. What is larger goes back at once.
void keep_pages() {
#ifdef __GLIBC__
  (void)::mallopt(M_MMAP_THRESHOLD, 4 << 20);
  (void)::mallopt(M_TRIM_THRESHOLD, 64 << 20);
  (void)::mallopt(M_ARENA_MAX, 8);
#endif
}

void serve(ServeOptions options) {
  keep_pages();
  ServiceOptions& settings = options.service;
  if (settings.models.empty()) {
    settings.models = {default_model(), shipped_file("digits.safetensors")};
    if (const std::string file = fetched_classifier(); !file.empty())
      settings.models.insert(settings.models.begin() + 1, file);
  }
  const std::uint64_t memory = options.photos.image().memory;
  options.server.memory = memory / 4;  // apart, so that requests which wait for a picture never wait for each other
  settings.memory = memory - options.server.memory;
  options.server.max_body = static_cast<std::size_t>(options.body_megabytes) << 20;
  settings.host.alone = settings.models.size() == 1;
  settings.host.kept = memory / 4 / settings.models.size();
  std::vector<std::string> names;
  for (const std::string& file : settings.models) names.push_back(std::filesystem::path(file).stem().string());
  settings.host.said.require(names);
  Service service(settings);
  HttpServer server(
      options.server, [&](const Call& call) { return service.handle(call); },
      [&](const Call& call, const Reply& reply, double seconds) { service.done(call, reply, seconds); });
  stop_at_signals(server);
  const int port = server.bind();
  int code = exit_success;
  std::thread loading([&] {
    try {
      service.load();
      fmt::print("lamina: http://{}:{}/ serves", options.server.host, port);
      for (const std::string& file : settings.models) {
        fmt::print(" {}", detail::printable(std::filesystem::path(file).stem().string()));
      }
      fmt::print("\n");
      std::fflush(stdout);
    } catch (const std::exception& error) {
      complain(error.what());
      code = is_misuse(error.what()) ? exit_misuse : exit_failed;
      server.stop();
    }
  });
  server.serve();
  loading.join();
  service.close();
  std::fflush(stdout);
  // Connections that idle hold threads, which must not see the service go.
  std::_Exit(code);
}

}  // namespace

void add_serve(CLI::App& app) {
  const auto [command, options] =
      add_command(app, "serve", "Answer over HTTP: a page to see with, and an inference protocol", serve);
  HostOptions& host = options->service.host;
  command
      ->add_option(
          "--model", options->service.models,
          "a model file, called as the file without extension; once for each (default: the first layer and the digits "
          "that ship, and what " +
              classifier_bringer() + " brought)")
      ->transform(shipped(model_file))
      ->allow_extra_args(false);
  host.said.add_to(*command);
  command->add_option("--host", options->server.host, "the address to listen on; 0.0.0.0: all")->type_name("ADDRESS");
  command->add_option("--port", options->server.port, "0: one that is free; stdout says which")
      ->check(whole_number(0, 65535));
  command->add_option("--max-batch", host.max_batch, "images that run together at most")->check(whole_number(1, 4096));
  command->add_option("--max-delay", host.max_delay_ms, "milliseconds that a request may wait for others")
      ->transform(CLI::Validator(
          [](std::string& text) {
            if (text.ends_with("ms")) text.resize(text.size() - 2);
            return std::string();
          },
          ""))
      ->check(real_number(0, 10000));
  command->add_option("--max-queue", host.max_queue, "images of a model that may wait; beyond it the answer is 503")
      ->check(whole_number(1, 1 << 20));
  command->add_option("--max-body", options->body_megabytes, "MiB of a request's body; beyond it the answer is 413")
      ->check(whole_number(1, 4095));
  command
      ->add_option("--memory", options->photos.memory,
                   "what requests and photographs under way may take, such as 500M or 2G; beyond it the answer is 503 "
                   "(default: half of the machine's)")
      ->transform(memory_size())
      ->default_str("");
  command
      ->add_option(
          "--allow-host", options->server.allowed_hosts,
          "a name by which the server may be asked for, beside localhost and --host; pages of that site may ask")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command->add_option("--path", options->service.page, "a folder to read the page from, while working on it")
      ->type_name("FOLDER")
      ->check(accepted_by(
          [](std::string_view path) {
            if (!std::filesystem::is_directory(path)) throw Error("there is no folder " + detail::quote(path));
          },
          ""));
  host.run.batch_invariant = true;  // who else asks is chance
  host.run.add_to(*command, true);
  command->footer(
      "--preprocess, its parts and --labels are of the models that do not say it themselves; MODEL=VALUE is of one, "
      "in "
      "place of what its file says: --size detector=320 --labels digits=names.txt.\n"
      "Drop photographs on the page, http://127.0.0.1:8080/. Programs POST photographs to /classify and /features, "
      "or "
      "tensors to /v2/models/MODEL/infer (Open Inference Protocol, version 2). docs/serve.md has all paths.\n"
      "SIGTERM: what was accepted is answered, then the exit code is 0.\n"
      "Example:\n"
      "  lamina serve\n"
      "  curl --data-binary @weights/digits/7.png 'http://127.0.0.1:8080/classify?model=digits'");
}

}  // namespace lamina::app
