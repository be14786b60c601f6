// A temporary directory for each test, removed afterwards.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

namespace penstock::testing {

class TempDirectory {
 public:
  TempDirectory() {
    static std::atomic<int> count = 0;
    // Uses memory if it can, because no test here depends on the device.
    const std::filesystem::path memory = "/dev/shm";
    const auto base =
        ::access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
    path_ = base / ("penstock-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  std::string path(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace penstock::testing
