#include "penstock/models/files/chat_template.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/io/gguf.h"
#include "penstock/models/files/model_folder.h"
#include "penstock/models/formats/gguf_source.h"

namespace penstock {
namespace {

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
  if (is_gguf(path) && !std::filesystem::is_directory(path, ignored)) {
    const GgufFile file(path);
    const GgufValue* const inside = file.value(kGgufChatTemplate);
    if (inside && inside->as_string()) return *inside->as_string();
  }
  if (std::string text = text_beside(path, kChatTemplateFile); !text.empty()) return text;
  return template_in(text_beside(path, kTokenizerConfigFile));
}

std::map<std::string, std::string> chat_template_files(
    const std::string& chat_template, const std::map<std::string, std::string>& tokenizer) {
  if (chat_template.empty()) return {};
  const auto config = tokenizer.find(kTokenizerConfigFile);
  if (config != tokenizer.end() && template_in(config->second) == chat_template) return {};
  return {{kChatTemplateFile, chat_template}};
}

}  // namespace penstock
