// The system's files with one change: a base for tests of programs that also read their files
// without the FileSystem interface. It does not model crashes: faulty_file_system.h does.
#pragma once

#include <algorithm>
#include <functional>

#include "penstock/base/file_system.h"

namespace penstock::testing {

/// Forwards every operation to the system's files. Calls `on_write(path, bytes)` before each write,
/// which returns how many of the bytes fit on the disk. If not all fit, writes those that fit and
/// throws DiskFullError.
class ForwardingFileSystem : public FileSystem {
 public:
  using OnWrite = std::function<std::size_t(const Path& path, Bytes bytes)>;
  explicit ForwardingFileSystem(OnWrite on_write) : on_write_(std::move(on_write)) {}

  std::unique_ptr<OutputFile> open(const Path& path, OpenMode mode) override {
    return std::make_unique<File>(real_file_system().open(path, mode), path, on_write_);
  }
  void rename(const Path& from, const Path& to) override { real_file_system().rename(from, to); }
  void sync_directory(const Path& path) override { real_file_system().sync_directory(path); }
  bool create_directory(const Path& path) override {
    return real_file_system().create_directory(path);
  }
  void remove_all(const Path& path) override { real_file_system().remove_all(path); }
  std::vector<std::string> list(const Path& path) override { return real_file_system().list(path); }
  bool exists(const Path& path) override { return real_file_system().exists(path); }
  std::uint64_t size(const Path& path) override { return real_file_system().size(path); }
  std::string read(const Path& path, std::uint64_t limit) override {
    return real_file_system().read(path, limit);
  }

 private:
  struct File : OutputFile {
    File(std::unique_ptr<OutputFile> file, Path path, const OnWrite& on_write)
        : file_(std::move(file)), path_(std::move(path)), on_write_(on_write) {}
    void write(Bytes bytes) override {
      const std::size_t fit = std::min(on_write_(path_, bytes), bytes.size());
      file_->write(bytes.first(fit));
      if (fit < bytes.size()) throw DiskFullError(path_.string() + ": disk full");
    }
    void sync() override { file_->sync(); }
    void close() override { file_->close(); }

    std::unique_ptr<OutputFile> file_;
    Path path_;
    const OnWrite& on_write_;
  };
  OnWrite on_write_;
};

}  // namespace penstock::testing
