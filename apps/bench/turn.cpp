#include "bench/turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lamina/base/error.h"

namespace lamina::app {

Turn::Turn(const std::string& path) {
  if (path.empty()) return;
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  int failed = file_ < 0 ? -1 : ::flock(file_, LOCK_EX);
  while (failed != 0 && file_ >= 0 && errno == EINTR) failed = ::flock(file_, LOCK_EX);
  if (failed == 0) return;
  const std::string why = std::strerror(errno);
  if (file_ >= 0) ::close(file_);
  throw Error("cannot lock " + path + " of --turns: " + why);
}

Turn::~Turn() {
  if (file_ >= 0) ::close(file_);  // which gives the lock back
}

}  // namespace lamina::app
