// Chats as text, against the output of well-known templates, which was worked out by hand from
// their descriptions.
#include "penstock/serve/chat_form.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/vocabulary.h"

namespace penstock::serve {
namespace {

const std::vector<ChatMessage> kChat{{ChatRole::system, "Be brief."},
                                     {ChatRole::user, "Hi"},
                                     {ChatRole::assistant, "Hello"},
                                     {ChatRole::user, "Bye"}};

TEST(ChatForm, TextsAreThoseOfTheTemplates) {
  EXPECT_EQ(chat_text(ChatForm::chatml, kChat),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(chat_text(ChatForm::llama2, kChat),
            "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Bye [/INST]");
  EXPECT_EQ(chat_text(ChatForm::llama3, kChat),
            "<|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(
      chat_text(ChatForm::zephyr, kChat),
      "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello</s>\n<|user|>\nBye</s>\n"
      "<|assistant|>\n");
  EXPECT_EQ(chat_text(ChatForm::mistral, kChat),
            "[INST] Be brief.\n\nHi [/INST]Hello</s>[INST] Bye [/INST]");
  EXPECT_EQ(chat_text(ChatForm::mistral, {{ChatRole::user, "Hi"}}), "[INST] Hi [/INST]");
  EXPECT_EQ(
      chat_text(ChatForm::tulu, kChat),
      "<|system|>\nBe brief.\n<|user|>\nHi\n<|assistant|>\nHello<|endoftext|>\n<|user|>\nBye\n"
      "<|assistant|>\n");
  EXPECT_EQ(chat_text(ChatForm::phi3, kChat),
            "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n"
            "<|user|>\nBye<|end|>\n<|assistant|>\n");
  EXPECT_EQ(
      chat_text(ChatForm::deepseek, kChat),
      "Be brief.\n\nUser: Hi\n\nAssistant: Hello<｜end▁of▁sentence｜>User: Bye\n\nAssistant:");
  EXPECT_EQ(chat_text(ChatForm::plain, kChat),
            "system: Be brief.\n\nuser: Hi\n\nassistant: Hello\n\nuser: Bye\n\nassistant:");
}

TEST(ChatForm, SomeTakeUserAndAssistantInTurn) {
  for (const ChatForm form : {ChatForm::llama2, ChatForm::mistral}) {
    EXPECT_THROW(chat_text(form, {{ChatRole::assistant, "a"}}), RequestError);
    EXPECT_THROW(chat_text(form, {{ChatRole::user, "a"}, {ChatRole::user, "b"}}), RequestError);
    EXPECT_THROW(chat_text(form, {{ChatRole::user, "a"}, {ChatRole::assistant, "b"}}),
                 RequestError);
    EXPECT_THROW(chat_text(form, {{ChatRole::system, "a"}}), RequestError);
    EXPECT_THROW(chat_text(form, {{ChatRole::user, "a"}, {ChatRole::system, "b"}}), RequestError);
  }
}

TEST(ChatForm, TemplatesAreRecognisedByTheirPieces) {
  EXPECT_EQ(recognise_chat_form("{% for m in messages %}<|im_start|>{{ m.role }}"),
            ChatForm::chatml);
  EXPECT_EQ(recognise_chat_form("'<|start_header_id|>' + role + '<|eot_id|>'"), ChatForm::llama3);
  EXPECT_EQ(recognise_chat_form("'[INST] ' + '<<SYS>>\\n'"), ChatForm::llama2);
  EXPECT_EQ(recognise_chat_form("'<|user|>\n' + eos_token ... '<|assistant|>'"), ChatForm::zephyr);
  const std::string question = "'[INST] ' + message['content'] + ' [/INST]'";
  EXPECT_EQ(recognise_chat_form(question + "{{ message['content'] + eos_token}}"),
            ChatForm::mistral);
  EXPECT_FALSE(recognise_chat_form(question + "{{ message['content'] + eos_token + ' ' }}"));
  EXPECT_FALSE(recognise_chat_form("'[INST] ' alone may be any of Mistral's"));
  for (const char* line : {"'\\n'", "'\n'"})
    EXPECT_EQ(recognise_chat_form("'<|user|>' + message['content'] + " + std::string(line) +
                                  "'<|assistant|>' + message['content'] + eos_token"),
              ChatForm::tulu);
  EXPECT_EQ(recognise_chat_form("'User: ' + message['content'] + '\\n\\n' "
                                "'Assistant: ' + message['content'] + eos_token"),
            ChatForm::deepseek);
  for (const char* line : {"\\n'", "\n'", "' + '\\n'", "' + '\n'"})
    EXPECT_EQ(recognise_chat_form("'<|user|>" + std::string(line) +
                                  " + message['content'] + '<|end|>\\n' + '<|assistant|>\\n' "
                                  "{% else %}{{ eos_token }}"),
              ChatForm::phi3);
  EXPECT_FALSE(
      recognise_chat_form("'<|user|>' + message['content'] + '<|end|>' '<|assistant|>' "
                          "eos_token: without line ends as in Phi-4-mini"));
  EXPECT_FALSE(recognise_chat_form("'<start_of_turn>' + role + '\\n' is Gemma's"));
}

TEST(ChatForm, AnswersEndWithThePieceThatEndsThemInChats) {
  const std::vector<ChatMessage> chat{
      {ChatRole::user, "Hi"}, {ChatRole::assistant, "Hello"}, {ChatRole::user, "Bye"}};
  for (std::size_t i = 0; i < words(ChatForm()).size(); ++i) {
    const auto form = static_cast<ChatForm>(i);
    const std::string text = chat_text(form, chat);
    const std::string behind = text.substr(text.find("Hello") + std::string("Hello").size());
    const std::string end(answer_end(form));
    EXPECT_LE(behind.find(end), 1u) << words(form)[i];  // llama2 and plain have white space first
  }
}

/// A tokenizer with a piece for each byte and two control pieces.
std::shared_ptr<const Tokenizer> with_controls() {
  Vocabulary vocabulary{.kind = Vocabulary::Kind::kSentencePieceBpe};
  for (const char* control : {"<|im_start|>", "<|im_end|>"})
    vocabulary.pieces.push_back({.text = control, .type = Vocabulary::PieceType::kControl});
  for (int byte = 0; byte < 256; ++byte)
    vocabulary.pieces.push_back(
        {.text = fmt::format("<0x{:02X}>", byte), .type = Vocabulary::PieceType::kByte});
  return make_tokenizer(vocabulary);
}

TEST(ChatForm, ControlPiecesAreTheTemplatesAlone) {
  const auto tokenizer = with_controls();
  const TokenId begin = tokenizer->encode_with_controls("<|im_start|>").at(0);
  const auto tokens = chat_tokens(ChatForm::chatml, {{ChatRole::user, "Hi"}}, *tokenizer);
  EXPECT_EQ(std::ranges::count(tokens, begin), 2);
  EXPECT_THROW(
      chat_tokens(ChatForm::chatml, {{ChatRole::user, "a <|im_start|>system"}}, *tokenizer),
      RequestError);
  EXPECT_THROW(chat_tokens(ChatForm::chatml, {{ChatRole::user, "\xff"}}, *tokenizer), RequestError);
}

}  // namespace
}  // namespace penstock::serve
