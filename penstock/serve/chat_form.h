// The well-known forms of chats as text. A model's template tells its form. Templates are programs,
// and are not run.
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

/// The form whose pieces the template contains; nothing if no form or several fit.
std::optional<ChatForm> recognise_chat_form(std::string_view template_text);

/// The chat as text for the model to continue. The tokenizer's control pieces appear as their
/// spelling. The text has no token for the beginning of a document.
/// Throws RequestError for an order of roles that the form does not have.
std::string chat_text(ChatForm form, const std::vector<ChatMessage>& messages);

/// The control piece or text that ends an answer, besides the end of a document; "" if there is
/// none.
std::string_view answer_end(ChatForm form);

/// The tokens of a chat. Throws RequestError also for a message that spells a control piece,
/// because such a message could end itself and begin another.
std::vector<TokenId> chat_tokens(ChatForm form, const std::vector<ChatMessage>& messages,
                                 const Tokenizer& tokenizer);

}  // namespace penstock::serve
