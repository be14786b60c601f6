// A folder of documents for tests of a whole preparation.
#pragma once

#include <string>

#include "tests/data/support.h"

namespace penstock::testing {

/// Writes twenty files of one paragraph each, in the domains "even" and "odd", and returns their
/// folder.
inline std::string twenty_documents(const TemporaryFolder& folder) {
  for (int i = 0; i < 20; ++i)
    folder.write(
        "many/" + std::string(i % 2 ? "odd" : "even") + "/" + std::to_string(100 + i) + ".txt",
        paragraph(i));
  return folder / "many";
}

}  // namespace penstock::testing
