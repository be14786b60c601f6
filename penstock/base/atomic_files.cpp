#include "penstock/base/atomic_files.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "penstock/base/checksum.h"
#include "penstock/base/links.h"
#include "penstock/base/parse_number.h"

namespace penstock {
namespace {

std::filesystem::path aside(const std::filesystem::path& path, const char* kind) {
  return parent_directory(path) / concat(".", path.filename().string(), kind, ::getpid());
}

/// Throws Error if the path's folder does not exist. The error of a later write would name the
/// temporary file, which the caller does not know.
void check_folder(FileSystem& fs, const std::filesystem::path& path) {
  const auto folder = parent_directory(path);
  PENSTOCK_CHECK(fs.exists(folder), "cannot write ", path.string(), ": there is no folder ",
                 folder.string(), "; make it first");
}

/// Records size and checksum of the bytes that are written through it.
class DigestedFile : public OutputFile {
 public:
  DigestedFile(std::unique_ptr<OutputFile> file, FileDigest& digest)
      : file_(std::move(file)), digest_(digest) {}
  void write(Bytes bytes) override {
    file_->write(bytes);
    hash_.update(bytes);
    bytes_ += bytes.size();
  }
  void sync() override { file_->sync(); }
  void close() override {
    file_->sync();
    file_->close();
    digest_ = {bytes_, hash_.value()};
  }

 private:
  std::unique_ptr<OutputFile> file_;
  FileDigest& digest_;
  Xxh64 hash_;
  std::uint64_t bytes_ = 0;
};

struct Leftover {
  std::string name;  // the final name
  bool old = false;
  int pid = 0;
};

/// Parses ".NAME.tmp-PID" and ".NAME.old-PID"; nullopt for other names.
std::optional<Leftover> parse_leftover(std::string_view entry) {
  const auto dash = entry.rfind('-');
  if (entry.size() < 7 || entry[0] != '.' || dash == std::string_view::npos || dash < 5) return {};
  const auto kind = entry.substr(dash - 4, 4);
  if (kind != ".tmp" && kind != ".old") return {};
  const auto pid = parse_number<int>(entry.substr(dash + 1));
  const auto name = entry.substr(1, dash - 5);
  if (!pid || *pid <= 0 || name.empty()) return {};
  return Leftover{.name = std::string(name), .old = kind == ".old", .pid = *pid};
}

bool another_running_process(int pid) {
  return pid != ::getpid() && (::kill(pid, 0) == 0 || errno == EPERM);
}

}  // namespace

std::filesystem::path temporary_path(const std::filesystem::path& path) {
  return aside(followed(path), ".tmp-");
}

AtomicFile::AtomicFile(FileSystem& fs, std::filesystem::path path, std::uint64_t expected_bytes)
    : fs_(fs),
      path_(followed(path)),
      temporary_(temporary_path(path_)),
      expected_bytes_(expected_bytes) {
  check_folder(fs_, path_);
  explain_full_disk([&] { file_ = fs_.open(temporary_, OpenMode::kTruncate); });
}

AtomicFile::~AtomicFile() {
  if (!file_) return;
  file_.reset();
  try {
    fs_.remove_all(temporary_);
  } catch (const Error&) {
    // The caller reports the first error. The leftover is cleaned up later.
  }
}

template <class Action>
void AtomicFile::explain_full_disk(Action action) {
  try {
    action();
  } catch (const DiskFullError&) {
    throw DiskFullError(
        concat("cannot write ", path_.string(), ": disk full",
               expected_bytes_ ? concat("; it needs ", expected_bytes_, " bytes") : "",
               "; free some space, nothing there was changed"));
  }
}

void AtomicFile::write(Bytes bytes) {
  explain_full_disk([&] { file_->write(bytes); });
}

void AtomicFile::commit() {
  explain_full_disk([&] {
    file_->sync();
    file_->close();
    fs_.rename(temporary_, path_);
    file_.reset();
    fs_.sync_directory(parent_directory(path_));
  });
}

void write_file_atomically(FileSystem& fs, const std::filesystem::path& path, Bytes bytes) {
  AtomicFile file(fs, path, bytes.size());
  file.write(bytes);
  file.commit();
}

void write_file_atomically(FileSystem& fs, const std::filesystem::path& path,
                           std::string_view text) {
  write_file_atomically(fs, path, bytes_of(text));
}

std::unique_ptr<OutputFile> digested(std::unique_ptr<OutputFile> file, FileDigest& digest) {
  return std::make_unique<DigestedFile>(std::move(file), digest);
}

AtomicDirectory::AtomicDirectory(FileSystem& fs, std::filesystem::path path)
    : fs_(fs), path_(followed(path)), temporary_(temporary_path(path_)) {
  check_folder(fs_, path_);
  fs_.remove_all(temporary_);
  fs_.create_directory(temporary_);
}

AtomicDirectory::~AtomicDirectory() {
  if (committed_) return;
  try {
    fs_.remove_all(temporary_);
  } catch (const Error&) {
    // The leftover is cleaned up later.
  }
}

void AtomicDirectory::check_name(const std::string& name) const {
  const std::filesystem::path plain(name);
  PENSTOCK_CHECK(!name.empty() && plain.filename() == plain && name != "." && name != "..",
                 path_.string(), ": '", name, "' is not the name of a file inside it");
  PENSTOCK_CHECK(!digests_.contains(name), path_.string(), ": two files named '", name, "'");
}

void AtomicDirectory::add(const std::string& name, const FileDigest& digest) {
  check_name(name);
  digests_[name] = digest;
}

std::unique_ptr<OutputFile> AtomicDirectory::create(const std::string& name) {
  check_name(name);
  auto file = fs_.open(temporary_ / name, OpenMode::kTruncate);
  return digested(std::move(file), digests_[name]);
}

void AtomicDirectory::write(const std::string& name, std::string_view text) {
  const auto file = create(name);
  file->write(bytes_of(text));
  file->close();
}

void AtomicDirectory::commit() {
  const auto parent = parent_directory(path_);
  fs_.sync_directory(temporary_);
  std::optional<std::filesystem::path> old;
  if (fs_.exists(path_)) {
    old = aside(path_, ".old-");
    fs_.remove_all(*old);
    fs_.rename(path_, *old);
  }
  try {
    fs_.rename(temporary_, path_);
  } catch (const Error&) {
    if (old) restore(*old);
    throw;
  }
  committed_ = true;
  fs_.sync_directory(parent);
  if (old) fs_.remove_all(*old);
}

void AtomicDirectory::restore(const std::filesystem::path& old) {
  try {
    fs_.rename(old, path_);
    fs_.sync_directory(parent_directory(path_));
  } catch (const Error&) {
    // clean_leftovers restores the old directory later.
  }
}

namespace {

/// Cleans up the leftovers of every name, or of the name `only`.
void clean(FileSystem& fs, const std::filesystem::path& directory,
           const std::optional<std::string>& only) {
  if (!fs.exists(directory)) return;
  bool changed = false;
  for (const auto& entry : fs.list(directory)) {
    const auto leftover = parse_leftover(entry);
    if (!leftover || (only && leftover->name != *only)) continue;
    if (another_running_process(leftover->pid)) continue;
    if (leftover->old && !fs.exists(directory / leftover->name))
      fs.rename(directory / entry, directory / leftover->name);
    else
      fs.remove_all(directory / entry);
    changed = true;
  }
  if (changed) fs.sync_directory(directory);
}

}  // namespace

void clean_leftovers(FileSystem& fs, const std::filesystem::path& directory) {
  clean(fs, directory, {});
}

void clean_leftovers_of(FileSystem& fs, const std::filesystem::path& path) {
  const auto place = followed(path);
  clean(fs, parent_directory(place), place.filename().string());
}

}  // namespace penstock
