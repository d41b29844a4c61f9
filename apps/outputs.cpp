#include "outputs.h"

#include <fmt/core.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <set>
#include <vector>

#include "lamina/base/atomic_file.h"
#include "lamina/base/names.h"
#include "lamina/images/image.h"
#include "pictures/png.h"

namespace lamina::app {
namespace fs = std::filesystem;

fs::path real_path(const fs::path& path) {
  std::error_code problem;
  fs::path result = fs::weakly_canonical(fs::absolute(path, problem), problem);
  return problem ? path : result;
}

namespace {

constexpr const char *mark = "written", *folder_mark = "written or a folder";

bool has_mark(const CLI::Option& option, const char* which) {
  try {
    (void)const_cast<CLI::Option&>(option).get_validator(which);  // which only reads
    return true;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

bool is_written(const CLI::Option& option) { return has_mark(option, mark) || has_mark(option, folder_mark); }

/// Whether the option, whose value may be a folder, has the name of one, there or to be made.
bool names_folder(const std::string& name) {
  std::error_code problem;
  const bool file = detail::is_named_like_image(name) || name.ends_with(".safetensors");
  return !name.empty() && (!file || fs::is_directory(name, problem));
}

/// One file under both names: by device and inode, so that links are followed.
bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code problem;
  return fs::equivalent(a, b, problem) && !problem;
}

/// A picture that is there, below that directory: commands that are given directories read those.
bool is_picture_in(const fs::path& file, const fs::path& directory) {
  std::error_code problem;
  if (!fs::is_directory(directory, problem) || !fs::exists(file, problem)) return false;
  if (!detail::is_named_like_image(file.string()) || is_drawn(file)) return false;
  const std::string inside = (real_path(directory) / "").string();
  return real_path(file).string().starts_with(inside);
}

/// Whether the name is one of a file to write: neither none, nor stdout, nor a directory.
bool is_file(const std::string& name) {
  std::error_code problem;
  return !name.empty() && name != "-" && !fs::is_directory(name, problem);
}

/// "the argument IN"; an option, and what has words for itself, as it is.
std::string named(const std::string& option) {
  const bool positional = option.find_first_of("- ") == std::string::npos;
  return positional ? "the argument \"" + option + '"' : option;
}

/// Of a file that is written, unless the folder is among those that the command makes.
void require_folder(const CLI::Option& output, const std::string& name, const std::set<fs::path>& made) {
  const fs::path folder = fs::path(name).parent_path();
  std::error_code problem;
  const bool file = is_file(name) && !(has_mark(output, folder_mark) && names_folder(name));
  if (!file || folder.empty() || fs::is_directory(folder, problem) || made.contains(real_path(folder))) return;
  throw Error(fmt::format("{}: there is no folder {}", named(output.get_name()), detail::quote(folder.string())));
}

[[noreturn]] void refuse(const std::string& option, const std::string& output, const std::string& reader) {
  throw Error(fmt::format("{}: {} is the file of {} too, and would be overwritten", named(option),
                          detail::printable(output), named(reader)));
}

}  // namespace

CLI::Option* writes(CLI::Option* option, bool or_folder) {
  return option->check(CLI::Validator(
      [or_folder](std::string& name) {
        std::error_code problem;
        const fs::path folder = fs::path(name).parent_path();
        if (name.empty() || name == "-" || (or_folder && names_folder(name))) return std::string();
        // Of no folder require_outputs_apart says so, who knows which ones the command makes.
        if (!folder.empty() && !fs::is_directory(folder, problem)) return std::string();
        if (fs::exists(name, problem) && fs::is_other(name, problem))
          return std::string();  // whose reader would notice
        try {
          const detail::AtomicFile tried(name);
          return std::string();
        } catch (const Error& error) {
          return std::string(error.what());
        }
      },
      "", or_folder ? folder_mark : mark));
}

void require_apart(const std::string& option, const std::string& output, const std::string& reader,
                   const std::string& input) {
  if (is_file(output) && (is_same_file(output, input) || is_picture_in(output, input))) refuse(option, output, reader);
}

void require_outputs_apart(const CLI::App& command) {
  std::vector<const CLI::Option*> options = command.get_options();
  for (const CLI::App* group : command.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); })) {
    for (const CLI::Option* option : group->get_options()) options.push_back(option);
  }
  std::set<fs::path> made;  // folders that an output is
  for (const CLI::Option* output : options) {
    if (!has_mark(*output, folder_mark)) continue;
    for (const std::string& name : output->results()) {
      if (names_folder(name)) made.insert(real_path(name));
    }
  }
  for (const CLI::Option* output : options) {
    if (!is_written(*output)) continue;
    for (const std::string& name : output->results()) require_folder(*output, name, made);
    for (const CLI::Option* other : options) {
      if (other == output) continue;
      for (const std::string& file : output->results()) {
        for (const std::string& name : other->results()) {
          require_apart(output->get_name(), file, other->get_name(), name);
          // What is not there yet can be two outputs; as a word of another option it is no file.
          if (is_written(*other) && is_file(file) && real_path(file) == real_path(name)) {
            refuse(output->get_name(), file, other->get_name());
          }
        }
      }
    }
  }
}

std::string as_written(const std::string& problem, const CLI::App& command, std::span<char* const> arguments) {
  const std::string name = problem.substr(0, problem.find(':'));
  const CLI::Option* const option = name.starts_with("--") ? command.get_option_no_throw(name) : nullptr;
  const auto says = [&](std::string_view argument) { return argument.starts_with(name); };
  const bool by_place = option != nullptr && option->get_positional() && std::ranges::none_of(arguments, says);
  return by_place ? "the argument " + problem.substr(2) : problem;
}

void make_folder(std::string_view option, const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem)
    throw Error(fmt::format("cannot make the folder {} of {}: {}", folder.string(), option, problem.message()));
}

}  // namespace lamina::app
