#include "penstock/base/links.h"

#include <system_error>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// "real/" becomes "real": a path that ends in a slash has no name that could be replaced.
std::filesystem::path with_name(std::filesystem::path path) {
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  return path;
}

}  // namespace

std::filesystem::path followed(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::filesystem::path place = with_name(path);
  std::error_code code;
  for (int links = 0; std::filesystem::is_symlink(place, code); ++links) {
    PENSTOCK_CHECK(links < kMostLinks, path.string(),
                   ": is a symbolic link that leads back to itself; name another place, or remove "
                   "the link");
    // The path of a relative link begins at the link's folder.
    place = with_name(place.parent_path() / std::filesystem::read_symlink(place));
  }
  return place;
}

}  // namespace penstock
