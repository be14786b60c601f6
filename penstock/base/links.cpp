#include "penstock/base/links.h"

#include <system_error>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Removes a trailing slash: "real/" becomes "real". A path that ends in a slash has no file name
/// that could be replaced.
std::filesystem::path with_name(std::filesystem::path path) {
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  return path;
}

}  // namespace

std::filesystem::path followed(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // Linux's limit
  std::filesystem::path place = with_name(path);
  std::error_code code;
  for (int links = 0; std::filesystem::is_symlink(place, code); ++links) {
    PENSTOCK_CHECK(links < kMostLinks, path.string(),
                   ": is a symbolic link that leads back to itself; name another place, or remove "
                   "the link");
    // A relative link is relative to its own folder.
    place = with_name(place.parent_path() / std::filesystem::read_symlink(place));
  }
  return place;
}

}  // namespace penstock
