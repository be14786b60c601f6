// Reads the members of compressed files and archives through libarchive. It also reads an archive
// inside an archive without unpacking the outer one. The caller states each file's kind.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
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

/// Reads the members in the file's order. Throws Error with the file's name if the file is damaged,
/// truncated or of another kind.
class ArchiveReader {
 public:
  ArchiveReader(const std::string& path, ArchiveKind kind);
  /// Reads the current member of `outer`. REQUIRES: `outer` outlives this reader and does not move
  /// to its next member meanwhile.
  ArchiveReader(ArchiveReader& outer, ArchiveKind kind);
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// Moves to the next regular member; false at the end.
  bool next();
  bool is_compressed() const;
  std::string member_name() const;
  /// The current member's content. Subtracts its size from `limit`; throws Error if it is larger.
  std::string content(std::uint64_t& limit);
  /// The same, block by block.
  void content(std::uint64_t& limit, const std::function<void(std::string_view block)>& visit);

 private:
  struct Free {
    void operator()(archive* a) const;
  };
  explicit ArchiveReader(std::string path);
  static long read_outer(archive* self, void* reader, const void** block);
  void support(ArchiveKind kind);
  /// Throws Error if opening failed: a stream cut before its first byte would look like an empty
  /// one.
  void check_beginning();
  void check(long status);

  std::string path_;
  std::unique_ptr<archive, Free> archive_;
  archive_entry* entry_ = nullptr;
  ArchiveReader* outer_ = nullptr;
  std::vector<char> buffer_;
};

}  // namespace penstock
