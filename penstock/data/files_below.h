// The files of a folder and its folders, as far as this process may read them.
#pragma once

#include <filesystem>
#include <system_error>

namespace penstock {

/// Calls visit(entry) for each regular file below the folder. Links are left out, because they
/// would give the same file twice, and so are folders that this process may not read. A folder that
/// is missing has no files.
template <class Visit>
void for_each_file_below(const std::filesystem::path& folder, Visit visit) {
  using Iterator = std::filesystem::recursive_directory_iterator;
  std::error_code failure;
  for (Iterator it(folder, std::filesystem::directory_options::skip_permission_denied, failure);
       it != Iterator(); it.increment(failure)) {
    if (failure) return;
    if (!it->is_symlink(failure) && it->is_regular_file(failure)) visit(*it);
  }
}

}  // namespace penstock
