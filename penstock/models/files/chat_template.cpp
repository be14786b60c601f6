#include "penstock/models/files/chat_template.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/file_system.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/io/gguf.h"

namespace penstock {
namespace {

constexpr std::uintmax_t kLargestConfig = 16 << 20;

/// A small file's text; "" where there is no file.
std::string text_of(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  if (ignored || size > kLargestConfig) return {};
  return real_file_system().read(path);
}

/// The template in the text of a tokenizer_config.json; "" if it has none.
std::string template_in(const std::string& tokenizer_config) {
  const auto config = nlohmann::json::parse(tokenizer_config, nullptr, false);
  if (!config.is_object() || !config.contains("chat_template")) return {};
  const auto& found = config["chat_template"];
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) return {};
  for (const auto& one : found)  // of several named templates, the one for chats without tools
    if (one.is_object() && one.value("name", nlohmann::json()) == "default" &&
        one.contains("template") && one["template"].is_string())
      return one["template"].get<std::string>();
  return {};
}

}  // namespace

std::string chat_template_of(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path place(path);
  const bool is_folder = std::filesystem::is_directory(place, ignored);
  if (!is_folder && path.ends_with(".gguf")) {
    const GgufFile file(path);
    const GgufValue* const inside = file.value(kGgufChatTemplate);
    if (inside && inside->as_string()) return *inside->as_string();
  }
  const auto folder = is_folder ? place : place.parent_path();
  if (std::string text = text_of(folder / kChatTemplateFile); !text.empty()) return text;
  return template_in(text_of(folder / kTokenizerConfigFile));
}

std::map<std::string, std::string> chat_template_files(
    const std::string& chat_template, const std::map<std::string, std::string>& tokenizer) {
  if (chat_template.empty()) return {};
  const auto config = tokenizer.find(kTokenizerConfigFile);
  if (config != tokenizer.end() && template_in(config->second) == chat_template) return {};
  return {{kChatTemplateFile, chat_template}};
}

}  // namespace penstock
