// Contents of plain, compressed and archived files, through libarchive. Knows nothing of documents.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace penstock {

/// The name without a compression suffix: "a.txt.gz" gives "a.txt".
std::string without_compression_suffix(const std::string& name);

/// Calls visit(name, content) for the file, unpacked: once for a plain or compressed file (.gz,
/// .zst, .xz, .bz2), once per member of an archive (.zip, .tar and compressed .tar). `name` is the
/// path, followed by ":" and the member's name for archives, without compression suffix. Throws
/// Error where the file is missing, truncated, damaged or unpacks to more than `limit` bytes.
void read_text_file(const std::string& path,
                    const std::function<void(const std::string& name, std::string content)>& visit,
                    std::uint64_t limit = std::uint64_t{16} << 30);

}  // namespace penstock
