// How much text a corpus takes from a Debian package.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

struct PackageUse {
  std::string name, version, licence;
  /// Documents and bytes of the text that was read, before near-duplicates were removed.
  std::int64_t documents = 0, bytes = 0;
};

}  // namespace penstock
