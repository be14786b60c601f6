// Reads token ids from a text file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// The ids of a file: one JSON array, or whole numbers with white space between them.
/// Throws Error naming the file for anything else, and for more than 64 MiB.
std::vector<std::int64_t> read_token_ids(const std::string& path);

}  // namespace penstock
