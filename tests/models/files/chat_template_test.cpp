// The chat template of a model: where it is read, and which file keeps it.
#include "penstock/models/files/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "penstock/base/file_system.h"
#include "penstock/io/gguf_writer.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

TEST(ChatTemplate, IsReadFromTheModelsFolder) {
  const testing::TempDirectory temp;
  const std::filesystem::path& folder = temp.path();
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name) << text;
  };
  EXPECT_EQ(chat_template_of(folder), "");
  for (const char* damaged : {"{", "[]", "{\"chat_template\": 1}", "{\"chat_template\": [1, {}]}",
                              R"({"chat_template": [{"name": 1, "template": 2}]})"}) {
    write("tokenizer_config.json", damaged);
    EXPECT_EQ(chat_template_of(folder), "") << damaged;
  }
  write("tokenizer_config.json", R"({"chat_template": "one"})");
  EXPECT_EQ(chat_template_of(folder), "one");
  const auto gguf = [&](const GgufMetadata& metadata) {
    GgufWriter(real_file_system(), folder / "model.gguf", metadata, {}).commit();
    return chat_template_of(folder / "model.gguf");
  };
  EXPECT_EQ(gguf({}), "one");
  EXPECT_EQ(gguf({{"tokenizer.chat_template", GgufValue::string("inside")}}), "inside");
  write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "two"}]})");
  EXPECT_EQ(chat_template_of(folder), "two");
  write("chat_template.jinja", "three");
  EXPECT_EQ(chat_template_of(folder), "three");
}

TEST(ChatTemplate, IsKeptInAFileUnlessTheTokenizersFilesHaveIt) {
  using Files = std::map<std::string, std::string>;
  const Files kept = {{"chat_template.jinja", "a"}};
  const auto config = [](const char* text) { return Files{{"tokenizer_config.json", text}}; };
  EXPECT_EQ(chat_template_files("a", {}), kept);
  EXPECT_EQ(chat_template_files("a", config("{}")), kept);
  EXPECT_EQ(chat_template_files("a", config(R"({"chat_template": "b"})")), kept);
  EXPECT_EQ(chat_template_files("a", config(R"({"chat_template": "a"})")), Files());
  EXPECT_EQ(chat_template_files("", {}), Files());
}

}  // namespace
}  // namespace penstock
