#include "penstock/data/packages/read_packages.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/data/files_below.h"
#include "penstock/data/packages/cut_text.h"
#include "penstock/data/packages/deb_file.h"
#include "penstock/data/packages/man_text.h"
#include "penstock/data/packages/seeded_choice.h"
#include "penstock/data/packages/usable_text.h"
#include "penstock/data/stage_progress.h"
#include "penstock/data/text_files.h"

namespace penstock {
namespace {

namespace files = std::filesystem;

class Reading {
 public:
  Reading(const ReadPackagesOptions& options, const std::function<void(std::string_view)>& progress)
      : options_(options), progress_(progress) {}

  void package(const PackageSource& source, const std::string& place) {
    progress_.say(fmt::format("reading {} ({})", source.file.name, place));
    uses_.push_back({source.file.name, source.file.version, source.text.licence});
    std::uint64_t bytes = 0;
    const PackageText* text = nullptr;
    read_deb(
        source.file.path, source.text.archive,
        [&](const std::string& name) {
          text = text_of(source.text, name);
          return text != nullptr;
        },
        [&](const std::string& name, std::string content) {
          bytes += content.size();
          member(*text, source.text.name + ":" + name, std::move(content));
          if (progress_.due())
            progress_.say(
                fmt::format("reading {}: {} MB of text", source.file.name, bytes / 1'000'000));
        });
  }

  /// Reads the RFCs of the machine. No package of Debian's main section has them.
  void requests_for_comments() {
    const files::path folder = files::path(options_.root) / "usr/share/doc/RFC";
    for_each_file_below(folder, [&](const files::directory_entry& entry) {
      const std::string name = entry.path().filename().string();
      const bool wanted =
          name.starts_with("rfc") && (name.ends_with(".txt") || name.ends_with(".txt.gz"));
      if (!wanted) return;
      if (uses_.empty() || uses_.back().name != kRfc)
        uses_.push_back({kRfc, "", "IETF Trust: redistribution, no changes"});
      try {
        read_text_file(entry.path().string(), [&](const std::string&, std::string_view content) {
          member({"rfc", PackageForm::kText, {}}, "rfc:" + name, std::string(content));
        });
      } catch (const Error&) {
        // A damaged file of the machine is skipped.
      }
    });
  }

  PackageDocuments take() {
    PackageDocuments out;
    for (auto& [domain, choice] : choices_)
      choice.take([&](Document document) {
        auto& use = uses_[std::stoul(document.source)];
        ++use.documents;
        use.bytes += std::ssize(document.text);
        document.source = use.name;
        out.documents.push_back(std::move(document));
      });
    out.packages = std::move(uses_);
    return out;
  }

 private:
  static constexpr const char* kRfc = "usr/share/doc/RFC";

  static const PackageText* text_of(const TextPackage& package, const std::string& name) {
    for (const auto& text : package.texts)
      for (const auto& pattern : text.members)
        if (fits_pattern(name, pattern)) return &text;
    return nullptr;
  }

  void member(const PackageText& text, const std::string& name, std::string content) {
    if (text.form == PackageForm::kCode) {
      if (content.size() <= kLargestCode && !is_generated(content))
        offer(text.domain, name, std::move(content));
      return;
    }
    if (text.form == PackageForm::kMan) content = man_text(content);
    const auto pieces = cut_text(content);
    if (pieces.size() == 1) return offer(text.domain, name, std::move(content));
    for (std::size_t i = 0; i < pieces.size(); ++i)
      offer(text.domain, fmt::format("{}#{}", name, i), std::string(pieces[i]));
  }

  void offer(const std::string& domain, const std::string& name, std::string text) {
    if (!is_usable_text(text)) return;
    auto& choice = choices_.try_emplace(domain, options_.seed, options_.domain_bytes).first->second;
    choice.offer(name, {std::move(text), domain, std::nullopt, std::to_string(uses_.size() - 1)});
  }

  const ReadPackagesOptions& options_;
  StageProgress progress_;
  std::map<std::string, SeededChoice> choices_;
  std::vector<PackageUse> uses_;
};

}  // namespace

PackageDocuments read_packages(std::span<const PackageSource> sources,
                               const ReadPackagesOptions& options,
                               const std::function<void(std::string_view)>& progress) {
  Reading reading(options, progress);
  for (std::size_t i = 0; i < sources.size(); ++i)
    reading.package(sources[i], fmt::format("{} of {}", i + 1, sources.size()));
  reading.requests_for_comments();
  return reading.take();
}

}  // namespace penstock
