// Writes archives and compressed files with libarchive.
#pragma once

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace penstock::testing {

/// Writes an ordinary file for each member: a pair of a name and a content.
template <class Members>
void write_members(archive* out, const Members& members) {
  for (const auto& [name, content] : members) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         archive_entry_free);
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(content.size()));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    EXPECT_EQ(archive_write_header(out, entry.get()), ARCHIVE_OK);
    EXPECT_EQ(archive_write_data(out, content.data(), content.size()),
              static_cast<la_ssize_t>(content.size()));
  }
}

/// Writes members into an archive or, for the raw format, one compressed file. `format` and
/// `filter` are numbers of libarchive. Returns the path.
template <class Members = std::vector<std::pair<std::string, std::string>>>
std::string pack(const std::string& path, int format, int filter, const Members& members) {
  archive* out = archive_write_new();
  EXPECT_EQ(archive_write_set_format(out, format), ARCHIVE_OK);
  EXPECT_EQ(archive_write_add_filter(out, filter), ARCHIVE_OK);
  EXPECT_EQ(archive_write_open_filename(out, path.c_str()), ARCHIVE_OK)
      << archive_error_string(out);
  write_members(out, members);
  EXPECT_EQ(archive_write_close(out), ARCHIVE_OK);
  archive_write_free(out);
  return path;
}

}  // namespace penstock::testing
