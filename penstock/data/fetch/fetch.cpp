#include "penstock/data/fetch/fetch.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/base/json_text.h"
#include "penstock/base/links.h"
#include "penstock/data/fetch/download.h"
#include "penstock/data/fetch/fetched_record.h"
#include "penstock/data/fetch/unpack_members.h"

namespace penstock {
namespace {

struct ExpectedSum {
  ShaKind kind = ShaKind::kSha256;
  std::string hex;  // empty: nothing to compare with
  std::string source;
  bool waived = false;  // the caller asked for no check
};

ExpectedSum expected_sum(const FetchOptions& options, const PublicDataset& dataset) {
  if (options.sha256.empty())
    return {dataset.sum_kind, std::string(dataset.sum), std::string(dataset.sum_source)};
  if (options.sha256 == "none") return {.waived = true};
  std::string hex = options.sha256;
  for (char& c : hex)
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  const bool good = hex.size() == 64 && hex.find_first_not_of("0123456789abcdef") == hex.npos;
  PENSTOCK_CHECK(good, "options.sha256 '", options.sha256,
                 "' should be 64 hexadecimal digits, or none to compare with nothing");
  return {ShaKind::kSha256, hex, "the sum that was given"};
}

void check_sum(const std::string& file, const ExpectedSum& expected, const std::string& what,
               const std::string& remedy) {
  if (expected.hex.empty()) return;
  const std::string found = sha_of_file(file, expected.kind);
  PENSTOCK_CHECK(found == expected.hex, what, " has ", sha_name(expected.kind), " ", found,
                 ", but ", expected.hex, " is expected (", expected.source, "); ", remedy);
}

/// Downloads from the first address that serves the file. `result` gets the address.
void download_from_any(const std::vector<std::string>& urls, DownloadOptions download_options,
                       FetchResult& result) {
  std::string failures;
  for (const auto& url : urls) {
    download_options.url = url;
    try {
      const DownloadResult done = download(download_options);
      result.url = url;
      result.bytes = done.bytes;
      result.resumed_from = done.resumed_from;
      return;
    } catch (const UnavailableError& error) {
      failures += concat(failures.empty() ? "" : "; and ", error.what());
      if (&url != &urls.back()) result.notes.emplace_back(error.what());
    }
  }
  throw UnavailableError(failures + "; another address can be given as options.url");
}

/// Makes sure that the file is at result.path: it is there already, or it is downloaded.
void get_file(const FetchOptions& options, const PublicDataset& dataset,
              const ExpectedSum& expected, FetchResult& result) {
  auto& fs = real_file_system();
  if (fs.exists(result.path)) {
    check_sum(result.path, expected, concat("'", result.path, "' is there already and"),
              "remove it to fetch it again, or name another folder as options.out");
    result.already_there = true;
    result.bytes = fs.size(result.path);
    return;
  }
  std::vector<std::string> urls(dataset.urls.begin(), dataset.urls.end());
  if (!options.url.empty()) urls = {options.url};
  DownloadOptions download_options{
      .path = result.path,
      .progress = options.progress,
      .verify =
          [&](const std::string& file) {
            check_sum(file, expected, "what was fetched for '" + result.path + "'",
                      "it was removed: try again, or another address");
          },
      .before_rename = dataset.members.empty() ? options.before_rename : nullptr,
      .stall_seconds = options.stall_seconds,
      .connect_seconds = options.connect_seconds};
  download_from_any(urls, download_options, result);
  if (options.url.empty() && !dataset.fetched)
    result.notes.push_back(concat("address unverified: taken from ", dataset.url_source,
                                  ", and not tried by the project before its release"));
}

/// Whether all files that the record of an earlier call lists are there. If so, fills `result`.
bool is_recorded(const FetchedRecord& record, const ExpectedSum& expected, FetchResult& result) {
  if (!record.exists()) return false;
  const bool other =
      expected.kind == ShaKind::kSha256 && !expected.hex.empty() && record.sha256() != expected.hex;
  PENSTOCK_CHECK(!other, "'", record.path(), "' is of a file with sha256 ", record.sha256(),
                 ", but ", expected.hex, " is expected (", expected.source,
                 "); remove it to fetch that, or name another folder as options.out");
  if (!record.is_complete()) return false;
  result.already_there = true;
  result.sha256 = record.sha256();
  result.bytes = record.bytes();
  return true;
}

std::string next_command(const PublicDataset& dataset, const FetchOptions& options,
                         const std::string& path) {
  std::string out(dataset.prepare);
  for (const auto& [word, value] :
       {std::pair<const char*, std::string>{"FILE", path}, {"DIR", options.out}})
    if (const auto at = out.find(word); at != out.npos)
      out.replace(at, std::string_view(word).size(), value);
  return out;
}

}  // namespace

FetchResult fetch_dataset(const FetchOptions& options) {
  const PublicDataset& dataset = public_dataset(options.dataset);
  const ExpectedSum expected = expected_sum(options, dataset);
  const auto path = std::filesystem::path(options.out) / dataset.file;
  FetchResult result{.dataset = options.dataset, .path = path.string()};
  result.checksum = expected.hex.empty()     ? KnownSum::unverified
                    : options.sha256.empty() ? KnownSum::published
                                             : KnownSum::given;
  result.checksum_source = expected.source;
  result.next = next_command(dataset, options, result.path);
  for (const auto member : dataset.members)
    result.members.push_back((std::filesystem::path(options.out) / member).string());
  const bool keeps_record =
      !result.members.empty() || (dataset.sum.empty() && options.sha256.empty());
  FetchedRecord record(
      result.path, result.members.empty() ? std::vector<std::string>{result.path} : result.members);
  const bool recorded = keeps_record && is_recorded(record, expected, result);
  if (!recorded) {
    get_file(options, dataset, expected, result);
    result.sha256 = sha_of_file(result.path, ShaKind::kSha256);
    if (!result.members.empty()) unpack_members(result.path, dataset.members, options.out);
    if (keeps_record) record.write(result.sha256, result.bytes);
  }
  // If the archive was there already behind a link, only the link is removed.
  if (!result.members.empty())
    real_file_system().remove_all(result.already_there ? path : followed(path));
  if (expected.hex.empty())
    result.notes.push_back(
        concat("checksum unverified: ",
               expected.waived ? "none was asked for" : "no published one is known",
               "; this file's sha256 is ", result.sha256,
               keeps_record ? ", which the next call compares with" : ""));
  return result;
}

std::string to_json(const FetchResult& result) {
  const nlohmann::ordered_json json = {{"dataset", result.dataset},
                                       {"path", result.path},
                                       {"url", result.url},
                                       {"bytes", result.bytes},
                                       {"resumed_from", result.resumed_from},
                                       {"already_there", result.already_there},
                                       {"members", result.members},
                                       {"sha256", result.sha256},
                                       {"checksum", word(result.checksum)},
                                       {"checksum_source", result.checksum_source},
                                       {"next", result.next},
                                       {"notes", result.notes}};
  return json_text(json, 2);
}

}  // namespace penstock
