// The hash of a model on disk, in sixteen digits.
#include "penstock/models/files/content_hash.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

TEST(ContentHashes, ReadEachPlaceOnce) {
  const testing::TempDirectory temp;
  const auto write = [&](const char* name, const char* text) {
    const std::string path = temp.path(name);
    std::ofstream(path) << text;
    return path;
  };
  const std::string model = write("a.gguf", "one"), other = write("b.gguf", "two");
  ContentHashes hashes;
  const std::string first = hashes.of(model);
  EXPECT_EQ(first, model_content_hash(model));
  EXPECT_NE(hashes.of(other), first);
  write("a.gguf", "three");
  EXPECT_EQ(hashes.of(model), first);
  EXPECT_EQ(ContentHashes().of(model), model_content_hash(model));
  EXPECT_NE(ContentHashes().of(model), first);
  ContentHashes lengths([](const std::string& path) { return std::to_string(path.size()); });
  EXPECT_EQ(lengths.of("abc"), "3");
}

}  // namespace
}  // namespace penstock
