// The forms in which chats become text: those that are well known, told by the template that comes
// with a model. Templates themselves, which are programs, are not run.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/serve/request.h"

namespace penstock::serve {

enum class ChatForm { chatml, llama2, llama3, mistral, zephyr, tulu, deepseek, plain };
constexpr std::array<std::string_view, 8> words(ChatForm) {
  return {"chatml", "llama2", "llama3", "mistral", "zephyr", "tulu", "deepseek", "plain"};
}
/// "chatml, llama2, .. or plain".
std::string chat_form_names();

/// The form whose pieces the template has; nothing where it is none of them, or may be another.
std::optional<ChatForm> recognise_chat_form(std::string_view template_text);

/// The template that comes with a model, inside a GGUF file or beside (chat_template.jinja, or in
/// tokenizer_config.json), or "".
/// @param path  of a model directory or file, which opens as a model
std::string chat_template_of(const std::string& path);

/// The chat as text that the model goes on with; pieces that are control pieces of the tokenizer
/// stand in it as they are spelt. The token that begins documents is not in it.
/// Throws RequestError for an order of roles that the form cannot say.
std::string chat_text(ChatForm form, const std::vector<ChatMessage>& messages);

/// What ends an answer, besides the end of a document: a control piece or text. "" where there is
/// no such piece.
std::string_view answer_end(ChatForm form);

/// The tokens of a chat. Throws RequestError too where a message spells a control piece of the
/// tokenizer: that would let it say where messages end.
std::vector<TokenId> chat_tokens(ChatForm form, const std::vector<ChatMessage>& messages,
                                 const Tokenizer& tokenizer);

}  // namespace penstock::serve
