// What training scripts save: where the weights are in it, and what stands beside them.

#include "files/torch/pickle_writer.h"
#include "support/file_test.h"

namespace lamina::test::checkpoint_test {
namespace {

using namespace pickle;
using Names = std::vector<std::string>;

/// A dict of `count` tensors called a0, a1, ... with `prefix` in front.
std::string state_dict(int count, const std::string& prefix = "a") {
  std::vector<std::pair<std::string, std::string>> items;
  for (int i = 0; i < count; ++i) items.emplace_back(prefix + std::to_string(i), good_tensor);
  return dict(items);
}

Weights open(const std::string& object, const OpenOptions& options = {}) {
  const TemporaryDirectory dir;
  write_file(dir / "x.pth", pth(object, {{"0", floats(6)}}));
  return Weights::open(dir / "x.pth", options);
}

/// The one note of opening it; empty where there is none.
std::string note(const Weights& weights) {
  EXPECT_LE(weights.notes().size(), 1u);
  return weights.notes().empty() ? "" : weights.notes()[0];
}

void expect_words(const std::string& text, const Names& words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
}

/// What Python makes by calling `function`; an object of a class, with its attributes.
std::string called(const std::string& module, const std::string& name, const std::vector<std::string>& arguments) {
  return global(module, name) + tuple(arguments) + 'R';
}
std::string object_of(const std::string& module, const std::string& name, const std::string& attributes) {
  return global(module, name) + ")\x81" + attributes + 'b';
}

TEST(Checkpoint, SaysWhichWeightsItRead) {
  EXPECT_EQ(note(open(state_dict(2))), "");
  expect_words(note(open(dict({{"epoch", "K\1"}, {"model", state_dict(2)}}))), {"x.pth", "under \"model\""});
  expect_words(note(open(dict({{"model", dict({{"state_dict", state_dict(2)}})}}))), {"under \"model.state_dict\""});
  const Weights two = open(dict({{"ema", state_dict(3, "e")}, {"model", state_dict(2)}}));
  EXPECT_EQ(two.names(), (Names{"a0", "a1"}));
  expect_words(note(two), {"under \"model\"", "also \"ema\" (3 tensors)", "choose with OpenOptions::key"});
  expect_words(note(open(state_dict(2, "_orig_mod.module.a"))), {"after \"_orig_mod.module.\""});
}

TEST(Checkpoint, TakesTheOneDictOfTensorsThereIs) {
  EXPECT_EQ(open(dict({{"epoch", "K\1"}, {"generator", state_dict(2)}})).names(), (Names{"a0", "a1"}));
  EXPECT_EQ(open(dict({{"ema", dict({{"decay", "K\1"}, {"module", state_dict(1)}})}})).names(), Names{"a0"});
  // The state of an optimizer is under numbers.
  const std::string optimizer = dict({{"state", std::string("}(K\0", 4) + state_dict(1, "m") + "u"}});
  EXPECT_EQ(open(dict({{"optimizer", optimizer}, {"weights", state_dict(2)}})).size(), 2u);
  // Saved under two keys, the same dict is one.
  const std::string twice = "}(" + text("old") + state_dict(2) + "q\1" + text("new") + "h\1u";
  EXPECT_EQ(open(twice).size(), 2u);
}

TEST(Checkpoint, AStateOfARandomGeneratorIsNotTheWeights) {
  const std::string both = dict({{"rng_state", good_tensor}, {"model", state_dict(2)}});
  EXPECT_EQ(open(both).names(), (Names{"a0", "a1"}));
}

TEST(Checkpoint, SeveralUnknownOnesAreAnErrorThatNamesThem) {
  const std::string gan = dict({{"net_g", state_dict(2)}, {"net_d", state_dict(1, "d")}});
  expect_error([&] { open(gan); },
               {"x.pth", "\"net_g\" (2 tensors), \"net_d\" (1 tensor)", "choose with OpenOptions::key"});
  EXPECT_EQ(open(gan, {.key = "net_d"}).names(), Names{"d0"});
  EXPECT_EQ(note(open(gan, {.key = "net_d"})), "");
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 30; ++i) many.emplace_back("part" + std::to_string(i), state_dict(1));
  expect_error([&] { open(dict(many)); }, {"\"part7\" (1 tensor) and 22 more: choose"});
}

TEST(Checkpoint, AKeyChooses) {
  const std::string object = dict({{"model", state_dict(2)},
                                   {"ema", dict({{"state_dict", state_dict(1, "e")}, {"decay", "K\1"}})},
                                   {"a.b", state_dict(1, "dotted")},
                                   {"epoch", "K\1"}});
  EXPECT_EQ(open(object, {.key = "ema"}).names(), Names{"e0"});
  EXPECT_EQ(open(object, {.key = "ema.state_dict"}).names(), Names{"e0"});
  EXPECT_EQ(open(object, {.key = "a.b"}).names(), Names{"dotted0"});
  for (const char* key : {"emma", "epoch", "ema.decay", "model.a0", "model.", ".model", "a"}) {
    expect_error([&] { open(object, {.key = key}); },
                 {"x.pth", std::string("no weights under the key \"") + key + '"', "\"model\" (2 tensors)"}, key);
  }
  expect_error([&] { open(state_dict(2), {.key = "model"}); }, {"no weights under", "those of the file itself"});
  expect_error([&] { open(dict({{"a", dict({{"b", "K\1"}})}}), {.key = "a"}); }, {"without tensors", "\"b\""});
}

TEST(Checkpoint, APrefixIsStripped) {
  const std::string object = dict({{"backbone.a", good_tensor}, {"head.b", good_tensor}});
  EXPECT_EQ(open(object, {.strip_prefix = "backbone."}).names(), (Names{"a", "head.b"}));
  expect_error([&] { open(object, {.strip_prefix = "neck."}); }, {"no name begins with \"neck.\"", "\"backbone.a\""});
  expect_error([&] { open(object, {.strip_prefix = "backbone"}); }, {"a prefix ends with one, \"backbone.\""});
  expect_error([&] { open(object, {.strip_prefix = "backbone.a"}); }, {"nothing is left of \"backbone.a\""});
}

TEST(Checkpoint, KeysAreForCheckpointsAndPrefixesForAll) {
  const TemporaryDirectory dir;
  Weights weights;
  weights.set("net.a", Tensor::zeros({1}));
  weights.save(dir / "w");
  expect_error([&] { Weights::open(dir / "w", {.key = "ema"}); }, {"expected a PyTorch checkpoint", "\"ema\""});
  EXPECT_EQ(Weights::open(dir / "w", {.strip_prefix = "net."}).names(), Names{"a"});
}

// Each as PyTorch's users have it beside their weights.
TEST(Checkpoint, ObjectsBesideTheWeightsArePassedOver) {
  const std::string bytes = called("_codecs", "encode", {text("\xc3\xbf"), text("latin1")});
  const std::string numpy_type =
      called("numpy", "dtype", {text("f8"), "\x89", "\x88"}) + tuple({"K\3", text("<"), "N", "N"}) + 'b';
  const std::vector<std::pair<std::string, std::string>> beside = {
      {"namespace", object_of("argparse", "Namespace", dict({{"lr", "K\1"}}))},
      {"numpy.float64", called("numpy.core.multiarray", "scalar", {numpy_type, bytes})},
      {"path", called("pathlib", "PosixPath", {text("/"), text("data")})},
      {"defaultdict", called("collections", "defaultdict", {global("builtins", "list")}) + "(" + text("k") + "K\1u"},
      {"counter", called("collections", "Counter", {"}"})},
      {"deque", called("collections", "deque", {"]"}) + "(K\1e"},
      {"set", called("builtins", "set", {"](K\1e"})},
      {"protocol 4's set", "\x8f(K\1\x90"},
      {"frozenset", "(K\1\x91"},
      {"bytes", std::string("C\1x")},
      {"long bytes", "B" + raw(std::uint32_t{1}) + "x"},
      {"protocol 5's bytearray", "\x96" + raw(std::uint64_t{1}) + "x"},
      {"config", object_of("omegaconf.dictconfig", "DictConfig", dict({{"_content", "}"}}))},
      {"named arguments", global("mine", "Options") + ")}\x92}b"},
      {"enum", called("mine.modes", "Mode", {"K\1"})},
      {"device", called("torch", "device", {text("cuda")})},
      {"function", global("torch.nn.functional", "relu")},
      {"old object", called("copy_reg", "_reconstructor", {global("m", "C"), global("__builtin__", "object"), "N"})},
      {"module", object_of("torch.nn.modules.linear", "Linear", dict({{"_parameters", dict({{"w", good_tensor}})}}))},
  };
  for (const auto& [name, value] : beside) {
    EXPECT_EQ(open(dict({{"model", state_dict(1)}, {"x", value}})).names(), Names{"a0"}) << name;
    EXPECT_EQ(open(dict({{"x", value}, {"a", good_tensor}})).names(), Names{"a"}) << name;
    expect_error([&object = value] { open(object); }, {"expected a state dict"}, name);
  }
}

// Wherever it stands, and also where the weights are good: who gives such a file to Python is attacked.
TEST(Checkpoint, WhatRunsProgramsIsRefusedBesideGoodWeightsToo) {
  const std::pair<const char*, const char*> attacks[] = {{"os", "system"},
                                                         {"posix", "system"},
                                                         {"nt", "system"},
                                                         {"subprocess", "Popen"},
                                                         {"builtins", "eval"},
                                                         {"builtins", "exec"},
                                                         {"builtins", "getattr"},
                                                         {"__builtin__", "apply"},
                                                         {"os.path", "join"},
                                                         {"importlib", "import_module"},
                                                         {"runpy", "_run_code"},
                                                         {"sys", "exit"},
                                                         {"shutil", "rmtree"},
                                                         {"socket", "socket"},
                                                         {"ctypes", "CDLL"},
                                                         {"pickle", "loads"},
                                                         {"asyncio.subprocess", "create_subprocess_shell"},
                                                         {"webbrowser", "open"},
                                                         {"pip", "main"}};
  for (const auto& [module, name] : attacks) {
    const std::string full = std::string(module) + '.' + name;
    for (const std::string& code : {called(module, name, {text("x")}), global(module, name),
                                    object_of(module, name, "}"), text(module) + text(name) + '\x93'}) {
      expect_error(
          [&] {
            open(dict({{"x", code}, {"model", state_dict(1)}}));
          },
          {'"' + full + '"', "nothing was executed"}, full);
    }
  }
}

TEST(Checkpoint, TensorsOfAnotherKindAreNotMissedWithoutAWord) {
  const std::string quantized = called("torch._utils", "_rebuild_qtensor", {storage("0", 6)});
  expect_error(
      [&] {
        open(dict({{"a", good_tensor}, {"q", quantized}}));
      },
      {"tensor \"q\"", "torch._utils._rebuild_qtensor", "nothing was executed"});
  EXPECT_EQ(open(dict({{"model", state_dict(1)}, {"q", quantized}})).size(), 1u);
}

TEST(Checkpoint, ObjectsInPlaceOfTheWeightsAreNamed) {
  const std::string net = object_of("mine.models", "Net", dict({{"training", "\x88"}}));
  expect_error([&] { open(net); }, {"mine.models.Net", "nothing was executed", "model.state_dict()"});
  expect_error(
      [&] {
        open(dict({{"model", net}, {"ema", "N"}}));
      },
      {"without tensors", "\"model\" (an object for which it calls mine.models.Net)", "model.state_dict()"});
  expect_error([&] { open(global("m\x1b[31m", std::string(100'000, 'x'))); }, {"m\\x1b[31m.xxx"});
}

TEST(Checkpoint, HostileNestingIsBounded) {
  // A dict that holds itself, and dicts that all hold each other.
  EXPECT_EQ(open("}q\1(" + text("model") + "h\1" + text("a") + good_tensor + "u").names(), Names{"a"});
  std::string linked = "(";
  for (int i = 0; i < 100; ++i) linked += "}q" + std::string(1, static_cast<char>(i));
  linked += "t";
  std::string pairs = "}(" + text("all") + linked;
  for (int i = 0; i < 100; ++i) {
    pairs += text("k" + std::to_string(i)) + "h" + std::string(1, static_cast<char>(i)) + "(";
    for (int j = 0; j < 100; ++j) pairs += text(std::to_string(j)) + "h" + std::string(1, static_cast<char>(j));
    pairs += "u";
  }
  expect_error([&] { open(pairs + "u"); }, {"without tensors"});
  expect_error([&] { open("\x96" + raw(~std::uint64_t{0}) + "x"); }, {"truncated"});
  // Too deep to be looked for, and keys too long to be shown.
  std::string deep = state_dict(1);
  for (int i = 0; i < 5; ++i) deep = dict({{"k", deep}});
  expect_error([&] { open(deep); }, {"without tensors", "\"k\" (a dict)"});
  expect_error([&] { open(dict({{std::string(300, 'k'), state_dict(1)}})); }, {"without tensors"});
}

}  // namespace
}  // namespace lamina::test::checkpoint_test
