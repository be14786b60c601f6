#include "penstock/data/prepare/gather_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "penstock/base/error.h"
#include "penstock/data/packages/fetch_packages.h"
#include "penstock/data/packages/read_packages.h"
#include "penstock/data/prepare/system_corpus.h"

namespace penstock {
namespace {

/// Limits on a domain's bytes: the most that is read, and the smallest and largest size that stays.
struct Limits {
  std::uint64_t read;
  std::int64_t smallest, largest;
};
// A smaller domain is not informative, and a larger domain only costs time.
constexpr Limits kSystemLimits = {12 << 20, 1 << 20, 4 << 20};
// Several hundred MB in all. The limit keeps each domain below a tenth of them; C alone has a GB in
// the kernel. A third more is read than stays, since about that much is removed as near-duplicates.
constexpr Limits kMoreLimits = {64 << 20, 1 << 20, 48 << 20};

constexpr const Limits& gather_limits(bool more) { return more ? kMoreLimits : kSystemLimits; }

FetchedPackages packages_of(const std::vector<std::string>& patterns, const GatherOptions& options,
                            const std::function<void(std::string_view)>& progress) {
  if (options.packages.empty()) return fetch_packages(patterns, package_cache(), progress);
  FetchedPackages out{.files = packages_in(options.packages), .notes = {}};
  std::string missing;
  for (const auto& pattern : patterns)
    if (!newest_package(out.files, pattern)) missing += (missing.empty() ? "" : ", ") + pattern;
  if (!missing.empty())
    out.notes.push_back(
        fmt::format("{} has no file of these packages: {}", options.packages, missing));
  return out;
}

/// The rows of the table that have a file. Adds a note on rows without a file.
std::vector<PackageSource> find_sources(const GatherOptions& options,
                                        std::vector<std::string>& notes,
                                        const std::function<void(std::string_view)>& progress) {
  auto rows = text_packages();
  std::vector<std::string> patterns;
  for (const auto& row : rows) patterns.push_back(row.name);
  FetchedPackages packages = packages_of(patterns, options, progress);
  std::ranges::move(packages.notes, std::back_inserter(notes));
  std::vector<PackageSource> sources;
  for (auto& row : rows)
    if (auto file = newest_package(packages.files, row.name))
      sources.push_back({std::move(row), std::move(*file)});
  PENSTOCK_CHECK(!sources.empty(), "'", options.packages,
                 "' holds none of the packages with more text, such as linux-source-6.1; fill it "
                 "with `apt-get download`, or leave options.packages out");
  return sources;
}

}  // namespace

GatheredText gather_text(const GatherOptions& options,
                         const std::function<void(std::string_view)>& progress) {
  GatheredText text;
  // The sources come first, since this step may fail.
  std::vector<PackageSource> sources;
  if (options.more) sources = find_sources(options, text.notes, progress);
  if (progress) progress("gathering this machine's text");
  const std::uint64_t most = gather_limits(options.more).read;
  text.documents =
      read_system_documents({.seed = options.seed, .domain_bytes = most, .root = options.root});
  const auto found = domain_bytes(text.documents);
  for (const auto& domain : system_domains())
    if (!found.contains(domain))
      text.notes.push_back(
          fmt::format("domain {} missing: this machine has no text of it", domain));
  if (!options.more) return text;
  auto read = read_packages(
      sources, {.seed = options.seed, .domain_bytes = most, .root = options.root}, progress);
  std::ranges::move(read.documents, std::back_inserter(text.documents));
  text.packages = std::move(read.packages);
  return text;
}

std::map<std::string, std::int64_t> domain_bytes(const std::vector<Document>& documents) {
  std::map<std::string, std::int64_t> bytes;
  for (const auto& document : documents) bytes[document.domain] += std::ssize(document.text);
  return bytes;
}

std::vector<std::string> limit_domains(std::vector<Document>& documents,
                                       const std::map<std::string, std::int64_t>& found,
                                       bool more) {
  std::vector<std::string> notes;
  const auto left = domain_bytes(documents);
  for (const auto& [domain, bytes] : found)
    if (!left.contains(domain))
      notes.push_back(fmt::format("domain {} dropped: all of its text repeats other text", domain));
  std::map<std::string, std::int64_t> kept;
  std::erase_if(documents, [&](const Document& document) {
    auto& sum = kept[document.domain];
    if (sum + std::ssize(document.text) > gather_limits(more).largest) return true;
    sum += std::ssize(document.text);
    return false;
  });
  for (const auto& [domain, sum] : kept) {
    if (sum >= gather_limits(more).smallest) continue;
    notes.push_back(fmt::format("domain {} dropped: {} bytes of text here, below {}", domain, sum,
                                gather_limits(more).smallest));
    std::erase_if(documents,
                  [&dropped = domain](const Document& d) { return d.domain == dropped; });
  }
  PENSTOCK_CHECK(!documents.empty(),
                 "this machine has too little text for options.system: no domain of ",
                 gather_limits(more).smallest, " bytes; name files or folders instead");
  return notes;
}

}  // namespace penstock
