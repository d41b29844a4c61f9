#include "lamina/base/atomic_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "support/file_test.h"

namespace lamina::test::atomic_file_test {
namespace {

using detail::AtomicFile;
using detail::write_file_atomically;
using detail::write_new_file_atomically;
using Names = std::vector<std::string>;

mode_t mode_of(const std::filesystem::path& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

/// Goes to a directory for one scope.
class WorkingDirectory {
 public:
  explicit WorkingDirectory(const std::filesystem::path& path) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  ~WorkingDirectory() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

/// Makes writes past `bytes` fail with EFBIG, as they would fail on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(AtomicFile, NewFilesReplaceNothing) {
  const TemporaryDirectory dir;
  EXPECT_TRUE(write_new_file_atomically(dir / "file", as_bytes("first")));
  EXPECT_FALSE(write_new_file_atomically(dir / "file", as_bytes("second")));
  EXPECT_EQ(read_file(dir / "file"), "first");
  std::filesystem::create_symlink("nowhere", dir / "link");
  EXPECT_FALSE(write_new_file_atomically(dir / "link", as_bytes("third")));
  {
    // Another one comes first.
    AtomicFile file(dir / "late");
    file.write(as_bytes("late"));
    write_file(dir / "late", "early");
    EXPECT_FALSE(file.commit_new());
  }
  EXPECT_EQ(read_file(dir / "late"), "early");
  EXPECT_EQ(dir.listing(), (Names{"file", "late", "link"}));
}

TEST(AtomicFile, WritesANewFile) {
  TemporaryDirectory dir;
  write_file_atomically(dir / "new", as_bytes("hello"));
  EXPECT_EQ(read_file(dir / "new"), "hello");
  EXPECT_EQ(dir.listing(), Names{"new"});
}

TEST(AtomicFile, ReplacesAnOldFileOnlyAtCommit) {
  TemporaryDirectory dir;
  write_file(dir / "file", "old and longer");
  AtomicFile file(dir / "file");
  file.write(as_bytes("ne"));
  file.write({});
  file.write(as_bytes("w"));
  EXPECT_EQ(read_file(dir / "file"), "old and longer");
  file.commit();
  EXPECT_EQ(read_file(dir / "file"), "new");
  EXPECT_EQ(dir.listing(), Names{"file"});
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  TemporaryDirectory dir;
  write_file(dir / "file", "old");
  {
    AtomicFile file(dir / "file");
    file.write(as_bytes("new"));
    EXPECT_LE(dir.listing().size(), 2u);  // the temporary has a name where the file system cannot do without
  }
  EXPECT_EQ(read_file(dir / "file"), "old");
  EXPECT_EQ(dir.listing(), Names{"file"});
}

TEST(AtomicFile, NothingIsLeftOfAProcessThatWasKilled) {
#ifdef O_TMPFILE
  TemporaryDirectory dir;
  const int unnamed = ::open(dir.path().c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (unnamed < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(unnamed);
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(dir / "new");
    file.write(as_bytes("half of it"));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(dir.listing(), Names{});
#endif
}

TEST(AtomicFile, AFailedWriteLeavesTheOldFile) {
  TemporaryDirectory dir;
  write_file(dir / "file", "old");
  {
    const FileSizeLimit limit(1000);
    const std::string big(5000, 'x');
    expect_error([&] { write_file_atomically(dir / "file", as_bytes(big)); }, {"cannot write", "file", "too large"});
  }
  EXPECT_EQ(read_file(dir / "file"), "old");
  EXPECT_EQ(dir.listing(), Names{"file"});
}

TEST(AtomicFile, KeepsARelativePathWorking) {
  TemporaryDirectory dir;
  const WorkingDirectory inside(dir.path());
  write_file_atomically("plain", as_bytes("1"));
  std::filesystem::create_directory("sub");
  write_file_atomically("sub/nested", as_bytes("2"));
  EXPECT_EQ(read_file(dir / "plain"), "1");
  EXPECT_EQ(read_file(dir / "sub/nested"), "2");
  EXPECT_EQ(dir.listing(), (Names{"plain", "sub"}));
}

TEST(AtomicFile, PermissionsAreAPlainOpens) {
  TemporaryDirectory dir;
  const mode_t before = ::umask(027);
  write_file_atomically(dir / "new", as_bytes("x"));
  ::umask(before);
  EXPECT_EQ(mode_of(dir / "new"), 0640u);

  write_file(dir / "old", "x");
  ::chmod((dir / "old").c_str(), 0604);
  write_file_atomically(dir / "old", as_bytes("y"));
  EXPECT_EQ(mode_of(dir / "old"), 0604u);
}

TEST(AtomicFile, WritesThroughASymbolicLink) {
  TemporaryDirectory dir;
  std::filesystem::create_directory(dir / "elsewhere");
  write_file(dir / "elsewhere/real", "old");
  std::filesystem::create_symlink("elsewhere/real", dir / "link");
  std::filesystem::create_symlink("elsewhere/later", dir / "dangling");
  write_file_atomically(dir / "link", as_bytes("new"));
  write_file_atomically(dir / "dangling", as_bytes("made"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "dangling"));
  EXPECT_EQ(read_file(dir / "elsewhere/real"), "new");
  EXPECT_EQ(read_file(dir / "elsewhere/later"), "made");
}

TEST(AtomicFile, DevicesAreWrittenNotReplaced) {
  write_file_atomically("/dev/null", as_bytes("x"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  if (std::filesystem::exists("/dev/full")) {
    expect_error([] { write_file_atomically("/dev/full", as_bytes("x")); }, {"/dev/full", "No space left"});
  }
}

TEST(AtomicFile, UnwritablePlacesAreErrors) {
  TemporaryDirectory dir;
  write_file(dir / "file", "x");
  const auto attempt = [](const std::filesystem::path& path) {
    return [path] { write_file_atomically(path, as_bytes("x")); };
  };
  expect_error(attempt(""), {"cannot write", "No such file"});
  expect_error(attempt(dir / "missing/file"), {"cannot write", "missing/file", "there is no folder", "/missing"});
  expect_error(attempt(dir / "file/below"), {"file/below", "Not a directory"});
  expect_error(attempt(dir.path()), {dir.path().string(), "Is a directory"});
  expect_error(attempt(dir / "new/"), {"new/", "Is a directory"});
  EXPECT_EQ(dir.listing(), Names{"file"});
}

TEST(AtomicFile, AReadOnlyFileOrDirectoryStays) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  TemporaryDirectory dir;
  write_file(dir / "file", "old");
  ::chmod((dir / "file").c_str(), 0444);
  expect_error([&] { write_file_atomically(dir / "file", as_bytes("x")); }, {"Permission denied"});
  ::chmod(dir.path().c_str(), 0555);
  expect_error([&] { write_file_atomically(dir / "new", as_bytes("x")); }, {"new", "Permission denied"});
  ::chmod(dir.path().c_str(), 0755);
  EXPECT_EQ(read_file(dir / "file"), "old");
  EXPECT_EQ(dir.listing(), Names{"file"});
}

}  // namespace
}  // namespace lamina::test::atomic_file_test
