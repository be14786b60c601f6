// Downloads Debian packages by apt, without root and without installing them.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/packages/package_files.h"

namespace penstock {

struct FetchedPackages {
  std::vector<PackageFile> files;
  /// The packages that could not be fetched, and why.
  std::vector<std::string> notes;
};

/// The folder of downloaded packages: $XDG_CACHE_HOME/penstock/packages or
/// ~/.cache/penstock/packages.
std::string package_cache();

/// Fetches the newest package for each pattern (fits_package()) into `folder`, which is created. A
/// file that exists already and has the size and SHA-256 that apt states is kept. Other packages
/// are downloaded by `apt-get download` into a temporary folder and renamed, and their older
/// versions are removed. A package that apt does not know or cannot fetch gives a note. After three
/// failed downloads in a row the rest are not tried. `progress` gets a line for each download.
/// Throws Error if no package can be fetched, with apt's message and what to do.
FetchedPackages fetch_packages(std::span<const std::string> patterns, const std::string& folder,
                               const std::function<void(std::string_view)>& progress);

}  // namespace penstock
