// NAME.fetched.json: a record beside a download, which shows later whether the files are still the
// same. It is for files without a published checksum: members of archives, and files whose
// publishers give none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

class FetchedRecord {
 public:
  /// Reads the record beside `download`, if there is one. The record describes `files`; the
  /// download itself may have been removed. Throws Error for a damaged record.
  FetchedRecord(const std::string& download, std::vector<std::string> files);

  const std::string& path() const { return path_; }
  bool exists() const { return !sha256_.empty(); }
  /// The SHA-256 of the download.
  const std::string& sha256() const { return sha256_; }
  std::uint64_t bytes() const { return bytes_; }
  /// Whether all files exist. Throws Error if one has changed.
  bool is_complete() const;
  /// Writes the record with the files' present checksums.
  void write(const std::string& sha256, std::uint64_t bytes);

 private:
  std::string path_, sha256_;
  std::uint64_t bytes_ = 0;
  std::vector<std::string> files_, sums_;
};

}  // namespace penstock
