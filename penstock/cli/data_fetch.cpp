// `penstock data fetch`: a public data set, downloaded and checked.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/joined.h"
#include "penstock/base/json_text.h"
#include "penstock/base/progress.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/cli/commands.h"
#include "penstock/cli/processes/end_on_signal.h"
#include "penstock/data/fetch/fetch.h"
#include "penstock/tasks/data_sets.h"

namespace penstock {
namespace {

struct FetchArguments {
  FetchOptions fetch;
  std::vector<std::string> names;
  bool json = false, all = false, list = false;
};

/// "12.3 MB of 36.4 MB  1.2 MB/s  20s left"
class TransferLine {
 public:
  explicit TransferLine(std::FILE* out) : line_(out) {}
  void operator()(std::uint64_t done, std::uint64_t total) {
    using namespace std::chrono;
    const auto now = steady_clock::now();
    if (first_ == steady_clock::time_point{}) {
      first_ = now;
      begin_ = done;
    }
    if (!line_.due()) return;
    const double seconds = duration<double>(now - first_).count();
    const double rate = seconds > 0 ? static_cast<double>(done - begin_) / seconds : 0;
    std::string text = fmt::format("{:.1f} MB", static_cast<double>(done) * 1e-6);
    if (total > 0) text += fmt::format(" of {:.1f} MB", static_cast<double>(total) * 1e-6);
    text += fmt::format("  {:.2f} MB/s", rate * 1e-6);
    if (total > done && rate > 0)
      text += "  " + duration_text(static_cast<double>(total - done) / rate) + " left";
    line_.show(text);
  }
  void finish() { line_.finish(); }

 private:
  ProgressLine line_;
  std::chrono::steady_clock::time_point first_{};
  std::uint64_t begin_ = 0;
};

void print_result(const FetchResult& result) {
  const char* known = result.checksum == KnownSum::published ? ", as published"
                      : result.checksum == KnownSum::given   ? ", as given"
                                                             : "";
  fmt::print("{} {}: {} bytes{}\n", result.already_there ? "already there:" : "fetched",
             result.path, grouped(static_cast<long long>(result.bytes)), known);
  fmt::print("sha256 {}\n", result.sha256);
  if (!result.members.empty())
    fmt::print("unpacked {}; the archive itself is not kept\n", fmt::join(result.members, ", "));
  if (result.resumed_from > 0)
    fmt::print("the first {} bytes were there from an earlier attempt\n",
               grouped(static_cast<long long>(result.resumed_from)));
  if (result.checksum == KnownSum::published)
    fmt::print("checksum published in {}\n", result.checksum_source);
  for (const auto& note : result.notes) fmt::print("note: {}\n", note);
  fmt::print("next: {}\n", result.next);
}

FetchResult fetch_one(const FetchArguments& arguments, const std::string& dataset) {
  FetchOptions fetch = arguments.fetch;
  fetch.dataset = dataset;
  EndOnSignal interrupt("interrupted; run the same command again to go on from where it stopped");
  fetch.before_rename = [&] { interrupt.disarm(); };
  TransferLine line(arguments.json ? nullptr : stderr);
  fetch.progress = [&](std::uint64_t done, std::uint64_t total) { line(done, total); };
  FetchResult result = fetch_dataset(fetch);
  line.finish();
  if (!arguments.json) print_result(result);
  return result;
}

/// Every data set with its addresses and the known facts of its bytes.
void list_datasets() {
  for (const PublicDataset& set : public_datasets()) {
    fmt::print("{:<21} {}{}{}\n", set.name, set.summary,
               set.bytes > 0 ? fmt::format(", {:.2f} MB", static_cast<double>(set.bytes) * 1e-6)
                             : std::string(),
               set.licence.empty() ? "" : concat(", ", set.licence));
    for (const auto url : set.urls) fmt::print("  {}\n", url);
    if (set.sum.empty())
      fmt::print("  no published checksum: the first fetch notes its own\n");
    else
      fmt::print("  {} {}\n  ({}{})\n", sha_name(set.sum_kind), set.sum, set.sum_source,
                 set.fetched ? "" : "; not tried by the project itself");
  }
}

nlohmann::ordered_json datasets_json() {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const PublicDataset& set : public_datasets())
    out.push_back({{"name", set.name},
                   {"summary", set.summary},
                   {"urls", set.urls},
                   {"bytes", set.bytes},
                   {"licence", set.licence},
                   {"checksum_kind", set.sum.empty() ? "" : sha_name(set.sum_kind)},
                   {"checksum", set.sum},
                   {"checksum_source", set.sum_source},
                   {"fetched", set.fetched}});
  return out;
}

/// The data sets that the words name, each once.
std::vector<std::string> chosen_datasets(const FetchArguments& arguments) {
  if (arguments.all) return tasks::all_data_sets();
  if (arguments.names.empty()) throw CLI::RequiredError("NAME, --all or --list");
  std::vector<std::string> out;
  for (const std::string& name : arguments.names)
    for (std::string& set : tasks::data_sets_of(name))
      if (std::ranges::find(out, set) == out.end()) out.push_back(std::move(set));
  return out;
}

void run_fetch(const FetchArguments& arguments) {
  if (arguments.list && arguments.json) return fmt::print("{}\n", json_text(datasets_json(), 2));
  if (arguments.list) return list_datasets();
  const std::vector<std::string> sets = chosen_datasets(arguments);
  const bool given = !arguments.fetch.url.empty() || !arguments.fetch.sha256.empty();
  PENSTOCK_CHECK(!given || sets.size() == 1, "options.url and options.sha256 are of one data set, ",
                 "and these are ", joined(sets), "; name one of them");
  std::string json;
  for (const std::string& set : sets) {
    const FetchResult result = fetch_one(arguments, set);
    json += (json.empty() ? "" : ",\n") + to_json(result);
  }
  if (arguments.json) fmt::print("{}\n", sets.size() == 1 ? json : "[" + json + "]");
}

constexpr const char* kFetchExamples =
    "Examples:\n"
    "  penstock data fetch enwik8 --out downloads\n"
    "  penstock data fetch remoe piqa --out zero_shot          # rows of tasks and groups of them\n"
    "  penstock data fetch wikitext-103 --url https://example.org/wikitext-103-v1.zip\n"
    "  penstock data fetch --list                              # addresses, checksums, licences\n"
    "The same command continues an interrupted download.";

}  // namespace

void add_data_fetch_command(CLI::App& data) {
  CLI::App* command =
      data.add_subcommand("fetch", "Download public data sets and compare them with checksums");
  const auto options = std::make_shared<FetchArguments>();
  FetchOptions& fetch = options->fetch;
  auto* names = command->add_option(
      "NAME", options->names,
      "data sets (enwik8, wikitext-103, text8, ...), tasks (arc_easy), or groups of "
      "tasks (remoe)");
  command->add_flag("--all", options->all, "fetch the rows of all tasks")->excludes(names);
  command
      ->add_flag("--list", options->list,
                 "only list every data set with its addresses, size, checksum and licence")
      ->excludes(names);
  command->add_option("--out", fetch.out, "folder for the files")->capture_default_str();
  command->add_option("--url", fetch.url, "another address of the file");
  command->add_option(
      "--sha256", fetch.sha256,
      "checksum to compare with, in place of the published one; none: no comparison");
  add_json(*command, options->json, "print the result as one JSON object");
  command->footer(kFetchExamples);
  command->callback([options] { run_fetch(*options); });
}

}  // namespace penstock
