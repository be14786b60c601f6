#include "penstock/models/files/model_folder.h"

#include <filesystem>

#include "penstock/base/file_system.h"

namespace penstock {

std::string text_beside(const std::string& model, const std::string& name) {
  constexpr std::uintmax_t kLargest = 16 << 20;
  std::error_code ignored;
  const std::filesystem::path place(model);
  const auto folder = std::filesystem::is_directory(place, ignored) ? place : place.parent_path();
  const auto size = std::filesystem::file_size(folder / name, ignored);
  if (ignored || size > kLargest) return {};
  return real_file_system().read(folder / name);
}

}  // namespace penstock
