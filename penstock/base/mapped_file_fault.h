// What happens if a page of a mapped file cannot be read: the process ends with a line that names
// the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace penstock {

/// From this call on, a page of a mapped file that cannot be read ends the process with exit code 1
/// and a line on standard error that names the file. Other bus errors end it as before.
void name_files_that_cannot_be_read();

/// MappedFile lists its mappings here while they last. Thread-safe. If too many are listed at once,
/// the others have no name.
void list_mapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
void unlist_mapping(std::span<const std::byte> bytes);

}  // namespace penstock
