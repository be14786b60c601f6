// NAME.fetched.json: a record beside a download, by which a later download can tell whether the
// files are still the same. It is for files without a published checksum: members of archives, and
// files whose publishers give none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

class FetchedRecord {
 public:
  /// `files` are what the record is about; the download itself may be gone. Reads the record that
  /// is beside `download`. Throws Error for a damaged one.
  FetchedRecord(const std::string& download, std::vector<std::string> files);

  const std::string& path() const { return path_; }
  bool exists() const { return !sha256_.empty(); }
  /// Of the download.
  const std::string& sha256() const { return sha256_; }
  std::uint64_t bytes() const { return bytes_; }
  /// Whether all files are there. Throws Error for one that has changed.
  bool is_complete() const;
  /// Notes the files as they are now.
  void write(const std::string& sha256, std::uint64_t bytes);

 private:
  std::string path_, sha256_;
  std::uint64_t bytes_ = 0;
  std::vector<std::string> files_, sums_;
};

}  // namespace penstock
