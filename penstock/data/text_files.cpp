// Reads text files, plain, compressed or in archives. A file's name decides its kind; the content
// must match it.
#include "penstock/data/text_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/mapped_file.h"
#include "penstock/data/archive_reader.h"
#include "penstock/data/unpacked_text.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 4> kCompressions = {".gz", ".zst", ".xz", ".bz2"};

/// The kind of archive by the file's name; nullopt for a plain file.
std::optional<ArchiveKind> kind_of(const std::string& path) {
  const std::string_view name(path);
  const std::string inner = without_compression_suffix(path);
  if (name.ends_with(".zip")) return ArchiveKind::kZip;
  if (inner.ends_with(".tar") || name.ends_with(".tgz") || name.ends_with(".txz"))
    return ArchiveKind::kTar;
  if (inner.size() < path.size()) return ArchiveKind::kCompressed;
  return std::nullopt;
}

/// Whether the member, or a folder that contains it, is hidden.
bool is_hidden_member(const std::string& name) {
  return std::ranges::any_of(std::filesystem::path(name), [](const std::filesystem::path& part) {
    return is_hidden_name(part.string());
  });
}

using VisitText = std::function<void(const std::string&, std::string_view)>;

void read_plain(const std::string& path, const VisitText& visit) {
  if (std::filesystem::file_size(path) <= kLargeText)
    return visit(path, real_file_system().read(path, kLargeText));
  const MappedFile file(path);
  visit(path, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
}

}  // namespace

std::string without_compression_suffix(const std::string& name) {
  for (const auto suffix : kCompressions)
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  return name;
}

bool is_packed_name(const std::string& name) { return kind_of(name).has_value(); }

void read_text_file(const std::string& path, const VisitText& visit,
                    const TextFileOptions& options) {
  PENSTOCK_CHECK(std::filesystem::exists(path), "cannot read '", path, "': there is no such file");
  PENSTOCK_CHECK(std::filesystem::is_regular_file(path), "cannot read '", path,
                 "': it is not a regular file; write its text to one first");
  const auto kind = kind_of(path);
  if (!kind) return read_plain(path, visit);
  std::uint64_t limit = options.limit;
  if (!options.folder.empty())
    limit = std::max<std::uint64_t>(limit, 64 * std::filesystem::file_size(path));
  ArchiveReader reader(path, *kind);
  const auto visit_member = [&](const std::string& name) {
    UnpackedText text(options.folder);
    reader.content(limit, [&](std::string_view block) { text.append(block); });
    visit(name, text.text());
  };
  if (*kind == ArchiveKind::kCompressed) {
    const bool any = reader.next();
    // libarchive returns a file that is not compressed, or that ends within its first bytes,
    // unchanged.
    PENSTOCK_CHECK(reader.is_compressed(), "cannot read '", path,
                   "': it is not compressed as its name says (truncated or damaged?)");
    const std::string name = without_compression_suffix(path);
    return any ? visit_member(name) : visit(name, "");
  }
  bool any = false;
  while (reader.next()) {
    const std::string name = reader.member_name();
    if (is_hidden_member(name)) continue;
    visit_member(path + ":" + name);
    any = true;
  }
  PENSTOCK_CHECK(any, "cannot read '", path, "': it holds nothing but hidden files, or nothing");
}

void read_members(const std::string& archive, const std::function<bool(const std::string&)>& wanted,
                  const std::function<void(const std::string&, std::string)>& visit,
                  std::uint64_t limit) {
  const auto kind = kind_of(archive);
  PENSTOCK_CHECK(kind == ArchiveKind::kZip || kind == ArchiveKind::kTar, "'", archive,
                 "' is no archive");
  ArchiveReader reader(archive, *kind);
  while (reader.next())
    if (const std::string name = reader.member_name(); wanted(name))
      visit(name, reader.content(limit));
}

}  // namespace penstock
