#include "penstock/base/links.h"

#include <system_error>

#include "penstock/base/error.h"

namespace penstock {

std::filesystem::path followed(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as Linux follows
  std::filesystem::path place = path;
  std::error_code code;
  for (int links = 0; std::filesystem::is_symlink(place, code); ++links) {
    PENSTOCK_CHECK(links < kMostLinks, path.string(),
                   ": is a symbolic link that leads back to itself; name another place, or remove "
                   "the link");
    // What a relative link says begins at the link's folder.
    place = place.parent_path() / std::filesystem::read_symlink(place);
  }
  return place;
}

}  // namespace penstock
