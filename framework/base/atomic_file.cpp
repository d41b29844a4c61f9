#include "lamina/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <system_error>

#include "lamina/base/error.h"

namespace lamina::detail {
namespace {

constexpr mode_t mode_before_umask = 0666;
constexpr int longest_link_chain = 40;  // as Linux itself gives up

/// Where a write to `path` lands when `path` is a symbolic link to a file that may not exist yet.
std::filesystem::path resolve_links(std::filesystem::path path) {
  std::error_code ignored;
  for (int i = 0; i < longest_link_chain && std::filesystem::is_symlink(path, ignored); ++i) {
    path = path.parent_path() / std::filesystem::read_symlink(path, ignored);  // `/` keeps an absolute right side
  }
  return path;
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path) : path_(path), target_(path) {
  if (path.empty()) fail_with(ENOENT);
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (path.filename().empty() || (exists && S_ISDIR(old.st_mode))) fail_with(EISDIR);
  if (exists && !S_ISREG(old.st_mode)) {
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) fail_with(errno);
    return;
  }
  // rename() asks only for the directory's permission; a file that may not be written is not to be replaced either.
  if (exists && ::access(path.c_str(), W_OK) != 0) fail_with(errno);
  target_ = resolve_links(path);
  open_temporary();
  if (exists) static_cast<void>(::fchmod(file_, old.st_mode & 07777));  // kept where we may, as open() keeps it
}

void AtomicFile::open_temporary() {
  static std::atomic<unsigned> counter{0};
  do {
    const std::string name = concat(".lamina-", ::getpid(), '-', counter++, ".tmp");
    temporary_ = target_.parent_path() / name;
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_before_umask);
  } while (file_ < 0 && (errno == EEXIST || errno == EINTR));
  if (file_ < 0) {
    temporary_.clear();
    fail_with(errno);
  }
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail_with(errno);
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  // Without fsync a power cut after the rename could leave an empty file where the old one was.
  // EINVAL and EROFS: what does not store (a pipe, a device) has nothing to flush.
  if (::fsync(file_) != 0 && errno != EINVAL && errno != EROFS) fail_with(errno);
  const int file = file_;
  file_ = -1;
  if (::close(file) != 0 && errno != EINTR) fail_with(errno);
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_with(errno);
  temporary_.clear();
}

void AtomicFile::fail_with(int error) const {
  const std::filesystem::path folder = target_.parent_path();
  std::error_code ignored;
  if (error == ENOENT && !folder.empty() && !std::filesystem::exists(folder, ignored)) {
    fail("cannot write ", path_.string(), ": there is no directory ", folder.string());
  }
  fail("cannot write ", path_.string(), ": ", std::generic_category().message(error));
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace lamina::detail
