// Downloads Debian packages by apt, without root and without an installation.
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

/// Where packages are kept: $XDG_CACHE_HOME/penstock/packages or ~/.cache/penstock/packages.
std::string package_cache();

/// The newest package for each pattern (fits_package()) that apt knows, as files of `folder`, which
/// is made. A file that is there already and has the size and SHA-256 that apt states is kept;
/// others are downloaded by `apt-get download` into a folder aside and renamed, and older versions
/// of them removed. A package that apt does not know, or cannot get, gives a note. After three
/// failed downloads in a row the rest are not tried. `progress` gets a line for each download.
/// Throws Error if no package can be fetched, with apt's message and what to do.
FetchedPackages fetch_packages(std::span<const std::string> patterns, const std::string& folder,
                               const std::function<void(std::string_view)>& progress);

}  // namespace penstock
