// Reading through libarchive; what kind of file it is goes by its name, and what it holds must
// agree.
#include "penstock/data/text_files.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 4> kCompressions = {".gz", ".zst", ".xz", ".bz2"};

enum class Kind { kPlain, kCompressed, kZip, kTar };

Kind kind_of(const std::string& path) {
  const std::string_view name(path);
  const std::string inner = without_compression_suffix(path);
  if (name.ends_with(".zip")) return Kind::kZip;
  if (inner.ends_with(".tar") || name.ends_with(".tgz") || name.ends_with(".txz"))
    return Kind::kTar;
  return inner.size() < path.size() ? Kind::kCompressed : Kind::kPlain;
}

/// Whether the member, or a folder that it lies in, is hidden.
bool is_hidden_member(const std::string& name) {
  return std::ranges::any_of(std::filesystem::path(name), [](const std::filesystem::path& part) {
    return is_hidden_name(part.string());
  });
}

class ArchiveReader {
 public:
  ArchiveReader(const std::string& path, Kind kind) : path_(path), archive_(archive_read_new()) {
    PENSTOCK_ASSERT(archive_ != nullptr);
    archive_read_support_filter_all(archive_.get());
    if (kind == Kind::kZip) archive_read_support_format_zip(archive_.get());
    if (kind == Kind::kTar) archive_read_support_format_tar(archive_.get());
    if (kind == Kind::kCompressed) {
      archive_read_support_format_raw(archive_.get());
      archive_read_support_format_empty(archive_.get());  // raw wants a byte at least
    }
    constexpr std::size_t block_bytes = 1 << 16;
    check(archive_read_open_filename(archive_.get(), path.c_str(), block_bytes));
    // A stream that is cut before its first byte of content would pass for an empty one.
    if (archive_error_string(archive_.get())) check(ARCHIVE_FATAL);
  }
  /// Moves to the next regular member; false at the end.
  bool next() {
    for (;;) {
      const int status = archive_read_next_header(archive_.get(), &entry_);
      if (status == ARCHIVE_EOF) return false;
      check(status);
      if (archive_entry_filetype(entry_) == AE_IFREG) return true;
    }
  }
  bool is_compressed() const {
    return archive_filter_code(archive_.get(), 0) != ARCHIVE_FILTER_NONE;
  }
  std::string member_name() const {
    const char* name = archive_entry_pathname_utf8(entry_);
    if (!name) name = archive_entry_pathname(entry_);
    return name ? name : "member without a name";
  }
  /// The current member's content; counts it against what is left of `limit`.
  std::string content(std::uint64_t& limit) {
    std::string out;
    std::vector<char> buffer(1 << 16);
    for (;;) {
      const auto got = archive_read_data(archive_.get(), buffer.data(), buffer.size());
      if (got < 0) check(static_cast<int>(got));
      if (got <= 0) return out;
      const auto bytes = static_cast<std::uint64_t>(got);
      PENSTOCK_CHECK(bytes <= limit, "'", path_,
                     "' unpacks to more than is allowed; unpack and divide it");
      limit -= bytes;
      out.append(buffer.data(), bytes);
    }
  }

 private:
  struct Free {
    void operator()(archive* a) const { archive_read_free(a); }
  };
  void check(int status) {
    if (status == ARCHIVE_OK || status > 0) return;
    const char* why = archive_error_string(archive_.get());
    // A warning may be about a member's name or dates, which do not matter here.
    if (status == ARCHIVE_WARN) return;
    fail("cannot read '", path_, "': ", why ? why : "damaged file",
         " (truncated or damaged? get the file again)");
  }

  std::string path_;
  std::unique_ptr<archive, Free> archive_;
  archive_entry* entry_ = nullptr;
};

}  // namespace

std::string without_compression_suffix(const std::string& name) {
  for (const auto suffix : kCompressions)
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  return name;
}

void read_text_file(const std::string& path,
                    const std::function<void(const std::string&, std::string)>& visit,
                    std::uint64_t limit) {
  PENSTOCK_CHECK(std::filesystem::exists(path), "cannot read '", path, "': there is no such file");
  PENSTOCK_CHECK(std::filesystem::is_regular_file(path), "cannot read '", path,
                 "': it is not a regular file; write its text to one first");
  const Kind kind = kind_of(path);
  if (kind == Kind::kPlain) {
    visit(path, real_file_system().read(path, limit));
    return;
  }
  if (kind == Kind::kCompressed) {
    ArchiveReader reader(path, kind);
    const bool any = reader.next();
    // libarchive would pass a file that is not compressed, or cut within its first bytes, as it is.
    PENSTOCK_CHECK(reader.is_compressed(), "cannot read '", path,
                   "': it is not compressed as its name says (truncated or damaged?)");
    visit(without_compression_suffix(path), any ? reader.content(limit) : "");
    return;
  }
  bool any = false;
  read_members(
      path, [](const std::string& name) { return !is_hidden_member(name); },
      [&](const std::string& name, std::string content) {
        visit(path + ":" + name, std::move(content));
        any = true;
      },
      limit);
  PENSTOCK_CHECK(any, "cannot read '", path, "': it holds nothing but hidden files, or nothing");
}

void read_members(const std::string& archive, const std::function<bool(const std::string&)>& wanted,
                  const std::function<void(const std::string&, std::string)>& visit,
                  std::uint64_t limit) {
  const Kind kind = kind_of(archive);
  PENSTOCK_CHECK(kind == Kind::kZip || kind == Kind::kTar, "'", archive, "' is no archive");
  ArchiveReader reader(archive, kind);
  while (reader.next())
    if (const std::string name = reader.member_name(); wanted(name))
      visit(name, reader.content(limit));
}

}  // namespace penstock
