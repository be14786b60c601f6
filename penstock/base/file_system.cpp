// Implements FileSystem with POSIX files.
#include "penstock/base/file_system.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "penstock/base/links.h"

namespace penstock {
namespace {

namespace stdfs = std::filesystem;

[[noreturn]] void system_failure(const char* action, const stdfs::path& path, int code) {
  const std::string what =
      concat("cannot ", action, " ", path.string(), ": ", std::generic_category().message(code));
  if (code == ENOSPC || code == EDQUOT) throw DiskFullError(what + " (disk full); free some space");
  throw Error(what);
}

class Descriptor {
 public:
  Descriptor(const stdfs::path& path, int flags, const char* action) {
    do fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) system_failure(action, path, errno);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

void sync_descriptor(int fd, const stdfs::path& path) {
  int result = 0;
  do result = ::fsync(fd);
  while (result != 0 && errno == EINTR);
  if (result != 0) system_failure("sync", path, errno);
}

class RealFile : public OutputFile {
 public:
  RealFile(const stdfs::path& path, OpenMode mode)
      : path_(path),
        fd_(path, O_WRONLY | O_CREAT | (mode == OpenMode::kAppend ? O_APPEND : O_TRUNC), "open") {}

  void write(Bytes bytes) override {
    while (!bytes.empty()) {
      // Linux writes at most 2^31 - 4096 bytes at once.
      const ssize_t done =
          ::write(fd_.get(), bytes.data(), std::min<std::size_t>(bytes.size(), 1u << 30));
      if (done < 0) {
        if (errno == EINTR) continue;
        system_failure("write", path_, errno);
      }
      bytes = bytes.subspan(static_cast<std::size_t>(done));
    }
  }
  void sync() override { sync_descriptor(fd_.get(), path_); }
  void close() override {
    // The descriptor is closed even if close() is interrupted.
    if (::close(fd_.release()) != 0 && errno != EINTR) system_failure("close", path_, errno);
  }

 private:
  stdfs::path path_;
  Descriptor fd_;
};

class RealFileSystem : public FileSystem {
 public:
  std::unique_ptr<OutputFile> open(const Path& path, OpenMode mode) override {
    return std::make_unique<RealFile>(path, mode);
  }
  void rename(const Path& from, const Path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0)
      system_failure(concat("rename ", from.string(), " to").c_str(), to, errno);
  }
  void sync_directory(const Path& path) override {
    const Descriptor directory(path, O_RDONLY | O_DIRECTORY, "open directory");
    sync_descriptor(directory.get(), path);
  }
  bool create_directory(const Path& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return true;
    const int code = errno;
    if (code == EEXIST && stdfs::is_directory(path)) return false;
    system_failure("create directory", path, code);
  }
  void remove_all(const Path& path) override {
    std::error_code code;
    stdfs::remove_all(path, code);
    if (code) system_failure("remove", path, code.value());
  }
  std::vector<std::string> list(const Path& path) override {
    std::vector<std::string> names;
    std::error_code code;
    stdfs::directory_iterator entry(path, code);
    for (; !code && entry != stdfs::directory_iterator(); entry.increment(code))
      names.push_back(entry->path().filename().string());
    if (code) system_failure("list", path, code.value());
    std::ranges::sort(names);
    return names;
  }
  bool exists(const Path& path) override {
    std::error_code code;
    return stdfs::exists(path, code);
  }
  std::uint64_t size(const Path& path) override {
    std::error_code code;
    const auto bytes = stdfs::file_size(path, code);
    if (code) system_failure("read the size of", path, code.value());
    return bytes;
  }
  std::string read(const Path& path, std::uint64_t limit) override {
    const Descriptor file(path, O_RDONLY, "open");
    std::string text;
    while (true) {
      const std::size_t old = text.size();
      text.resize(old + std::max<std::size_t>(old, 1 << 16));
      const ssize_t done = ::read(file.get(), text.data() + old, text.size() - old);
      if (done < 0 && errno != EINTR) system_failure("read", path, errno);
      text.resize(old + static_cast<std::size_t>(std::max<ssize_t>(done, 0)));
      PENSTOCK_CHECK(text.size() <= limit, path.string(), ": longer than the ", limit,
                     " bytes that such a file may have");
      if (done == 0) return text;
    }
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem instance;
  return instance;
}

std::filesystem::path parent_directory(const std::filesystem::path& path) {
  const auto parent = path.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

void create_directories(FileSystem& fs, const std::filesystem::path& given) {
  if (given.empty() || fs.exists(given)) return;
  if (!given.has_filename()) return create_directories(fs, given.parent_path());  // "a/b/"
  const auto path = followed(given);
  const auto parent = parent_directory(path);
  create_directories(fs, parent);
  if (fs.create_directory(path)) fs.sync_directory(parent);
}

}  // namespace penstock
