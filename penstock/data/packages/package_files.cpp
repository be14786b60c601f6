#include "penstock/data/packages/package_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "penstock/base/error.h"

namespace penstock {
namespace {

namespace files = std::filesystem;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The rank of a character in the order of versions: '~' is before the end of the text, and the end
/// is before all other characters.
int rank_of(std::string_view text, std::size_t at) {
  if (at >= text.size()) return 1;
  return text[at] == '~' ? 0 : 2 + static_cast<unsigned char>(text[at]);
}

/// The digits from `at` on without leading zeros. Moves `at` behind them.
std::string_view number_at(std::string_view text, std::size_t& at) {
  while (at < text.size() && text[at] == '0') ++at;
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  return text.substr(begin, at - begin);
}

/// The version of a file name, with "%3a" replaced by ':'.
std::string with_colons(std::string version) {
  for (std::size_t at = 0; (at = version.find("%3a", at)) != version.npos; ++at)
    version.replace(at, 3, ":");
  return version;
}

}  // namespace

std::vector<PackageFile> packages_in(const std::string& folder) {
  PENSTOCK_CHECK(files::is_directory(folder), "no folder of packages at '", folder,
                 "'; fill one with `apt-get download`, or leave options.packages out");
  std::vector<PackageFile> out;
  for (const auto& entry : files::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    const auto first = file.find('_'), second = file.find('_', first + 1);
    if (!file.ends_with(".deb") || file.starts_with('.') || second == file.npos) continue;
    out.push_back({file.substr(0, first), with_colons(file.substr(first + 1, second - first - 1)),
                   entry.path().string()});
  }
  std::ranges::sort(out, {}, &PackageFile::path);
  return out;
}

bool fits_package(const std::string& name, const std::string& pattern) {
  const auto star = pattern.find('*');
  if (star == pattern.npos) return name == pattern;
  const std::string_view before = std::string_view(pattern).substr(0, star),
                         after = std::string_view(pattern).substr(star + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return false;
  const auto middle =
      std::string_view(name).substr(before.size(), name.size() - before.size() - after.size());
  return std::ranges::all_of(middle, [](char c) { return is_digit(c) || c == '.'; });
}

bool version_less(std::string_view a, std::string_view b) {
  for (std::size_t i = 0, k = 0; i < a.size() || k < b.size();) {
    if (i < a.size() && k < b.size() && is_digit(a[i]) && is_digit(b[k])) {
      const auto x = number_at(a, i), y = number_at(b, k);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      continue;
    }
    if (rank_of(a, i) != rank_of(b, k)) return rank_of(a, i) < rank_of(b, k);
    ++i;
    ++k;
  }
  return false;
}

std::optional<PackageFile> newest_package(std::span<const PackageFile> packages,
                                          const std::string& pattern) {
  const PackageFile* best = nullptr;
  for (const auto& package : packages) {
    if (!fits_package(package.name, pattern)) continue;
    const bool newer = !best || version_less(best->name, package.name) ||
                       (best->name == package.name && version_less(best->version, package.version));
    if (newer) best = &package;
  }
  return best ? std::optional(*best) : std::nullopt;
}

}  // namespace penstock
