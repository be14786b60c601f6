// Debian packages as files of a folder, found by their names: NAME_VERSION_ARCHITECTURE.deb.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

struct PackageFile {
  std::string name, version, path;
};

/// Every package in the folder, sorted by path. Throws Error if there is no such folder.
std::vector<PackageFile> packages_in(const std::string& folder);

/// Whether the name matches the pattern, in which '*' stands for digits and dots.
bool fits_package(const std::string& name, const std::string& pattern);

/// Whether version a is before version b. Runs of digits compare as numbers: "1.9" < "1.19". A '~'
/// is before everything, even the end of the text, as in Debian's versions.
bool version_less(std::string_view a, std::string_view b);

/// The newest package, by name and then by version, that matches the pattern.
std::optional<PackageFile> newest_package(std::span<const PackageFile> packages,
                                          const std::string& pattern);

}  // namespace penstock
