// The place of a corpus that is being prepared.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// The absolute path of the corpus at `out`, behind links. Removes what an interrupted preparation
/// left there. Throws Error if a corpus there would replace something that is not a corpus.
std::filesystem::path corpus_target(const std::string& out);

}  // namespace penstock
