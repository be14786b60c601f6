// Information on packages from apt's lists on this machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace penstock {

struct AptPackage {
  std::string name, version, architecture, sha256;
  std::uint64_t bytes = 0;

  /// The file's name after `apt-get download`.
  std::string file_name() const;
};

/// For each pattern (fits_package()), the newest package of apt that matches it, in the patterns'
/// order. Patterns without a match are left out. Empty if there is no apt.
std::vector<AptPackage> apt_packages(std::span<const std::string> patterns);

/// Downloads the package into the folder. Returns apt's messages, or "" for success.
std::string apt_download(const AptPackage& package, const std::string& folder);

}  // namespace penstock
