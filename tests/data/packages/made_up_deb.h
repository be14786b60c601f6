// Builds Debian packages from made-up files with libarchive.
#pragma once

#include <archive.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "tests/data/packed_files.h"

namespace penstock::testing {

using Members = std::map<std::string, std::string>;

/// An archive of these members in memory. `format` and `filter` are names that
/// archive_write_set_format_by_name and archive_write_add_filter_by_name take; "" is no filter.
inline std::string archive_of(const Members& members, const char* format, const char* filter) {
  std::string out(1 << 20, '\0');
  for (const auto& [name, content] : members) out.resize(out.size() + 2 * content.size());
  std::size_t used = 0;
  const std::unique_ptr<archive, int (*)(archive*)> writer(archive_write_new(), archive_write_free);
  EXPECT_EQ(archive_write_set_format_by_name(writer.get(), format), ARCHIVE_OK);
  if (*filter) {
    EXPECT_EQ(archive_write_add_filter_by_name(writer.get(), filter), ARCHIVE_OK);
  }
  archive_write_set_bytes_in_last_block(writer.get(), 1);
  EXPECT_EQ(archive_write_open_memory(writer.get(), out.data(), out.size(), &used), ARCHIVE_OK);
  write_members(writer.get(), members);
  archive_write_close(writer.get());
  out.resize(used);
  return out;
}

inline std::string gzip_of(const std::string& content) {
  return archive_of({{"content", content}}, "raw", "gzip");
}

/// A package in the format of deb(5). `members` have names without "./"; the function adds it.
inline std::string deb_of(const Members& members, const char* filter = "xz") {
  Members dotted;
  for (const auto& [name, content] : members) dotted["./" + name] = content;
  return archive_of({{"control.tar.xz", archive_of({{"./control", "Package: x\n"}}, "ustar", "xz")},
                     {std::string("data.tar") + (*filter ? "." : "") + filter,
                      archive_of(dotted, "ustar", filter)},
                     {"debian-binary", "2.0\n"}},
                    "arsvr4", "");
}

}  // namespace penstock::testing
