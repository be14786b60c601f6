// Atomic files and directories: each is written under a temporary name, synced and renamed, so that
// a crash leaves the old one or the new one. A symbolic link (links.h) stays; its target is
// replaced. There are no transactions over several targets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/base/file_system.h"

namespace penstock {

/// A file that appears under its name, complete and durable, at commit(). An earlier file of that
/// name stays until then, and also if this object is destroyed without commit().
class AtomicFile {
 public:
  /// @param expected_bytes  the file's size if known; the error of a full disk states it
  AtomicFile(FileSystem& fs, std::filesystem::path path, std::uint64_t expected_bytes = 0);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void write(Bytes bytes);
  /// Syncs, renames over the final name, syncs the directory.
  void commit();

 private:
  template <class Action>
  void explain_full_disk(Action action);

  FileSystem& fs_;
  std::filesystem::path path_, temporary_;
  std::uint64_t expected_bytes_;
  std::unique_ptr<OutputFile> file_;
};

/// Writes one AtomicFile with these bytes and commits it.
void write_file_atomically(FileSystem& fs, const std::filesystem::path& path, Bytes bytes);
void write_file_atomically(FileSystem& fs, const std::filesystem::path& path,
                           std::string_view text);

struct FileDigest {
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH64, seed 0
  bool operator==(const FileDigest&) const = default;
};

/// Wraps `file`: close() syncs it and stores its size and checksum in `digest`.
std::unique_ptr<OutputFile> digested(std::unique_ptr<OutputFile> file, FileDigest& digest);

/// A directory without subdirectories that is built as `.NAME.tmp-PID` and appears under its name,
/// complete and durable, at commit(). An existing directory of that name is kept as `.NAME.old-PID`
/// until the new one is in place. If commit() fails, it puts the old directory back; after a kill,
/// clean_leftovers() does.
class AtomicDirectory {
 public:
  AtomicDirectory(FileSystem& fs, std::filesystem::path path);
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  ~AtomicDirectory();
  /// Creates a file in the directory. Its close() syncs it and records its digest.
  std::unique_ptr<OutputFile> create(const std::string& name);
  void write(const std::string& name, std::string_view text);
  /// The folder in which the directory is built. Other code may write files there too, if it syncs
  /// them and passes them to add().
  const std::filesystem::path& temporary() const { return temporary_; }
  void add(const std::string& name, const FileDigest& digest);
  /// Size and checksum of each closed file.
  const std::map<std::string, FileDigest>& digests() const { return digests_; }
  void commit();

 private:
  void restore(const std::filesystem::path& old);
  void check_name(const std::string& name) const;

  FileSystem& fs_;
  std::filesystem::path path_, temporary_;
  std::map<std::string, FileDigest> digests_;
  bool committed_ = false;
};

/// The temporary name for `path`: `.NAME.tmp-PID` beside it, or beside the target if it is a link.
std::filesystem::path temporary_path(const std::filesystem::path& path);

/// Removes each `.NAME.tmp-PID` in `directory` whose process no longer runs. Puts back each
/// `.NAME.old-PID` that has no successor. REQUIRES: this process is not writing there.
void clean_leftovers(FileSystem& fs, const std::filesystem::path& directory);

/// The same for one target `path`, whose directory may hold files of other programs.
void clean_leftovers_of(FileSystem& fs, const std::filesystem::path& path);

}  // namespace penstock
