#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

// As g++ says it.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#elif __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAMINA_SKIP_UNDER_SANITIZERS() GTEST_SKIP() << "sanitizers take more address space than there is to give"
#else
#define LAMINA_SKIP_UNDER_SANITIZERS() static_cast<void>(0)
#endif

#if defined(__SANITIZE_THREAD__)
#define LAMINA_SKIP_FORKS_UNDER_TSAN() GTEST_SKIP() << "the thread sanitizer has no children of processes with threads"
#else
#define LAMINA_SKIP_FORKS_UNDER_TSAN() static_cast<void>(0)
#endif

/// A machine short of memory or threads, and forks, played in a child process.
namespace lamina::test {

/// Allows this process `bytes` of address space more than it has.
inline void limit_address_space(rlim_t bytes) {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + bytes;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

/// Expects `work` to return true in a forked child, within 30 seconds.
template <class Work>
void expect_in_child(const Work& work) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(30);
    ::_exit(work() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_FALSE(WIFSIGNALED(status)) << "ended by signal " << WTERMSIG(status)
                                    << (WTERMSIG(status) == SIGALRM ? ": it hangs" : "");
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// The same in a child of `bytes` more of address space.
template <class Work>
void expect_in_scarcity(rlim_t bytes, const Work& work) {
  expect_in_child([&] {
    limit_address_space(bytes);
    return work();
  });
}

}  // namespace lamina::test
