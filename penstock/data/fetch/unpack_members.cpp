#include "penstock/data/fetch/unpack_members.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/data/text_files.h"

namespace penstock {

void unpack_members(const std::string& archive, std::span<const std::string_view> members,
                    const std::string& folder) {
  auto& fs = real_file_system();
  std::set<std::string_view> missing(members.begin(), members.end());
  const auto wanted = [&](const std::string& name) {
    return std::ranges::find_if(missing, [&](std::string_view member) {
      return name == member || name.ends_with("/" + std::string(member));
    });
  };
  read_members(
      archive, [&](const std::string& name) { return wanted(name) != missing.end(); },
      [&](const std::string& name, const std::string& content) {
        const auto member = wanted(name);
        const auto path = std::filesystem::path(folder) / *member;
        missing.erase(member);
        if (fs.exists(path)) {
          PENSTOCK_CHECK(fs.read(path, std::uint64_t{16} << 30) == content, "'", path.string(),
                         "' is there already and is not what '", archive,
                         "' holds; remove it, or name another folder as options.out");
          return;
        }
        create_directories(fs, path.parent_path());
        clean_leftovers_of(fs, path);
        write_file_atomically(fs, path, content);
      });
  PENSTOCK_CHECK(missing.empty(), "'", archive, "' has no member ", *missing.begin(),
                 "; is it another version of the data set?");
}

}  // namespace penstock
