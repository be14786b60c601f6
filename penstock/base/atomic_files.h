// Files and directories, complete or absent whatever happens: made aside, synced, renamed. A link
// (links.h) stays, and what it leads to is written. Not a transaction over several targets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/base/checksum.h"
#include "penstock/base/file_system.h"

namespace penstock {

/// A file that appears under its name, whole and durable, at commit(); before that, or if it is
/// destroyed uncommitted, an earlier file of that name stays.
class AtomicFile {
 public:
  /// @param expected_bytes  if known, said in the error of a full disk
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

/// One AtomicFile with these bytes.
void write_file_atomically(FileSystem& fs, const std::filesystem::path& path, Bytes bytes);
void write_file_atomically(FileSystem& fs, const std::filesystem::path& path,
                           std::string_view text);

struct FileDigest {
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH64, seed 0
  bool operator==(const FileDigest&) const = default;
};

/// The same file; close() syncs it and notes size and checksum there.
std::unique_ptr<OutputFile> digested(std::unique_ptr<OutputFile> file, FileDigest& digest);

/// A flat directory, built aside as `.NAME.tmp-PID`, that appears under its name, whole and
/// durable, at commit(). An existing directory of that name is kept as `.NAME.old-PID` until the
/// new one stands: it comes back when commit() fails, and after a kill by clean_leftovers.
class AtomicDirectory {
 public:
  AtomicDirectory(FileSystem& fs, std::filesystem::path path);
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;
  ~AtomicDirectory();
  /// A new file of the directory. close() syncs it and notes its digest.
  std::unique_ptr<OutputFile> create(const std::string& name);
  void write(const std::string& name, std::string_view text);
  /// Where it is built. Others may write files there too: durable ones, which add() tells of.
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

/// Where `path` is made: `.NAME.tmp-PID` beside it, or beside what it links to.
std::filesystem::path temporary_path(const std::filesystem::path& path);

/// Removes what writers that no longer run left in `directory` (`.NAME.tmp-PID`), and puts back an
/// `.NAME.old-PID` whose successor never appeared. This process must not be writing there.
void clean_leftovers(FileSystem& fs, const std::filesystem::path& directory);

/// The same for the one target `path`, whose directory may hold other programs' files.
void clean_leftovers_of(FileSystem& fs, const std::filesystem::path& path);

}  // namespace penstock
