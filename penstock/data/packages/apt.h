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

  /// As `apt-get download` names it.
  std::string file_name() const;
};

/// The newest package for each pattern (fits_package()) that matches any package of apt, in the
/// patterns' order. Empty if there is no apt.
std::vector<AptPackage> apt_packages(std::span<const std::string> patterns);

/// Downloads the package into the folder. Returns what apt says, empty for success.
std::string apt_download(const AptPackage& package, const std::string& folder);

}  // namespace penstock
