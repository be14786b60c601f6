#include "penstock/models/formats/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/tokenizers/bytes_tokenizer.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/io/gguf_writer.h"
#include "penstock/models/formats/gguf_layout.h"
#include "penstock/models/formats/gguf_vocabulary.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"
#include "tests/data/tokenizers/vectors.h"

namespace penstock {
namespace {

using testing::TempDirectory;

/// The vocabulary after it is written to a file and read back.
Vocabulary through_file(const Vocabulary& vocabulary, std::int64_t vocab_size) {
  const TempDirectory temp;
  GgufWriter writer(real_file_system(), temp.path() / "v.gguf",
                    gguf_tokenizer(vocabulary, vocab_size).metadata, {});
  writer.commit();
  return read_gguf_vocabulary(GgufFile(temp.path() / "v.gguf"));
}

std::string notes_of(const Vocabulary& v) {
  std::string out;
  for (const auto& note : gguf_tokenizer(v, std::ssize(v.pieces)).notes) out += note + "\n";
  return out;
}

TEST(GgufTokenizer, PublishedVocabulariesAgreeWithTheirVectors) {
  for (const std::string name : {"tokenizers/gpt2/ggml-vocab-gpt-2.gguf",
                                 "tokenizers/llama-spm/ggml-vocab-llama-spm.gguf"}) {
    const std::string path = testing::shared_data(name);
    if (path.empty()) GTEST_SKIP() << "missing data: no data beside the checkout";
    const auto vectors = testing::token_vectors(name);
    ASSERT_FALSE(vectors.empty());
    const Vocabulary vocabulary = read_gguf_vocabulary(GgufFile(path));
    const auto tokenizer = make_tokenizer(vocabulary);
    for (const auto& one : vectors)
      EXPECT_EQ(tokenizer->encode(one.text), one.ids) << name << ": '" << one.text << "'";
    // The vocabulary is equal after it is written and read back.
    const auto size = std::ssize(vocabulary.pieces);
    EXPECT_EQ(through_file(vocabulary, size + 3), vocabulary) << name;
  }
}

TEST(GgufTokenizer, BytesAreAByteLevelVocabularyWithoutMerges) {
  const auto bytes = make_bytes_tokenizer(true);
  const GgufTokenizer written = gguf_tokenizer(*bytes->vocabulary(), 256);
  const auto value = [&](const std::string& key) -> const GgufValue& {
    return std::ranges::find(written.metadata, key, &GgufMetadata::value_type::first)->second;
  };
  EXPECT_EQ(*value("tokenizer.ggml.model").as_string(), "gpt2");
  EXPECT_TRUE(value("tokenizer.ggml.merges").as_strings()->empty());
  const auto& tokens = *value("tokenizer.ggml.tokens").as_strings();
  ASSERT_EQ(tokens.size(), 256u);
  EXPECT_EQ(tokens[0], "<|endoftext|>");
  EXPECT_EQ(tokens['A'], "A");
  EXPECT_EQ(tokens[' '], "\xc4\xa0");   // U+0120
  EXPECT_EQ(tokens['\n'], "\xc4\x8a");  // U+010A
  EXPECT_EQ((*value("tokenizer.ggml.token_type").as_integers())[0], 3);
  EXPECT_EQ(value("tokenizer.ggml.eos_token_id").as_integer(), 0);
  EXPECT_EQ(value("tokenizer.ggml.add_bos_token").as_bool(), false);
  const auto back = make_tokenizer(through_file(*bytes->vocabulary(), 256));
  const std::string text = "caf\xc3\xa9 \xff\x80 x\n";
  EXPECT_EQ(back->encode(text), bytes->encode(text));
  EXPECT_EQ(back->end_of_document(), 0);
}

TEST(GgufTokenizer, BytesOfAUnigramAreCharactersThere) {
  Vocabulary v{.kind = Vocabulary::Kind::kSentencePieceUnigram,
               .pieces = {{"<unk>", 0, Vocabulary::PieceType::kUnknown}},
               .unknown = 0,
               .add_space_prefix = false};
  static const char* const kDigits = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte)
    v.pieces.push_back({std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0,
                        Vocabulary::PieceType::kByte});
  v.pieces.push_back({"a", -2.5f});
  v.pieces.push_back({"\xe2\x96\x81", -3});
  const GgufTokenizer written = gguf_tokenizer(v, std::ssize(v.pieces));
  const auto value = [&](const std::string& key) -> const GgufValue& {
    return std::ranges::find(written.metadata, key, &GgufMetadata::value_type::first)->second;
  };
  const auto& tokens = *value("tokenizer.ggml.tokens").as_strings();
  const auto scores = *value("tokenizer.ggml.scores").as_numbers();
  EXPECT_EQ(tokens[1 + 'K'], "K");
  EXPECT_EQ(scores[1 + 'K'], -13);
  EXPECT_EQ(tokens[1 + '\n'], "\n");
  EXPECT_EQ(tokens[1 + 'a'], "<0x61>");  // 'a' has a piece of its own
  EXPECT_EQ(tokens[1 + 0xc3], "<0xC3>");
  testing::expect_says(notes_of(v), {"64 in llama.cpp"});
  EXPECT_EQ(through_file(v, std::ssize(v.pieces)), v);
}

/// Bytes, a space mark, two letters with and without the mark, and a user-defined end of document.
Vocabulary with_end() {
  using Type = Vocabulary::PieceType;
  Vocabulary v{.kind = Vocabulary::Kind::kSentencePieceBpe,
               .pieces = {{"<unk>", 0, Type::kUnknown}, {"</s>", 0, Type::kUserDefined}},
               .unknown = 0};
  for (std::size_t byte = 0; byte < 256; ++byte)
    v.pieces.push_back({byte_piece(byte), 0, Type::kByte});
  const std::string mark(kSpaceMark);
  for (const std::string& text : {mark, std::string("a"), std::string("x"), mark + "a", mark + "x"})
    v.pieces.push_back({text, -static_cast<float>(text.size())});
  return v;
}

TEST(GgufTokenizer, PiecesOfTheUserAreFoundAsLlamaCppFindsThem) {
  Vocabulary v = with_end();
  const std::vector<TokenId> anew = {261, 1, 262}, once = {261, 1, 260};
  EXPECT_EQ(make_tokenizer(v)->encode("a</s>x"), once);
  testing::expect_says(notes_of(v), {"'</s>') goes on here and begins anew"});
  // A vocabulary from a file follows llama.cpp's rule.
  EXPECT_EQ(make_tokenizer(through_file(v, 263))->encode("a</s>x"), anew);
  v.begins_anew = true;
  EXPECT_EQ(make_tokenizer(v)->encode("a</s>x"), anew);
  EXPECT_EQ(notes_of(v).find("anew"), std::string::npos);
  // A space mark in a user-defined piece is a space to SentencePiece alone. llama.cpp looks for the
  // mark itself in the text.
  v.begins_anew = false;
  v.pieces[1].text = std::string(kSpaceMark) + "/";
  EXPECT_EQ(through_file(v, 263).pieces[1].text, " /");
}

TEST(GgufTokenizer, WhatNoKeySaysOfPiecesIsNoted) {
  Vocabulary v = with_end();
  v.begins_anew = true;
  v.added = {{.id = 1, .content = "</s>", .rstrip = true}};
  testing::expect_says(notes_of(v), {"'</s>': takes the white space after it"});
  v.added = {{.id = 1, .content = "</s>", .lstrip = true}};
  testing::expect_says(notes_of(v), {"'</s>': takes the white space before it"});
  v.added = {{.id = 1, .content = "</s>", .single_word = true}};
  testing::expect_says(notes_of(v), {"'</s>': is found here only as a word"});
  v.added = {{.id = 1, .content = "</s>", .normalized = true}};
  testing::expect_says(notes_of(v), {"'</s>': is found here only behind a space"});
  v.added.clear();
  EXPECT_EQ(notes_of(v).find("</s>"), std::string::npos);
  // llama.cpp strips white space behind all pieces of a model with this name.
  const TempDirectory temp;
  auto keys = gguf_tokenizer(v, 263).metadata;
  keys.emplace_back("general.name", GgufValue::string("Phi-3-mini"));
  GgufWriter writer(real_file_system(), temp.path() / "v.gguf", keys, {});
  writer.commit();
  const auto phi3 = make_tokenizer(read_gguf_vocabulary(GgufFile(temp.path() / "v.gguf")));
  EXPECT_EQ(phi3->encode("a</s>  x"), (std::vector<TokenId>{261, 1, 262}));
}

TEST(GgufTokenizer, RulesForWordsComeBack) {
  for (const char* pre :
       {"gpt-2", "qwen2", "deepseek-llm", "deepseek-coder", "deepseek-v3", "falcon", "starcoder"}) {
    Vocabulary v = *make_bytes_tokenizer(true)->vocabulary();
    v.kind = Vocabulary::Kind::kByteBpe;
    v.pieces.push_back({"ab"});
    v.merges = {{"a", "b"}};
    v.pre = pre;
    v.compose = v.pre == "qwen2";
    v.bos = v.eos;
    v.add_space_prefix = false;
    const Vocabulary read = through_file(v, 257);
    EXPECT_EQ(read, v) << pre;
    EXPECT_EQ(make_tokenizer(read)->encode("ab 123").front(), 256);
  }
}

TEST(GgufTokenizer, WhatLlamaCppWouldCutOtherwiseIsRefused) {
  Vocabulary words{.kind = Vocabulary::Kind::kByteBpe,
                   .pieces = {{"a"}, {"b"}, {"ab"}},
                   .merges = {{"a", "b"}},
                   .patterns = {"\\w+"}};
  EXPECT_THROW(gguf_tokenizer(words, 3), Error);
  words.pre = "gpt-2";
  EXPECT_NO_THROW(gguf_tokenizer(words, 3));
  words.ignore_merges = true;  // gpt-2 does not ignore merges
  EXPECT_THROW(gguf_tokenizer(words, 3), Error);
  const Vocabulary characters{.kind = Vocabulary::Kind::kSentencePieceBpe,
                              .pieces = {{"<unk>", 0, Vocabulary::PieceType::kUnknown}, {"a"}}};
  EXPECT_THROW(gguf_tokenizer(characters, 2), Error);  // there are no byte pieces
  EXPECT_THROW(gguf_tokenizer(words, 2), Error);       // more pieces than the model has
}

TEST(GgufLayout, PlacesByHand) {
  const auto place = [](const char* name) { return gguf_place(name); };
  EXPECT_EQ(place("model.embed_tokens.weight").tensor, "token_embd.weight");
  EXPECT_EQ(place("lm_head.weight").tensor, "output.weight");
  EXPECT_EQ(place("model.layers.12.self_attn.k_proj.bias").tensor, "blk.12.attn_k.bias");
  EXPECT_EQ(place("model.layers.0.mlp.down_proj.weight").tensor, "blk.0.ffn_down.weight");
  EXPECT_EQ(place("model.layers.0.mlp.down_proj.weight").expert, -1);
  EXPECT_EQ(place("model.layers.3.mlp.experts.10.gate_proj.weight").tensor,
            "blk.3.ffn_gate_exps.weight");
  EXPECT_EQ(place("model.layers.3.mlp.experts.10.gate_proj.weight").expert, 10);
  // Tensors of the same shape. A round trip would not show names that are swapped in both
  // directions.
  const std::string layer = "model.layers.7.";
  for (const auto& [ours, theirs] : std::vector<std::pair<std::string, std::string>>{
           {"input_layernorm.weight", "attn_norm.weight"},
           {"post_attention_layernorm.weight", "ffn_norm.weight"},
           {"self_attn.q_proj.weight", "attn_q.weight"},
           {"self_attn.k_proj.weight", "attn_k.weight"},
           {"self_attn.v_proj.weight", "attn_v.weight"},
           {"self_attn.o_proj.weight", "attn_output.weight"},
           {"self_attn.q_proj.bias", "attn_q.bias"},
           {"self_attn.v_proj.bias", "attn_v.bias"},
           {"self_attn.q_norm.weight", "attn_q_norm.weight"},
           {"self_attn.k_norm.weight", "attn_k_norm.weight"},
           {"mlp.gate_proj.weight", "ffn_gate.weight"},
           {"mlp.up_proj.weight", "ffn_up.weight"},
           {"mlp.gate.weight", "ffn_gate_inp.weight"},
           {"mlp.experts.1.up_proj.weight", "ffn_up_exps.weight"},
           {"mlp.experts.1.down_proj.weight", "ffn_down_exps.weight"},
           {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
           {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
           {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
           {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"}})
    EXPECT_EQ(gguf_place(layer + ours).tensor, "blk.7." + theirs);
  EXPECT_EQ(place("model.norm.weight").tensor, "output_norm.weight");
  EXPECT_EQ(place("model.layers.3.mlp.router.scorer.queries").tensor, "");
  EXPECT_EQ(place("model.layers.x.mlp.gate.weight").tensor, "");
}

}  // namespace
}  // namespace penstock
