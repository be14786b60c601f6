// Temporary folders, files and small corpora for the tests of data.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "penstock/data/prepare/prepare.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock::testing {

/// A folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  std::string operator/(const std::string& name) const { return directory_.path(name); }
  /// Writes a file, creating its folders, and returns its path.
  std::string write(const std::string& name, std::string_view content) const {
    const auto path = directory_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    return path.string();
  }

 private:
  TempDirectory directory_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The path of a data file beside the checkout. If the file is missing the path is empty; in CI
/// with the data folder present that is also a test failure.
inline std::string shared_data(const std::string& name) {
  const auto shared = std::filesystem::path(PENSTOCK_SOURCE_DIR).parent_path() / "shared";
  const auto path = shared / "data" / name;
  if (std::filesystem::exists(path)) return path.string();
  const char* ci = std::getenv("CI");
  EXPECT_FALSE(ci && std::string(ci) == "true" && std::filesystem::exists(shared))
      << path << " is missing";
  return {};
}

/// A paragraph of 24 words. Paragraphs with different numbers share no word.
inline std::string paragraph(int number) {
  std::string text;
  for (int word = 0; word < 24; ++word) {
    for (int letter = 0, rest = number * 24 + word; letter < 4; ++letter, rest /= 26)
      text += static_cast<char>('a' + rest % 26);
    text += word % 6 == 5 ? '\n' : ' ';
  }
  return text + "\n";
}

}  // namespace penstock::testing
