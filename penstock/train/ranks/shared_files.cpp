#include "penstock/train/ranks/shared_files.h"

#include <fmt/format.h>

#include <random>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/train/ranks/agreement.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr const char *kToken = "token", *kSeen = "seen", *kUnseen = "unseen";

fs::path answer_path(const fs::path& place, int rank) {
  return place / fmt::format("rank-{}", rank);
}

/// A random text, different in every run.
std::string new_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

void write_text(FileSystem& files, const fs::path& path, const std::string& text) {
  const auto file = files.open(path, OpenMode::kTruncate);
  file->write(bytes_of(text));
  file->close();
}

/// The file's text; "" if the file does not exist or cannot be read.
std::string text_of(FileSystem& files, const fs::path& path) {
  try {
    return files.exists(path) ? files.read(path) : "";
  } catch (const Error&) {
    return "";
  }
}

/// Makes a folder with the token in it. If that fails, removes the folder and throws.
void make_meeting(FileSystem& files, const fs::path& place, const std::string& token) {
  files.remove_all(place);
  try {
    files.create_directory(place);
    write_text(files, place / kToken, token);
  } catch (const Error&) {
    files.remove_all(place);
    throw;
  }
}

bool answers(FileSystem& files, const fs::path& place, int rank, const std::string& token) {
  if (text_of(files, place / kToken) != token) return false;
  try {
    write_text(files, answer_path(place, rank), token);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string first_rank_without(const dist::ProcessGroup& group, const fs::path& directory,
                               FileSystem& files) {
  const bool first = group.rank() == 0;
  const std::string token = group.broadcast_bytes(first ? new_token() : "");
  // If the run dies here, the temporary folder is removed with other leftovers later.
  const fs::path place = group.broadcast_bytes(
      first ? temporary_path(fs::absolute(directory) / "meeting").string() : "");
  on_all_ranks(group, [&] {
    if (first) make_meeting(files, place, token);
    return true;
  });
  const auto all =
      group.gather(first || answers(files, place, group.rank(), token) ? kSeen : kUnseen);
  std::string out;
  for (int rank = 1; first && rank < group.size() && out.empty(); ++rank)
    if (all[static_cast<std::size_t>(rank)] != kSeen ||
        text_of(files, answer_path(place, rank)) != token)
      out = group.name(rank);
  if (first) files.remove_all(place);
  return group.broadcast_bytes(out);
}

}  // namespace penstock
