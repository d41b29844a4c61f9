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

std::string temporary_name() {
  static std::atomic<unsigned> counter{0};
  return concat(".lamina-", ::getpid(), '-', counter++, ".tmp");
}

/// By which an open file without a name can be given one.
std::string link_of(int file) { return concat("/proc/self/fd/", file); }

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
    file_.value = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_.value < 0) fail_with(errno);
    return;
  }
  // rename() asks only for the directory's permission; a file that may not be written is not to be replaced either.
  if (exists && ::access(path.c_str(), W_OK) != 0) fail_with(errno);
  target_ = resolve_links(path);
  open_temporary();
  if (exists) static_cast<void>(::fchmod(file_.value, old.st_mode & 07777));  // kept where we may, as open() keeps it
}

bool AtomicFile::open_unnamed() {
#ifdef O_TMPFILE
  const std::filesystem::path folder = target_.parent_path();
  file_.value = ::open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode_before_umask);
  if (file_.value < 0) return false;  // what is wrong with the folder shows in what follows
  if (::access(link_of(file_.value).c_str(), F_OK) == 0) return true;
  ::close(file_.value);  // without /proc it could never be named
  file_.value = -1;
#endif
  return false;
}

/// Gives it its name, or where a file has that name already a temporary one, to be renamed over it.
void AtomicFile::name_unnamed() {
  const auto link_to = [&](const std::filesystem::path& path) {
    return ::linkat(AT_FDCWD, link_of(file_.value).c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link_to(target_)) return;
  while (errno == EEXIST) {
    temporary_.clear();                                     // the file of that name is somebody else's
    temporary_ = target_.parent_path() / temporary_name();  // before there is such a file: nothing may throw then
    if (link_to(temporary_)) return;
  }
  const int error = errno;
  temporary_.clear();
  fail_with(error);
}

void AtomicFile::open_temporary() {
  unnamed_ = open_unnamed();
  if (unnamed_) return;
  do {
    temporary_ = target_.parent_path() / temporary_name();
    file_.value = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode_before_umask);
  } while (file_.value < 0 && (errno == EEXIST || errno == EINTR));
  if (file_.value < 0) {
    temporary_.clear();
    fail_with(errno);
  }
}

AtomicFile::Descriptor::~Descriptor() {
  if (value >= 0) ::close(value);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.value, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) fail_with(errno);
    if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::flush() const {
  // Without fsync a power cut after the rename could leave an empty file where the old one was.
  // EINVAL and EROFS: what does not store (a pipe, a device) has nothing to flush.
  if (::fsync(file_.value) != 0 && errno != EINVAL && errno != EROFS) fail_with(errno);
}

void AtomicFile::close() {
  const int file = file_.value;
  file_.value = -1;
  if (::close(file) != 0 && errno != EINTR) fail_with(errno);
}

void AtomicFile::commit() {
  flush();
  if (unnamed_) name_unnamed();
  close();
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_with(errno);
  temporary_.clear();
}

bool AtomicFile::commit_new() {
  flush();
  // Links fail where there is a file of that name, which a rename would replace.
  const std::string from = unnamed_ ? link_of(file_.value) : temporary_.string();
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, target_.c_str(), unnamed_ ? AT_SYMLINK_FOLLOW : 0) != 0) {
    if (errno == EEXIST) return false;
    fail_with(errno);
  }
  close();
  return true;
}

void AtomicFile::fail_with(int error) const {
  const std::filesystem::path folder = target_.parent_path();
  std::error_code ignored;
  if (error == ENOENT && !folder.empty() && !std::filesystem::exists(folder, ignored)) {
    fail(kind_of(error), "cannot write ", path_.string(), ": there is no folder ", folder.string());
  }
  fail(kind_of(error), "cannot write ", path_.string(), ": ", std::generic_category().message(error));
}

void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

bool write_new_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return false;
  AtomicFile file(path);
  file.write(bytes);
  return file.commit_new();
}

}  // namespace lamina::detail
