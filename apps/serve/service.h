#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "photos/memory_budget.h"
#include "serve/hosted.h"
#include "serve/http.h"
#include "serve/metrics.h"

namespace lamina::app {

struct ServiceOptions {
  std::vector<std::string> models;  ///< files
  HostOptions host;
  std::string page;          ///< a folder that the page is read from; empty: the one that is built in
  std::uint64_t memory = 0;  ///< bytes that decoding photographs may take
};

/// What the server answers: routes, and what stands behind them. Knows nothing of sockets.
class Service {
 public:
  explicit Service(const ServiceOptions& options);

  /// Loads and compiles the models, which are refused with 503 until then. Throws Error.
  void load();

  /// Throws Refusal and Error.
  Reply handle(const Call& call);
  /// Counts it.
  void done(const Call& call, const Reply& reply, double seconds);

  /// Answers what was accepted.
  void close();

 private:
  struct Photo;
  /// A path, and what may be asked of it.
  struct Route {
    std::string path, method;
    Reply (Service::*answer)(const Call&);
    std::vector<std::string> parameters = {};
  };
  static const std::vector<Route>& routes();

  void require_ready() const;
  Hosted& hosted(const std::string& name);
  /// The model that is asked for; of none, the first that answers so.
  Hosted& answering(const Call& call, const char* how);
  Reply v2(const Call& call, const std::vector<std::string>& path);
  Reply infer(const Call& call, Hosted& hosted);
  Reply classify(const Call& call);
  Reply detect(const Call& call);
  Reply segment(const Call& call);
  Reply features(const Call& call);
  Reply picture(const Call& call);
  Reply input(const Call& call);
  Reply filters(const Call& call);
  Reply models(const Call& call);
  Reply profile(const Call& call);
  Reply metrics(const Call& call);
  Reply page(const Call& call) const;

  template <class Use>
  auto with_photo(const Call& call, const Use& use);
  Photo photo_of(const Call& call, const Hosted& hosted);
  PoolAnswer run(Hosted& hosted, PlanPool& pool, std::vector<Tensor> inputs);

  ServiceOptions options_;
  MemoryBudget memory_;
  std::atomic<bool> ready_ = false;
  std::vector<std::unique_ptr<Hosted>> hosted_;
  Metrics metrics_;
};

}  // namespace lamina::app
