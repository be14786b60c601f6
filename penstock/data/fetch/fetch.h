// `penstock data fetch`: a data set of the table, downloaded and compared with its published sum.
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
  /// The folder that the file goes to.
  std::string out = ".";
  /// Addresses to use instead of the table's.
  std::string url = {};
  /// Sum to use instead of the table's: 64 hexadecimal digits, or "none" for no comparison.
  std::string sha256 = {};
  std::function<void(std::uint64_t done, std::uint64_t total)> progress = {};
  /// As in DownloadOptions. Not called for archives that are unpacked.
  std::function<void()> before_rename = {};
  long stall_seconds = 60, connect_seconds = 30;
};

/// The source of a file's sum.
enum class KnownSum { published, given, unverified };
constexpr std::array<std::string_view, 3> words(KnownSum) {
  return {"published", "given", "unverified"};
}

struct FetchResult {
  std::string dataset, path, url;
  std::uint64_t bytes = 0, resumed_from = 0;
  /// The file was there already and its content is correct.
  bool already_there = false;
  /// For an archive, the members that were kept.
  std::vector<std::string> members;
  /// Always set, even if the sum to compare with is of another kind.
  std::string sha256;
  KnownSum checksum = KnownSum::unverified;
  std::string checksum_source;
  /// The command that makes a corpus from the data set.
  std::string next;
  std::vector<std::string> notes;
};

/// Downloads the data set's file into options.out unless it is there. Of several addresses the next
/// is tried where one cannot be reached or will not serve it. Throws as download() does, and Error
/// for a sum that differs (both are named, nothing is left under the file's name), for another file
/// of that name, and for an impossible `sha256`. Of an archive with `members` these are unpacked
/// into options.out and the archive is removed. Beside them, and beside a file that has no
/// published sum, NAME.fetched.json keeps the SHA-256 of what came, and the next call compares with
/// it.
FetchResult fetch_dataset(const FetchOptions& options);

std::string to_json(const FetchResult& result);

}  // namespace penstock
