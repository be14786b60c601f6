// The missing folders of an output. They go again if the output does not come to be.
#pragma once

#include <filesystem>
#include <vector>

#include "penstock/base/file_system.h"

namespace penstock {

/// Creates a folder and its missing parents, as create_directories() does. The destructor removes
/// those that it created and that are empty, so that an output that fails leaves no folder.
class NewFolders {
 public:
  NewFolders(FileSystem& fs, const std::filesystem::path& folder);
  NewFolders(const NewFolders&) = delete;
  NewFolders& operator=(const NewFolders&) = delete;
  ~NewFolders();

 private:
  NewFolders() = default;

  std::vector<std::filesystem::path> created_;  // innermost first
};

}  // namespace penstock
