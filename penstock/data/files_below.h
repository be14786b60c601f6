// Lists the files below a folder that this process may read.
#pragma once

#include <filesystem>
#include <system_error>

namespace penstock {

/// Calls visit(entry) for each regular file below the folder. Leaves out links, because they would
/// give the same file twice, and folders that this process may not read. A missing folder has no
/// files.
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
