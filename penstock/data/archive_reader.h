// Reads the members of compressed files and archives through libarchive, also of archives within
// archives without unpacking the outer one. The caller says which kind a file is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct archive;
struct archive_entry;

namespace penstock {

enum class ArchiveKind {
  kCompressed,  // one member without a name
  kZip,
  kTar,
  kAr,  // Debian packages
};

/// Reads front to back. Throws Error naming the file where it is damaged, truncated or of another
/// kind.
class ArchiveReader {
 public:
  ArchiveReader(const std::string& path, ArchiveKind kind);
  /// The current member of `outer`, which must live longer and must not move meanwhile.
  ArchiveReader(ArchiveReader& outer, ArchiveKind kind);
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// Moves to the next regular member; false at the end.
  bool next();
  bool is_compressed() const;
  std::string member_name() const;
  /// The current member's content. Subtracts its size from `limit`.
  std::string content(std::uint64_t& limit);

 private:
  struct Free {
    void operator()(archive* a) const;
  };
  explicit ArchiveReader(std::string path);
  static long read_outer(archive* self, void* reader, const void** block);
  void support(ArchiveKind kind);
  /// Called after opening, since a stream that is cut before its first byte would look empty.
  void check_beginning();
  void check(long status);

  std::string path_;
  std::unique_ptr<archive, Free> archive_;
  archive_entry* entry_ = nullptr;
  ArchiveReader* outer_ = nullptr;
  std::vector<char> buffer_;
};

}  // namespace penstock
