// Finds the chat template that comes with a model. Here it is only text; nothing runs it.
#pragma once

#include <map>
#include <string>

namespace penstock {

/// The name of a file that holds nothing but a model's chat template.
inline constexpr const char* kChatTemplateFile = "chat_template.jinja";

/// The key of a GGUF file that holds it.
inline constexpr const char* kGgufChatTemplate = "tokenizer.chat_template";

/// The chat template of a model, from its GGUF file, chat_template.jinja or tokenizer_config.json.
/// "" if it has none.
/// @param path  of a model directory, or of a file that is the model or lies in its directory
std::string chat_template_of(const std::string& path);

/// The file that holds the template, to be written beside the tokenizer's files, which are given by
/// name. None if the template is "" or if their tokenizer_config.json has the same template.
std::map<std::string, std::string> chat_template_files(
    const std::string& chat_template, const std::map<std::string, std::string>& tokenizer);

}  // namespace penstock
