// The well-known text formats of chats. A model's chat template shows which one it uses. Templates
// are programs; Penstock does not run them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/serve/request.h"

namespace penstock::serve {

enum class ChatForm { chatml, llama2, llama3, mistral, zephyr, tulu, phi3, deepseek, plain };
constexpr std::array<std::string_view, 9> words(ChatForm) {
  return {"chatml", "llama2", "llama3", "mistral", "zephyr", "tulu", "phi3", "deepseek", "plain"};
}
/// The list of all forms: "chatml, llama2, .. or plain".
std::string chat_form_names();

/// The form whose control pieces the template contains; nothing if no form or several forms match.
std::optional<ChatForm> recognise_chat_form(std::string_view template_text);

/// The chat as text for the model to continue. The tokenizer's control pieces are spelled out. The
/// text has no token for the beginning of a document.
/// Throws RequestError for an order of roles that the form does not allow.
std::string chat_text(ChatForm form, const std::vector<ChatMessage>& messages);

/// The control piece or text that ends an answer, besides the end of a document; "" if there is
/// none.
std::string_view answer_end(ChatForm form);

/// The tokens of a chat. Throws RequestError as chat_text() does, and for a message that contains
/// the text of a control piece, because it could end itself and begin another message.
std::vector<TokenId> chat_tokens(ChatForm form, const std::vector<ChatMessage>& messages,
                                 const Tokenizer& tokenizer);

}  // namespace penstock::serve
