// The folder of a corpus that is being prepared.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// The absolute path of the corpus at `out`, with links followed. Removes what an interrupted
/// preparation left there. Throws Error if anything but a corpus is there.
std::filesystem::path corpus_target(const std::string& out);

}  // namespace penstock
