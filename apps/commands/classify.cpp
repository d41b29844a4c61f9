#include <fmt/core.h>
#include <lamina/lamina.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/interrupt.h"
#include "complain.h"
#include "inputs.h"
#include "json_output.h"
#include "known_weights.h"
#include "model_options.h"
#include "models/shipped.h"
#include "options.h"
#include "photos/csv.h"
#include "photos/frames.h"
#include "photos/photo_batches.h"
#include "photos/photos.h"
#include "photos/stopwatch.h"
#include "progress.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

struct ClassifyOptions {
  PhotoOptions photos;
  ModelOptions model;
  int top = 5;
  std::int64_t batch = 16;
  JsonOutput json;
  bool csv = false;
  RunOptions run;
};

/// What became of one photograph: its classes, or why there are none.
struct Answer {
  fs::path photo;
  Ranking ranking;
  std::string error;
  double network_ms = 0;  // of its batch, shared out
};

/// Runs batches of photographs through a network that ends in scores, on all devices that were asked for.
class Classifier {
 public:
  Classifier(const Model& model, int top, const CompileOptions& compile, const PoolOptions& pool)
      : scores_(scores_of(model.graph)), top_(top), pool_(model.graph, compile, pool) {}

  bool gives_probabilities() const { return are_probabilities(scores_, scores_in(pool_.plan().output_shapes()[0])); }

  void begin(const PhotoBatches::Batch& batch) {
    auto promise = std::make_shared<std::promise<PoolAnswer>>();
    pending_.emplace_back(&batch, promise->get_future());
    pool_.submit({batch.input}, [promise](PoolAnswer answer) { promise->set_value(std::move(answer)); });
  }
  std::size_t pending() const { return pending_.size(); }

  /// The answers of the batch that was begun first.
  std::vector<Answer> finish() {
    const PhotoBatches::Batch* const batch = pending_.front().first;
    const PoolAnswer answer = pending_.front().second.get();
    pending_.pop_front();
    if (!answer.error.empty()) throw Error(answer.error, answer.kind);
    const Tensor& output = answer.outputs[0];
    const double each =
        std::chrono::duration<double, std::milli>(answer.ran).count() / static_cast<double>(batch->photos.size());
    say_not_finite(pool_.plan(), {&output, 1});
    const Tensor scores = class_scores(output, scores_);
    std::vector<Answer> answers;
    for (std::size_t i = 0; i < batch->photos.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i);
      answers.push_back({batch->photos[i], {}, batch->errors[i], each});
      if (!batch->errors[i].empty()) continue;
      Ranking& ranking = answers.back().ranking = ranked(scores.slice(row, row + 1), scores_, top_);
      const bool none = !ranking.classes.empty() && std::isnan(ranking.classes[0].score);  // NaN comes last
      if (none) answers.back() = {batch->photos[i], {}, "the network gave no number for any class, but NaN", each};
    }
    return answers;
  }

 private:
  Scores scores_;
  int top_;
  std::deque<std::pair<const PhotoBatches::Batch*, std::future<PoolAnswer>>> pending_;
  PlanPool pool_;
};

/// Writes answers in the forms that were asked for.
class Report {
 public:
  /// Of classes that have probabilities, or else mere scores.
  Report(const Model& model, const ClassifyOptions& options, bool probabilities)
      : model_(model),
        json_(options.json),
        csv_(options.csv),
        probabilities_(probabilities),
        what_(probabilities ? "probability" : "score") {
    if (csv_) fmt::print("photo,rank,class,name,{}\n", what_);
  }

  void add(const Answer& answer) {
    if (json_.asked()) {
      auto classes = nlohmann::ordered_json::array();
      for (const auto& [index, score] : answer.ranking.classes) {
        classes.push_back({{"class", index}, {"name", class_name(model_.labels, index)}, {what_, score}});
      }
      list_.push_back({{"photo", name_of_photo(answer.photo)}, {"classes", classes}});
      if (answer.error.empty()) {
        list_.back()["network_ms"] = answer.network_ms;
      } else {
        list_.back()["error"] = answer.error;
      }
    }
    if (json_.to_stdout()) return;
    if (!csv_ && answer.error.empty()) {
      fmt::print("{}{}\n", detail::printable(name_of_photo(answer.photo)), answer.ranking.sure ? "" : ": not sure");
    }
    for (std::size_t rank = 0; rank < answer.ranking.classes.size(); ++rank) {
      const auto [index, score] = answer.ranking.classes[rank];
      if (csv_) {
        fmt::print("{},{},{},{},{:.6g}\n", csv_field(name_of_photo(answer.photo)), rank + 1, index,
                   csv_field(class_name(model_.labels, index)), score);
      } else if (!probabilities_) {
        fmt::print("  {:.6g}  {}\n", score, class_name(model_.labels, index));
      } else {
        fmt::print("  {:6.2f} %  {}\n", 100.0 * static_cast<double>(score), class_name(model_.labels, index));
      }
    }
  }

  void finish() const { json_.write(list_); }

 private:
  const Model& model_;
  const JsonOutput& json_;
  bool csv_, probabilities_;
  const char* what_;
  nlohmann::ordered_json list_ = nlohmann::ordered_json::array();
};

/// Throws Error unless the model ends in scores and its names are as many.
void require_classes(const Model& model, const std::string& source) {
  const std::int64_t classes = naming(source, [&] { return class_count(model); });
  if (!model.labels.empty() && static_cast<std::int64_t>(model.labels.size()) != classes) {
    throw Error(fmt::format("{}: has {} labels for {} classes", source, model.labels.size(), classes));
  }
}

/// "this photograph", "2 of these photographs"
std::string which_of(std::size_t unsure, std::size_t answered) {
  if (answered == 1) return "this photograph";
  return unsure == 1 ? "one of these photographs" : fmt::format("{} of these photographs", unsure);
}

void classify(ClassifyOptions options) {
  if ((options.model.source() + options.model.arch).empty()) options.model.model = fetched_classifier();
  const auto [photos, missing, folders] = find_photos(options.photos);
  Model model = options.model.load();
  print_warnings(model);
  Stopwatch watch;
  try {
    model.preprocess = options.model.preprocess_of(model);
    require_classes(model, options.model.source());
  } catch (const Error&) {
    require_purpose(model, options.model.source(), "classify");  // that says better what is wrong
    throw;
  }
  const Preprocess preprocess = *model.preprocess;
  take_photographs(model.graph);
  const Graph::Node& input = input_node(model.graph);
  // A batch that is written into the model is what it takes.
  const std::size_t batch_size = input.shape->has_batch()
                                     ? std::min(photos.size(), static_cast<std::size_t>(options.batch))
                                     : static_cast<std::size_t>((*input.shape)[0]);
  CompileOptions compile =
      options.run.compile_options(input.shape->has_batch() ? static_cast<std::int64_t>(batch_size) : 1);
  compile.input_shapes = photo_shapes(model);
  compile.photos = preprocess;
  const PoolOptions pool = {.devices = options.run.devices(), .max_queue = std::int64_t{1} << 20};
  // On several devices, two batches of each are under way.
  const std::size_t under_way = pool.devices.size() > 1 ? 2 * pool.devices.size() : 1;
  PhotoBatches batches(photos, preprocess, options.photos.image(), batch_size, compile.device,
                       under_way);  // decodes while the plans are compiled
  Classifier classifier(model, options.top, compile, pool);
  const bool probabilities = classifier.gives_probabilities();
  Report report(model, options, probabilities);
  Progress progress(photos.size(), "photographs");
  std::size_t failed = 0, unsure = 0, done = 0;
  int judges = 1;
  double network_ms = 0;
  const auto finish = [&] {
    const std::vector<Answer> answers = classifier.finish();
    progress.clear();
    for (const Answer& answer : answers) {
      report.add(answer);
      ++done;
      network_ms += answer.network_ms;
      if (!answer.ranking.sure) {
        ++unsure;
        judges = answer.ranking.judges;
      }
      if (answer.error.empty()) continue;
      complain(answer.error);
      ++failed;
    }
    std::fflush(stdout);
    progress.advance(answers.size());
  };
  const Interruptible interruptible(photos.size());
  for (const PhotoBatches::Batch* batch = nullptr; !Interruptible::asked() && (batch = batches.next()) != nullptr;) {
    classifier.begin(*batch);
    if (classifier.pending() == under_way) finish();
  }
  while (classifier.pending() > 0) finish();
  progress.clear();
  report.finish();
  if (unsure > 0) {
    complain(doubt_of(model, options.model.source(), judges, which_of(unsure, done - failed), unsure));
  }
  const bool stopped = Interruptible::report(done, photos.size());
  const double seconds = watch.lap() / 1000;
  if (photos.size() > 1 && failed == done) {
    fmt::print(stderr, "0 of {} photographs classified\n", photos.size());
  } else if (photos.size() > 1) {
    const std::string of_all = failed > 0 || stopped ? fmt::format(" of {}", photos.size()) : "";
    fmt::print(stderr, "{}{} photographs classified, {:.1f} a second; the network took {:.2f} ms of each\n",
               done - failed, of_all, static_cast<double>(done) / seconds,
               network_ms / static_cast<double>(std::max<std::size_t>(done, 1)));
  } else if (failed == 0 && isatty(STDERR_FILENO) != 0) {
    fmt::print(stderr, "classified in {:.2f} s with compiling, of which the network took {:.2f} ms\n", seconds,
               network_ms);
  }
  if (failed > 0 || missing || stopped) throw Failed();
}

}  // namespace

void add_classify(CLI::App& app) {
  const auto [command, options] = add_command(app, "classify", "Say what is in photographs", classify);
  options->photos.add_to(*command);
  options->model.add_to(*command);
  add_labels_to(*command, options->model.labels);
  options->model.add_preprocess_to(*command);
  command->add_option("--top", options->top, "classes to name for each")->check(whole_number(1, 1 << 24));
  command->add_option("--batch", options->batch, "photographs that run together")->check(whole_number(1, 4096));
  auto* json = options->json.add_to(*command, "the answers");
  command->add_flag("--csv", options->csv, "answer in CSV")->excludes(json);
  options->run.add_to(*command, true);
  command->footer(
      "Names the most probable classes. Without --model it is the classifier that " + classifier_bringer() +
      " brings into ~/.local/share/lamina, of ImageNet's 1000 classes. A photograph that cannot be read is reported "
      "and skipped; the exit code is then 1. With --json each photograph has network_ms, the milliseconds that the "
      "network took. Ctrl-C stops after the batch under way, with the answers until then.\n"
      "Example:\n"
      "  lamina classify photo.jpg --model digits\n"
      "  lamina classify photos/ --model resnet50.onnx --preprocess imagenet --labels imagenet");
}

}  // namespace lamina::app
