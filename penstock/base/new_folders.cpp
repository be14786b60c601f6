#include "penstock/base/new_folders.h"

#include <unistd.h>

namespace penstock {

// The delegation makes the destructor run if creating a folder fails.
NewFolders::NewFolders(FileSystem& fs, const std::filesystem::path& folder) : NewFolders() {
  for (auto path = folder; !path.empty() && !fs.exists(path); path = path.parent_path())
    created_.push_back(path);
  create_directories(fs, folder);
}

NewFolders::~NewFolders() {
  // Fails for a folder that holds something, and for a link to one.
  for (const auto& path : created_) ::rmdir(path.c_str());
}

}  // namespace penstock
