#include "penstock/data/packages/deb_file.h"

#include <fnmatch.h>

#include <cstdint>

#include "penstock/base/error.h"
#include "penstock/data/archive_reader.h"
#include "penstock/data/text_files.h"

namespace penstock {
namespace {

/// The largest size of one member. Text files of packages are far smaller.
constexpr std::uint64_t kLargestMember = std::uint64_t{1} << 28;

/// dictd's ".dz" is gzip with an index that gzip ignores.
bool is_compressed_name(const std::string& name) {
  return name.ends_with(".dz") || without_compression_suffix(name).size() < name.size();
}

std::string plain_name(const std::string& name) {
  return name.ends_with(".dz") ? name.substr(0, name.size() - 3) : without_compression_suffix(name);
}

std::string member_path(const ArchiveReader& reader) {
  std::string name = reader.member_name();
  return name.starts_with("./") ? name.substr(2) : name;
}

class Visitor {
 public:
  Visitor(const std::string& inner, const std::function<bool(const std::string&)>& wanted,
          const std::function<void(const std::string&, std::string)>& visit)
      : inner_(inner), wanted_(wanted), visit_(visit) {}

  void package(ArchiveReader& reader) const {
    if (inner_.empty()) return members(reader);
    while (reader.next()) {
      const std::string name = member_path(reader);
      if (!fits_pattern(plain_name(name), inner_)) continue;
      ArchiveReader archive(reader, name.ends_with(".zip") ? ArchiveKind::kZip : ArchiveKind::kTar);
      members(archive);
    }
  }

 private:
  void members(ArchiveReader& reader) const {
    while (reader.next()) {
      const std::string name = member_path(reader), plain = plain_name(name);
      if (!wanted_(plain)) continue;
      std::uint64_t limit = kLargestMember;
      if (is_compressed_name(name)) {
        ArchiveReader unpacked(reader, ArchiveKind::kCompressed);
        visit_(plain, unpacked.next() ? unpacked.content(limit) : std::string());
      } else {
        visit_(plain, reader.content(limit));
      }
    }
  }

  const std::string& inner_;
  const std::function<bool(const std::string&)>& wanted_;
  const std::function<void(const std::string&, std::string)>& visit_;
};

}  // namespace

bool fits_pattern(const std::string& text, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

void read_deb(const std::string& path, const std::string& inner,
              const std::function<bool(const std::string&)>& wanted,
              const std::function<void(const std::string&, std::string)>& visit) {
  ArchiveReader package(path, ArchiveKind::kAr);
  while (package.next()) {
    if (!package.member_name().starts_with("data.tar")) continue;
    ArchiveReader data(package, ArchiveKind::kTar);
    Visitor(inner, wanted, visit).package(data);
    return;
  }
  fail("'", path, "' is no Debian package: it has no data.tar; get the file again");
}

}  // namespace penstock
