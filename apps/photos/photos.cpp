#include "photos/photos.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>

#include "commands/commands.h"
#include "complain.h"
#include "inputs.h"
#include "photos/frames.h"
#include "pictures/png.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

/// What the machine has, or the group of processes that this one belongs to may take.
std::uint64_t machine_memory() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  auto bytes = pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)
                                     : std::uint64_t{4} << 30;
  std::uint64_t limit = 0;
  if (std::ifstream group("/sys/fs/cgroup/memory.max"); group >> limit) bytes = std::min(bytes, limit);
  return bytes;
}

/// Of a model's file, or of a word for which there is no file: the option that it may be a part of. A wrong option
/// leaves its value behind.
std::string meant_option(const CLI::App& command, const std::string& text) {
  std::error_code problem;
  const bool model = text.ends_with(".onnx") || text.ends_with(".safetensors");
  if (model && fs::is_regular_file(text, problem) && command.get_option_no_throw("--model") != nullptr) {
    return fmt::format("{} is no photograph; did you mean --model {}?", text, text);
  }
  if (text.empty() || fs::symlink_status(text, problem).type() != fs::file_type::not_found) return "";
  if (text.ends_with(".csv") && command.get_option_no_throw("--csv") != nullptr) {
    return fmt::format("{} is no photograph: there is no such file; --csv answers on stdout: --csv > {}", text, text);
  }
  if (text.find_first_not_of("0123456789.,") == text.npos) {
    return fmt::format("{} is no photograph: there is no such file; a number belongs behind an option", text);
  }
  if (command.get_option_no_throw("--" + text) == nullptr) return "";
  return fmt::format("{} is no photograph: there is no such file; did you mean --{}?", text, text);
}

/// Names as people count: frame-9.png is before frame-10.png.
bool in_counting_order(const fs::path& one, const fs::path& two) {
  const std::string a = one.filename().string(), b = two.filename().string();
  const auto digits = [](const std::string& text, std::size_t at) {
    return std::min(text.find_first_not_of("0123456789", at), text.size()) - at;
  };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const std::size_t na = digits(a, i), nb = digits(b, j);
    const std::size_t za = std::min(a.find_first_not_of('0', i), i + na),
                      zb = std::min(b.find_first_not_of('0', j), j + nb);
    const bool both = na > 0 && nb > 0;
    const std::string x = both ? a.substr(za, i + na - za) : a.substr(i, 1),
                      y = both ? b.substr(zb, j + nb - zb) : b.substr(j, 1);
    if (x != y) return both && x.size() != y.size() ? x.size() < y.size() : x < y;
    i += both ? na : 1, j += both ? nb : 1;
  }
  if ((i < a.size()) != (j < b.size())) return j < b.size();
  return a < b;  // with other zeros
}

/// What a search leaves out of one directory, to be said in one line.
struct LeftOut {
  std::vector<std::string> files, directories, drawn;

  void report(const fs::path& directory) const {
    std::string text;
    const auto add = [&](const std::vector<std::string>& names, const std::string& what, const char* which) {
      if (names.empty()) return;
      text += fmt::format("{}{} {}{} {}: {}", text.empty() ? "" : "; ", names.size(), what,
                          names.size() == 1 ? "" : "s", which, listed(names));
    };
    add(files, "file", "that Lamina does not read");
    add(drawn, "picture", "that Lamina drew");
    add(directories, "folder", "(--recursive goes into them)");
    if (!text.empty()) complain(fmt::format("{}: left out {}", directory.string(), text));
  }
};

class Search {
 public:
  explicit Search(bool recursive) : recursive_(recursive) {}

  Photos take() { return std::move(found_); }

  void add(const fs::path& path) {
    std::error_code problem;
    if (path == "-" && !fs::exists(path, problem)) {
      const std::vector<fs::path> frames = frames_of_stdin();
      if (frames.empty()) fail(path, "no photographs came on stdin");
      found_.paths.insert(found_.paths.end(), frames.begin(), frames.end());
      return;
    }
    const fs::file_status status = fs::status(path, problem);
    if (status.type() == fs::file_type::not_found) {
      const bool address = path.string().find("://") != std::string::npos;
      return fail(path, address ? detail::words_of(ENOENT, path.string()) : "there is no such file or folder");
    }
    if (problem) return fail(path, "cannot be read: " + problem.message());
    if (!fs::is_directory(status)) return found_.paths.push_back(path);
    const std::size_t before = found_.paths.size();
    const bool failed_before = std::exchange(found_.failed, false);
    named_ = path;
    add_directory(path);
    if (found_.paths.size() == before && !found_.failed) {
      fail(path, "no photographs in this folder (" + image_formats() + ")");
    }
    found_.failed = found_.failed || failed_before;
  }

 private:
  void fail(const fs::path& path, const std::string& why) {
    complain(path.string() + ": " + why);
    found_.failed = true;
  }

  void add_directory(const fs::path& directory) {
    std::error_code problem;
    std::vector<fs::path> entries;
    fs::directory_iterator entry(directory, problem);
    for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) entries.push_back(entry->path());
    if (problem) fail(directory, "cannot be read: " + problem.message());
    std::ranges::sort(entries, in_counting_order);
    LeftOut left_out;
    std::vector<fs::path> deeper;
    for (const fs::path& path : entries) {
      const std::string name = path.filename().string();
      const fs::file_status status = fs::status(path, problem);
      if (status.type() == fs::file_type::not_found) {
        fail(path, "a link that leads nowhere");
      } else if (problem) {
        fail(path, "cannot be read: " + problem.message());
      } else if (fs::is_directory(status)) {
        // Links to directories may lead in circles: only those that are named are followed.
        const bool own = recursive_ && !fs::is_symlink(path, problem);
        if (own) deeper.push_back(path);
        if (!own && !name.starts_with('.')) left_out.directories.push_back(name);
      } else if (fs::is_regular_file(status) && is_drawn(path)) {
        left_out.drawn.push_back(name);  // of an earlier run
      } else if (fs::is_regular_file(status) && (detail::is_named_like_image(path) || is_photo(path))) {
        // An empty or foreign file of such a name is to be reported, not passed over.
        found_.paths.push_back(path);
        const fs::path below = directory.lexically_relative(named_);
        if (below != "." && !below.empty()) found_.folders[path] = below;
      } else if (!name.starts_with('.')) {
        left_out.files.push_back(name);
      }
    }
    left_out.report(directory);
    for (const fs::path& path : deeper) add_directory(path);
  }

  bool recursive_;
  fs::path named_;  // of the directories that are looked through
  Photos found_;
};

}  // namespace

CLI::Validator memory_size() {
  return CLI::Validator(
      [](std::string& text) {
        std::uint64_t number = 0;
        const char* end = text.data() + text.size();
        const auto [unit, error] = std::from_chars(text.data(), end, number);
        constexpr std::string_view units = "KMGT";
        std::uint64_t factor = 1;
        bool valid = error == std::errc() && end - unit <= 1 && number > 0;
        if (valid && unit != end) {
          const std::size_t power = units.find(*unit);
          valid = power != units.npos;
          for (std::size_t i = 0; valid && i <= power; ++i) factor *= 1000;
        }
        if (!valid || __builtin_mul_overflow(number, factor, &number)) {
          return "expected a size such as 500M or 2G, got \"" + text + '"';
        }
        text = std::to_string(number);
        return std::string();
      },
      "");
}

void PhotoOptions::add_to(CLI::App& command) {
  command
      .add_option("photos", paths, "photographs, folders of them, or - for photographs on stdin, one after the other")
      ->required()
      ->check(CLI::Validator([&command](std::string& text) { return meant_option(command, text); }, ""));
  command.add_flag("--recursive", recursive, "also the photographs in folders of folders");
  add_reading_to(command);
}

void PhotoOptions::add_reading_to(CLI::App& command) {
  command.add_flag("--as-stored", as_stored,
                   "photographs as PyTorch's loaders see them: not turned upright as their EXIF data say, transparent "
                   "pixels in their hidden colours and not on white");
  command.add_option("--memory", memory, "what decoding may take, such as 500M or 2G (default: half of the machine's)")
      ->transform(memory_size())
      ->default_str("");
}

ImageOptions PhotoOptions::image() const {
  return {.orientation = as_stored ? Orientation::as_stored : Orientation::upright,
          .transparency = as_stored ? Transparency::ignored : Transparency::on_white,
          .memory = memory > 0 ? memory : machine_memory() / 2};
}

Photos find_photos(const PhotoOptions& options) {
  Search search(options.recursive);
  for (const std::string& path : options.paths) search.add(path);
  Photos photos = search.take();
  if (photos.paths.empty()) throw Failed();
  return photos;
}

std::pair<int, int> sides_within(const Image& photo, int most) {
  const double scale = std::min(1.0, static_cast<double>(most) / std::max(photo.width, photo.height));
  const auto side = [&](int pixels) { return std::max(1, static_cast<int>(std::lround(pixels * scale))); };
  return {side(photo.width), side(photo.height)};
}

bool is_photo(const fs::path& path) {
  std::array<char, 64> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  const auto bytes = std::as_bytes(std::span(head)).first(static_cast<std::size_t>(file.gcount()));
  return is_image(bytes);
}

}  // namespace lamina::app
