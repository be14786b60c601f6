#include "penstock/serve/chat_form.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/data/utf8.h"
#include "penstock/data/vocabulary.h"

namespace penstock::serve {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1));
}

std::string chatml(const std::vector<ChatMessage>& messages) {
  std::string out;
  for (const ChatMessage& message : messages)
    out += concat("<|im_start|>", word(message.role), "\n", message.content, "<|im_end|>\n");
  return out + "<|im_start|>assistant\n";
}

std::string llama3(const std::vector<ChatMessage>& messages) {
  const auto header = [](ChatRole role) {
    return concat("<|start_header_id|>", word(role), "<|end_header_id|>\n\n");
  };
  std::string out;
  for (const ChatMessage& message : messages)
    out += header(message.role) + trimmed(message.content) + "<|eot_id|>";
  return out + header(ChatRole::assistant);
}

/// Zephyr's, Tulu's and Phi-3's forms. Only Tulu's has no piece at the end of a question.
std::string by_role(ChatForm form, const std::vector<ChatMessage>& messages) {
  const std::string end = concat(answer_end(form), "\n");
  std::string out;
  for (const ChatMessage& message : messages)
    out += concat("<|", word(message.role), "|>\n", message.content,
                  form == ChatForm::tulu && message.role != ChatRole::assistant ? "\n" : end);
  return out + "<|assistant|>\n";
}

constexpr std::string_view kDeepseekEnd = "<｜end▁of▁sentence｜>";

std::string deepseek(const std::vector<ChatMessage>& messages) {
  std::string out;
  for (const ChatMessage& message : messages) {
    if (message.role == ChatRole::assistant)
      out += "Assistant: " + message.content + std::string(kDeepseekEnd);
    else
      out += (message.role == ChatRole::user ? "User: " : "") + message.content + "\n\n";
  }
  return out + "Assistant:";
}

/// A system message or "", and the turns after it: questions and answers alternate, and the last
/// turn is a question.
struct Turns {
  std::string system;
  std::span<const ChatMessage> said;
};

Turns turns_of(const std::vector<ChatMessage>& messages) {
  Turns out{.system = {}, .said = messages};
  if (!messages.empty() && messages[0].role == ChatRole::system)
    out = {.system = messages[0].content, .said = out.said.subspan(1)};
  for (std::size_t i = 0; i < out.said.size(); ++i)
    if (out.said[i].role != (i % 2 == 0 ? ChatRole::user : ChatRole::assistant))
      throw RequestError(400,
                         "this model's chats are a system message or none, then user and assistant "
                         "in turn",
                         "messages");
  if (out.said.size() % 2 == 0)
    throw RequestError(400, "the last message must be the user's", "messages");
  return out;
}

/// <s>[INST] <<SYS>>\n..\n<</SYS>>\n\n question [/INST] answer </s><s>[INST] ..
std::string llama2(const std::vector<ChatMessage>& messages) {
  const auto [system, said] = turns_of(messages);
  std::string first = system.empty() ? "" : "<<SYS>>\n" + system + "\n<</SYS>>\n\n", out;
  for (const ChatMessage& message : said) {
    if (message.role == ChatRole::assistant)
      out += " " + trimmed(message.content) + " </s><s>";
    else
      out += "[INST] " + trimmed(std::exchange(first, {}) + message.content) + " [/INST]";
  }
  return out;
}

/// <s>[INST] system\n\nquestion [/INST]answer</s>[INST] ..
std::string mistral(const std::vector<ChatMessage>& messages) {
  const auto [system, said] = turns_of(messages);
  std::string first = system.empty() ? "" : system + "\n\n", out;
  for (const ChatMessage& message : said) {
    if (message.role == ChatRole::assistant)
      out += message.content + "</s>";
    else
      out += "[INST] " + std::exchange(first, {}) + message.content + " [/INST]";
  }
  return out;
}

std::string plain(const std::vector<ChatMessage>& messages) {
  std::string out;
  for (const ChatMessage& message : messages)
    out += concat(word(message.role), ": ", message.content, "\n\n");
  return out + "assistant:";
}

bool writes_beginning(ChatForm form) {
  return form == ChatForm::llama2 || form == ChatForm::llama3 || form == ChatForm::mistral ||
         form == ChatForm::tulu || form == ChatForm::deepseek;
}

/// Whether the template writes a question as Phi-3's do: with a line's end behind "<|user|>", which
/// may stand in the template as two characters or in a text of its own, and with "<|end|>".
bool writes_phi3(std::string_view text) {
  const auto has = [&](std::string_view piece) {
    return text.find(piece) != std::string_view::npos;
  };
  bool line = false;
  for (const std::string_view end : {"\\n", "\n", "' + '\\n'", "' + '\n'"})
    line = line || has(concat("<|user|>", end));
  return line && has("<|assistant|>") && has("message['content'] + '<|end|>");
}

}  // namespace

std::string chat_form_names() {
  const auto names = words(ChatForm());
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

std::optional<ChatForm> recognise_chat_form(std::string_view text) {
  const auto has = [&](std::string_view piece) {
    return text.find(piece) != std::string_view::npos;
  };
  if (has("<|im_start|>")) return ChatForm::chatml;
  if (has("<|start_header_id|>") && has("<|eot_id|>")) return ChatForm::llama3;
  if (has("[INST]") && has("<<SYS>>")) return ChatForm::llama2;
  // Mistral's later templates have other spaces, or a control piece for the system message.
  if (has("'[INST] '") && has("' [/INST]'") && has("{{ message['content'] + eos_token}}"))
    return ChatForm::mistral;
  if (has("'User: '") && has("'Assistant: ' + message['content'] + eos_token"))
    return ChatForm::deepseek;
  if (has("<|user|>") && has("<|assistant|>") && has("eos_token") && !has("<|end|>"))
    return has("message['content'] + '\\n'") || has("message['content'] + '\n'") ? ChatForm::tulu
                                                                                 : ChatForm::zephyr;
  if (writes_phi3(text)) return ChatForm::phi3;
  return {};
}

std::string chat_text(ChatForm form, const std::vector<ChatMessage>& messages) {
  switch (form) {
    case ChatForm::chatml:
      return chatml(messages);
    case ChatForm::llama2:
      return llama2(messages);
    case ChatForm::llama3:
      return llama3(messages);
    case ChatForm::mistral:
      return mistral(messages);
    case ChatForm::zephyr:
    case ChatForm::tulu:
    case ChatForm::phi3:
      return by_role(form, messages);
    case ChatForm::deepseek:
      return deepseek(messages);
    case ChatForm::plain:
      break;
  }
  return plain(messages);
}

std::string_view answer_end(ChatForm form) {
  switch (form) {
    case ChatForm::chatml:
      return "<|im_end|>";
    case ChatForm::llama3:
      return "<|eot_id|>";
    case ChatForm::llama2:
    case ChatForm::mistral:
    case ChatForm::zephyr:
      return "</s>";
    case ChatForm::tulu:
      return "<|endoftext|>";
    case ChatForm::phi3:
      return "<|end|>";
    case ChatForm::deepseek:
      return kDeepseekEnd;
    case ChatForm::plain:
      break;
  }
  return "\nuser:";
}

std::vector<TokenId> chat_tokens(ChatForm form, const std::vector<ChatMessage>& messages,
                                 const Tokenizer& tokenizer) {
  for (const ChatMessage& message : messages) {
    if (find_invalid_utf8(message.content) != std::string_view::npos)
      throw RequestError(400, "a message is not UTF-8", "messages");
    if (tokenizer.encode(message.content) != tokenizer.encode_with_controls(message.content))
      throw RequestError(400, "a message spells a control piece of the model's tokenizer",
                         "messages");
  }
  const auto vocabulary = tokenizer.vocabulary();
  std::vector<TokenId> out;
  // Some templates write the token that begins documents, whatever the vocabulary says.
  if (vocabulary && vocabulary->bos >= 0 && (vocabulary->add_bos || writes_beginning(form)))
    out.push_back(vocabulary->bos);
  tokenizer.encode_with_controls(chat_text(form, messages), out);
  return out;
}

}  // namespace penstock::serve
