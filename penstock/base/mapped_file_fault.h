// The handler for a page of a mapped file that cannot be read: it ends the process with a line that
// names the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace penstock {

/// Installs the handler. From then on, a page of a mapped file that cannot be read ends the process
/// with exit code 1 and a line on standard error that names the file. Other bus errors end it as
/// before.
void name_files_that_cannot_be_read();

/// Registers a mapping for the handler; MappedFile does so for its mappings. Thread-safe. If too
/// many are registered at once, the handler does not know the others' names.
void list_mapping(std::span<const std::byte> bytes, const std::filesystem::path& path);
void unlist_mapping(std::span<const std::byte> bytes);

}  // namespace penstock
