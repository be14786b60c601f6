// Reads plain, compressed and archived text files through libarchive. It does not divide them into
// documents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace penstock {

/// The name without a compression suffix: "a.txt.gz" gives "a.txt".
std::string without_compression_suffix(const std::string& name);

/// Whether a file of that name is compressed or an archive.
bool is_packed_name(const std::string& name);

/// Whether a file or folder of that name is skipped unless the user names it: its name begins with
/// a dot (".DS_Store", and "._a.txt", which macOS puts beside "a.txt").
inline bool is_hidden_name(std::string_view name) {
  return name.starts_with('.') && name != "." && name != "..";
}

struct TextFileOptions {
  /// Folder where text that unpacks to more than kLargeText waits (unpacked_text.h). Empty: in
  /// memory.
  std::filesystem::path folder = {};
  /// The most bytes that a packed file may unpack to. With a folder a file may also unpack to 64
  /// times its size; text is seldom packed by more than 10.
  std::uint64_t limit = std::uint64_t{16} << 30;
};

/// Calls visit(name, content) with unpacked content: once for a plain or compressed file (.gz,
/// .zst, .xz, .bz2), and once for each member of an archive (.zip, .tar and compressed .tar),
/// except hidden members and members of hidden folders. `name` is the path, for archives followed
/// by ":" and the member's name, without compression suffix. The content lasts until visit()
/// returns. Throws Error if the file is missing, truncated or damaged, or unpacks to more than is
/// allowed. Memory: a member's text, but for a plain file, and with a folder, kLargeText at most.
void read_text_file(
    const std::string& path,
    const std::function<void(const std::string& name, std::string_view content)>& visit,
    const TextFileOptions& options = {});

/// The same for the archive's members whose names `wanted` accepts, in memory. Other members are
/// not unpacked.
void read_members(const std::string& archive,
                  const std::function<bool(const std::string& name)>& wanted,
                  const std::function<void(const std::string& name, std::string content)>& visit,
                  std::uint64_t limit = std::uint64_t{16} << 30);

}  // namespace penstock
