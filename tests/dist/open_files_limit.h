// Limits of a test's open files.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace penstock::testing {

/// The lowest descriptor that is free. No file can be opened under this limit.
inline rlim_t lowest_free_file() {
  const int out = ::dup(STDERR_FILENO);
  EXPECT_GE(out, 0);
  ::close(out);
  return static_cast<rlim_t>(out);
}

inline rlimit open_files_limit() {
  rlimit out{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &out), 0);
  return out;
}

/// Sets the soft limit of open files during its life.
class OpenFilesLimit {
 public:
  explicit OpenFilesLimit(rlim_t files) : before_(open_files_limit()) {
    const rlimit limit{.rlim_cur = files, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~OpenFilesLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFilesLimit(const OpenFilesLimit&) = delete;
  OpenFilesLimit& operator=(const OpenFilesLimit&) = delete;

 private:
  rlimit before_;
};

}  // namespace penstock::testing
