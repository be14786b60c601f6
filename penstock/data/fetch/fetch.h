// `penstock data fetch`: downloads a data set of the table (public_datasets.h) and compares it with
// its published checksum.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/data/fetch/public_datasets.h"

namespace penstock {

struct FetchOptions {
  /// A name of the table.
  std::string dataset;
  /// The folder for the file.
  std::string out = ".";
  /// An address to use instead of the table's.
  std::string url = {};
  /// A checksum to use instead of the table's: 64 hexadecimal digits, or "none" for no comparison.
  std::string sha256 = {};
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
  /// As in DownloadOptions. Not called for archives that are unpacked.
  std::function<void()> before_rename = {};
  long stall_seconds = 60, connect_seconds = 30;
};

/// The source of a file's checksum.
enum class KnownSum { published, given, unverified };
constexpr std::array<std::string_view, 3> words(KnownSum) {
  return {"published", "given", "unverified"};
}

struct FetchResult {
  std::string dataset, path, url;
  std::uint64_t bytes = 0, resumed_from = 0;
  /// The file existed already and its content is correct.
  bool already_there = false;
  /// For an archive, the members that were kept.
  std::vector<std::string> members;
  /// Always set, even if the known checksum is of another kind.
  std::string sha256;
  KnownSum checksum = KnownSum::unverified;
  std::string checksum_source;
  /// The command that makes a corpus from the data set.
  std::string next;
  std::vector<std::string> notes;
};

/// Downloads the data set's file into options.out, unless it is already there. If an address cannot
/// be reached or refuses the file, tries the next one. If the table lists `members` of an archive,
/// unpacks them into options.out and removes the archive. For members, and for a file without a
/// published checksum, NAME.fetched.json stores the SHA-256 of the download, with which the next
/// call compares.
/// Throws as download() does, and Error for a checksum that differs (the error has both; no file is
/// left), for another file of that name, and for an impossible `sha256`.
FetchResult fetch_dataset(const FetchOptions& options);

std::string to_json(const FetchResult& result);

}  // namespace penstock
