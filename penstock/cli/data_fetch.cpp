// Command line of `penstock data fetch`.
#include "penstock/cli/data_fetch.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/cli/end_on_signal.h"
#include "penstock/data/fetch.h"

namespace penstock {
namespace {

struct FetchArguments {
  FetchOptions fetch;
  bool json = false;
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
  const char* known = result.checksum == "published" ? ", as published"
                      : result.checksum == "given"   ? ", as given"
                                                     : "";
  fmt::print("{} {}: {} bytes{}\n", result.already_there ? "already there:" : "fetched",
             result.path, grouped(static_cast<long long>(result.bytes)), known);
  fmt::print("sha256 {}\n", result.sha256);
  if (result.resumed_from > 0)
    fmt::print("the first {} bytes were there from an earlier attempt\n",
               grouped(static_cast<long long>(result.resumed_from)));
  if (result.checksum == "published")
    fmt::print("checksum published in {}\n", result.checksum_source);
  for (const auto& note : result.notes) fmt::print("note: {}\n", note);
  fmt::print("next: {}\n", result.next);
}

void run_fetch(const FetchArguments& arguments) {
  FetchOptions fetch = arguments.fetch;
  EndOnSignal interrupt("interrupted; run the same command again to go on from where it stopped");
  fetch.before_rename = [&] { interrupt.disarm(); };
  TransferLine line(arguments.json ? nullptr : stderr);
  fetch.progress = [&](std::uint64_t done, std::uint64_t total) { line(done, total); };
  const FetchResult result = fetch_dataset(fetch);
  line.finish();
  if (arguments.json) {
    fmt::print("{}\n", to_json(result));
  } else {
    print_result(result);
  }
}

std::string examples() {
  std::string text =
      "Examples:\n"
      "  penstock data fetch enwik8 --out downloads\n"
      "  penstock data fetch wikitext-103 --url https://example.org/wikitext-103-v1.zip\n"
      "An interrupted download goes on when the same command is run again.\n\n"
      "Data sets:";
  for (const auto& dataset : public_datasets()) {
    text += fmt::format("\n  {:<13} {}, {:.1f} MB\n", dataset.name, dataset.summary,
                        static_cast<double>(dataset.bytes) * 1e-6);
    for (const auto url : dataset.urls) text += fmt::format("                {}\n", url);
    text += fmt::format("                {}\n",
                        dataset.sum.empty() ? std::string("no published checksum")
                                            : concat(sha_name(dataset.sum_kind), " ", dataset.sum));
    text += fmt::format("                ({}{})", dataset.sum_source,
                        dataset.fetched ? "" : "; unverified by the project itself");
  }
  return text;
}

}  // namespace

void add_data_fetch_command(CLI::App& data) {
  CLI::App* command =
      data.add_subcommand("fetch", "Download a public data set and compare it with its checksum");
  const auto options = std::make_shared<FetchArguments>();
  FetchOptions& fetch = options->fetch;
  command->add_option("DATASET", fetch.dataset, "enwik8, wikitext-103 or text8")->required();
  command->add_option("--out", fetch.out, "folder that the file goes to")->capture_default_str();
  command->add_option("--url", fetch.url, "another address of the same file");
  command->add_option("--sha256", fetch.sha256,
                      "compare with this sum instead of the published one; none: with nothing");
  command->add_flag("--json", options->json, "print the result as one JSON object");
  command->footer(examples());
  command->callback([options] { run_fetch(*options); });
}

}  // namespace penstock
