#include "penstock/data/packages/fetch_packages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/home.h"
#include "penstock/base/joined.h"
#include "penstock/data/packages/apt.h"
#include "penstock/data/sha.h"

namespace penstock {
namespace {

namespace files = std::filesystem;

constexpr int kFailuresInARow = 3;

/// The advice if no package can be fetched.
constexpr const char* kRemedy =
    "; run `apt-get update` as root and see that the machine reaches its mirror, or name a folder "
    "of .deb files from elsewhere as options.packages";

bool is_there(const files::path& path, const AptPackage& package) {
  std::error_code ignored;
  return files::file_size(path, ignored) == package.bytes && !ignored && !package.sha256.empty() &&
         sha_of_file(path.string(), ShaKind::kSha256) == package.sha256;
}

/// A folder for one download. The destructor removes it.
class FolderAside {
 public:
  explicit FolderAside(const files::path& folder) : path_(temporary_path(folder / "download")) {
    clean_leftovers_of(real_file_system(), folder / "download");
    real_file_system().remove_all(path_);
    real_file_system().create_directory(path_);
  }
  FolderAside(const FolderAside&) = delete;
  FolderAside& operator=(const FolderAside&) = delete;
  ~FolderAside() {
    std::error_code ignored;
    files::remove_all(path_, ignored);
  }
  const files::path& path() const { return path_; }

 private:
  files::path path_;
};

class Fetch {
 public:
  Fetch(const std::string& folder, const std::function<void(std::string_view)>& progress)
      : folder_(folder), progress_(progress) {
    create_directories(real_file_system(), folder_);
  }

  FetchedPackages run(std::span<const std::string> patterns) {
    const auto packages = apt_packages(patterns);
    PENSTOCK_CHECK(!packages.empty(), "apt knows none of the packages with more text", kRemedy);
    note_unknown(patterns, packages);
    for (std::size_t i = 0; i < packages.size(); ++i)
      get(packages[i], fmt::format("{} of {}", i + 1, packages.size()));
    note_failed();
    PENSTOCK_CHECK(!out_.files.empty(), "no package with more text could be downloaded: ", why_,
                   kRemedy);
    return std::move(out_);
  }

 private:
  void get(const AptPackage& package, const std::string& place) {
    const files::path path = folder_ / package.file_name();
    const bool have =
        is_there(path, package) || (failures_ < kFailuresInARow && download(package, path, place));
    if (have)
      out_.files.push_back({package.name, package.version, path.string()});
    else
      failed_.push_back(package.name);
  }

  bool download(const AptPackage& package, const files::path& path, const std::string& place) {
    if (progress_)
      progress_(fmt::format("downloading {} ({}, {:.1f} MB)", package.name, place,
                            static_cast<double>(package.bytes) / 1e6));
    const FolderAside aside(folder_);
    std::string why = apt_download(package, aside.path().string());
    const files::path got = aside.path() / package.file_name();
    if (why.empty() && !is_there(got, package)) why = "apt left no file of the stated size and sum";
    if (!why.empty()) {
      ++failures_;
      why_ = why;
      return false;
    }
    failures_ = 0;
    for (const auto& older : packages_in(folder_.string()))
      if (older.name == package.name) real_file_system().remove_all(older.path);
    real_file_system().rename(got, path);
    return true;
  }

  void note_unknown(std::span<const std::string> patterns, std::span<const AptPackage> known) {
    std::string names;
    for (const auto& pattern : patterns)
      if (std::ranges::none_of(known, [&](const auto& p) { return fits_package(p.name, pattern); }))
        names += (names.empty() ? "" : ", ") + pattern;
    if (!names.empty()) out_.notes.push_back("apt does not know these packages: " + names);
  }

  void note_failed() {
    if (!failed_.empty())
      out_.notes.push_back(fmt::format("these packages could not be downloaded: {} (apt: {})",
                                       joined(failed_), why_));
  }

  files::path folder_;
  const std::function<void(std::string_view)>& progress_;
  int failures_ = 0;  // in a row
  std::vector<std::string> failed_;
  std::string why_;
  FetchedPackages out_;
};

}  // namespace

std::string package_cache() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const std::string root = cache && *cache ? cache : with_home("~/.cache");
  PENSTOCK_CHECK(
      !root.starts_with('~'),
      "no home directory to keep packages in; set HOME, or name a folder of .deb files as "
      "options.packages");
  return root + "/penstock/packages";
}

FetchedPackages fetch_packages(std::span<const std::string> patterns, const std::string& folder,
                               const std::function<void(std::string_view)>& progress) {
  return Fetch(folder, progress).run(patterns);
}

}  // namespace penstock
