#include "models/shipped.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/graph/networks.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

/// Where the module of the Python package lies, if this code is in it; else some folder without files of ours.
fs::path package_folder() {
  Dl_info here = {};
  ::dladdr(reinterpret_cast<const void*>(&package_folder), &here);
  const fs::path file = here.dli_fname == nullptr ? "" : here.dli_fname;
  return file.is_absolute() && file.extension() == ".so" ? file.parent_path() : "/";
}

/// Where a user's programs keep what they fetched.
fs::path data_folder() {
  const char *data = std::getenv("XDG_DATA_HOME"), *home = std::getenv("HOME");
  if (data != nullptr && data[0] == '/') return fs::path(data) / "lamina";
  return home == nullptr ? "/" : fs::path(home) / ".local/share/lamina";
}

}  // namespace

std::string default_model() { return shipped_file("alexnet-conv1.safetensors"); }

std::string shipped_file(const std::string& name) {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::string places;
  for (const fs::path& place :
       {fs::path("weights"), folder / "../../../weights", folder / "../share/lamina", package_folder()}) {
    const fs::path file = (place / name).lexically_normal();
    if (fs::exists(file, ignored)) return file.string();
    if (place != "/") places += (places.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  throw Error(fmt::format("{}, which ships with Lamina, is in none of {}", name, places));
}

std::string model_file(const std::string& name) {
  std::error_code ignored;
  if (fs::exists(name, ignored)) return name;
  if (name == "digits" || name == "alexnet-conv1") return shipped_file(name + ".safetensors");
  const fs::path fetched = data_folder() / (name + ".safetensors");
  if (name.empty() || name.find_first_of("./") != name.npos) return name;
  if (fs::exists(fetched, ignored)) return fetched.string();
  if (name == "classifier") throw Error("classifier: " + classifier_bringer() + " brings it");
  const auto networks = network_names();
  if (std::ranges::find(networks, name) != networks.end())
    throw Error(fmt::format("{} is a network without weights: --arch {} --weights FILE runs it", name, name));
  std::vector<std::string> names = {"digits", "alexnet-conv1"};
  if (!fetched_classifier().empty()) names.emplace_back("classifier");
  throw Error(fmt::format("cannot read {}: there is no such file, and no model of that name{}", detail::printable(name),
                          detail::nearest_text(name, names)));
}

std::string fetched_classifier() {
  std::error_code ignored;
  const fs::path file = data_folder() / "classifier.safetensors";
  return fs::exists(file, ignored) ? file.string() : "";
}

std::string classifier_bringer() {
  return package_folder() == "/" ? "`scripts/get_classifier.sh` in a clone of Lamina"
                                 : "`python -m lamina.get_classifier`";
}

std::string labels_file(const std::string& name) {
  std::error_code ignored;
  return name == "imagenet" && !fs::exists(name, ignored) ? shipped_file("imagenet_classes.txt") : name;
}

}  // namespace lamina::app
