#include "penstock/data/tokenizers/score_tokenizer.h"

#include <algorithm>
#include <cstring>

#include "penstock/data/tokenizers/from_files.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/tokenizers/hugging_face_files.h"
#include "penstock/data/tokenizers/merge_scores.h"
#include "penstock/data/tokenizers/tokenizer_bin.h"
#include "penstock/data/tokenizers/tokenizer_json.h"
#include "tests/data/sentencepiece_usable.h"
#include "tests/data/tokenizers/vectors.h"

namespace penstock {
namespace {

using namespace testing;
using nlohmann::json;
using Type = Vocabulary::PieceType;

/// The characters a, b and c, and three merges. There are no byte pieces.
Vocabulary small_scores() {
  return {.kind = Vocabulary::Kind::kSentencePieceBpe,
          .pieces = {{"<unk>", 0, Type::kUnknown},
                     {"</s>", 0, Type::kControl},
                     {"a"},
                     {"b"},
                     {"c"},
                     {"ab", -3},
                     {"bc", -1},
                     {"abc", -2},
                     {"\xe2\x96\x81", -9}},
          .eos = 1,
          .unknown = 0,
          .add_space_prefix = false};
}

TEST(ScoreTokenizer, TheBestScoreMergesFirst) {
  const auto tokenizer = make_tokenizer(small_scores());
  EXPECT_EQ(tokenizer->encode("abc"), (std::vector<TokenId>{7}));  // bc, then abc
  EXPECT_EQ(tokenizer->encode("abab c"), (std::vector<TokenId>{5, 5, 8, 4}));
  EXPECT_EQ(tokenizer->encode("axb"), (std::vector<TokenId>{2, 0, 3}));
  EXPECT_EQ(tokenizer->encode("a</s>").size(), 5u);
  EXPECT_EQ(tokenizer->encode_with_controls("a</s>b"), (std::vector<TokenId>{2, 1, 3}));
  Vocabulary prefixed = small_scores();
  prefixed.add_space_prefix = true;
  EXPECT_EQ(make_tokenizer(prefixed)->encode("c"), (std::vector<TokenId>{8, 4}));
  EXPECT_EQ(make_tokenizer(prefixed)->decode({{8, 4}}), "c");
  EXPECT_EQ(make_tokenizer(prefixed)->encode(""), (std::vector<TokenId>{}));
}

TEST(ScoreTokenizer, PiecesOfTheUserAreFoundByEitherRule) {
  Vocabulary vocabulary = small_scores();
  vocabulary.add_space_prefix = true;
  vocabulary.pieces.push_back(
      {"\xe2\x96\x81"
       "b",
       -4, Type::kUserDefined});
  // SentencePiece's rule: only the text's beginning gets a space, and "▁b" matches a space and a b.
  EXPECT_EQ(make_tokenizer(vocabulary)->encode("a bc"), (std::vector<TokenId>{8, 2, 9, 4}));
  EXPECT_EQ(difference_after_pieces(vocabulary).substr(0, 4), "text");
  // Hugging Face's and llama.cpp's rule: the piece matches literally, and the text after it gets a
  // space.
  vocabulary.begins_anew = true;
  vocabulary.pieces.back().text = "<b>";
  EXPECT_EQ(make_tokenizer(vocabulary)->encode("a<b>c"), (std::vector<TokenId>{8, 2, 9, 8, 4}));
  EXPECT_EQ(difference_after_pieces(vocabulary), "");
  const auto files = make_tokenizer(vocabulary)->files();
  EXPECT_EQ(read_tokenizer_json(files, "written")->encode("a<b>c"),
            (std::vector<TokenId>{8, 2, 9, 8, 4}));
}

TEST(ScoreTokenizer, CharactersThatAreNoPiecesMergeToo) {
  Vocabulary vocabulary = small_scores();
  vocabulary.pieces.push_back({"xy", -1});
  const auto tokenizer = make_tokenizer(vocabulary);
  EXPECT_EQ(tokenizer->encode("axyx"), (std::vector<TokenId>{2, 9, 0}));
}

TEST(ScoreTokenizer, ContradictionsAreErrors) {
  Vocabulary vocabulary = small_scores();
  vocabulary.eos = 99;
  expect_says(error_of([&] { make_tokenizer(vocabulary); }), {"99"});
  vocabulary = small_scores();
  vocabulary.pieces[5].type = Type::kUnused;
  expect_says(error_of([&] { make_tokenizer(vocabulary); }), {"unused piece 'ab'"});
  vocabulary = small_scores();
  vocabulary.pieces[5].score = std::nanf("");
  expect_says(error_of([&] { make_tokenizer(vocabulary); }), {"score"});
  vocabulary = small_scores();
  vocabulary.pieces[5].text = std::string(1000, 'a');
  expect_says(error_of([&] { make_tokenizer(vocabulary); }), {"1000 bytes"});
}

TEST(TokenizerBin, AgreesWithTheIdsOfStories260K) {
  const std::string file = shared_data("checkpoints/stories260K/tok512.bin"),
                    nll = shared_data("checkpoints/stories260K/reference_nll.json");
  if (file.empty() || nll.empty()) GTEST_SKIP() << "missing data: tokenizers";
  const auto tokenizer = load_tokenizer(file);
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  EXPECT_EQ(tokenizer->vocabulary()->bos, 1);
  std::vector<std::string> texts = hard_texts();
  int examples = 0;
  const json reference = json::parse(read_bytes(nll));
  for (const auto& example : reference.at("examples")) {
    const auto text = example.at("text").get<std::string>();
    auto expected = example.at("ids").get<std::vector<TokenId>>();
    auto ids = tokenizer->encode(text);
    EXPECT_EQ(tokenizer->decode(ids), text);
    ids.insert(ids.begin(), 1);
    ids.resize(std::min(ids.size(), expected.size()));
    EXPECT_EQ(ids, expected);
    texts.push_back(text);
    ++examples;
  }
  EXPECT_GT(examples, 3);
  for (const auto& text : texts) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  expect_same(*tokenizer, *make_tokenizer(*tokenizer->vocabulary()), texts);
  const auto written = read_tokenizer_json(hugging_face_files(*tokenizer), "written");
  expect_same(*tokenizer, *written, texts);
  EXPECT_TRUE(written->vocabulary()->add_bos);
}

TEST(TokenizerBin, DamagedFilesAreErrors) {
  const std::string file = shared_data("checkpoints/stories260K/tok512.bin");
  if (file.empty()) GTEST_SKIP() << "missing data: tokenizers";
  const std::string good = read_bytes(file);
  EXPECT_NO_THROW(read_tokenizer_bin(good, "tok"));
  for (const std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{500}, good.size() - 1})
    expect_says(error_of([&] { read_tokenizer_bin(good.substr(0, size), "tok"); }), {"'tok'"});
  const auto with = [&](std::size_t at, std::int32_t number) {
    std::string bad = good;
    std::memcpy(bad.data() + at, &number, sizeof number);
    return bad;
  };
  expect_says(error_of([&] { read_tokenizer_bin(with(0, 1 << 30), "tok"); }), {"longest"});
  expect_says(error_of([&] { read_tokenizer_bin(with(4, 0x7fc00000), "tok"); }), {"score"});
  expect_says(error_of([&] { read_tokenizer_bin(with(8, -5), "tok"); }), {"-5 bytes"});
}

class LlamaModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!sentencepiece_usable()) GTEST_SKIP() << "built with AddressSanitizer";
    vectors_ = token_vectors("tokenizers/llama-spm/ggml-vocab-llama-spm.gguf");
    if (vectors_.empty()) GTEST_SKIP() << "missing data: tokenizers";
    tokenizer_ = load_tokenizer(shared_data("tokenizers/llama-spm/tokenizer.model"));
  }
  std::vector<TokenVector> vectors_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(LlamaModel, AgreesWithTheVectors) {
  EXPECT_EQ(vectors_.size(), 46u);
  EXPECT_EQ(tokenizer_->vocab_size(), 32000);
  EXPECT_EQ(tokenizer_->end_of_document(), 2);
  expect_agrees(*tokenizer_, vectors_);
}

TEST_F(LlamaModel, OwnMergingGivesTheSame) {
  const auto vocabulary = tokenizer_->vocabulary();
  ASSERT_TRUE(vocabulary);
  EXPECT_TRUE(vocabulary->add_bos && vocabulary->add_space_prefix);
  const auto own = make_tokenizer(*vocabulary);
  expect_agrees(*own, vectors_);
  expect_same(*tokenizer_, *own, hard_texts());
  // The vocabulary saved as a SentencePiece model and as merges.
  const TemporaryFolder folder;
  own->save(folder / "");
  const auto saved = load_tokenizer(folder / "");
  expect_same(*tokenizer_, *saved, hard_texts());
  EXPECT_EQ(saved->vocabulary()->pieces, vocabulary->pieces);
  const auto merges = read_tokenizer_json(hugging_face_files(*vocabulary), "written");
  expect_agrees(*merges, vectors_);
  expect_same(*tokenizer_, *merges, hard_texts());
  // Only the numbers tell ranks of merges from scores.
  const auto back = merges->vocabulary();
  ASSERT_TRUE(back);
  expect_same(*tokenizer_, *make_tokenizer(*back), hard_texts());
}

class TrainedModels : public ::testing::TestWithParam<const char*> {};

TEST_P(TrainedModels, ComeBackFromTheirVocabulary) {
  if (!sentencepiece_usable()) GTEST_SKIP() << "built with AddressSanitizer";
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "a turbine " + std::to_string(i * 37 % 101) +
            " takes its water\n\tfrom the penstock, " +
            std::string(1, static_cast<char>('a' + i % 26)) + "er  \n\n";
  const std::vector<std::string_view> texts = {text};
  const auto tokenizer = make_tokenizer(GetParam(), texts);
  const auto vocabulary = tokenizer->vocabulary();
  ASSERT_TRUE(vocabulary);
  auto all = hard_texts();
  all.push_back(text);
  expect_same(*tokenizer, *make_tokenizer(*vocabulary), all);
  const auto again = make_tokenizer(*vocabulary)->vocabulary();
  EXPECT_EQ(*again, *vocabulary);
  const auto written = read_tokenizer_json(hugging_face_files(*tokenizer), "written");
  expect_same(*tokenizer, *written, all);
  all.push_back("U+2581 \xe2\x96\x81 is text here");
  expect_same(*tokenizer, *make_tokenizer(*vocabulary), all);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TrainedModels, ::testing::Values("bpe:300", "unigram:300"),
                         [](const auto& info) { return std::string(info.param).substr(0, 3); });

TEST(Vocabularies, OfBytesComeBack) {
  const std::vector<std::string_view> texts = {"a penstock\nholds water"};
  for (const char* spec : {"bytes", "byte-vocabulary"}) {
    const auto tokenizer = make_tokenizer(spec, texts);
    const auto vocabulary = tokenizer->vocabulary();
    ASSERT_TRUE(vocabulary) << spec;
    expect_same(*tokenizer, *make_tokenizer(*vocabulary), {"water holds\na penstock"});
    EXPECT_EQ(*make_tokenizer(*vocabulary)->vocabulary(), *vocabulary);
    const auto files = hugging_face_files(*tokenizer);
    EXPECT_TRUE(files.contains("tokenizer_config.json"));
  }
  EXPECT_FALSE(make_tokenizer("byte-vocabulary-no-newlines", texts)->vocabulary());
  EXPECT_FALSE(make_tokenizer("words", texts)->vocabulary());
}

TEST(MergeScores, GivenOnlyWhereScoresSayTheSame) {
  Vocabulary vocabulary = small_scores();
  vocabulary.merges = merges_of_scores(vocabulary);
  EXPECT_EQ(vocabulary.merges, (std::vector<std::pair<std::string, std::string>>{
                                   {"b", "c"}, {"ab", "c"}, {"a", "bc"}, {"a", "b"}}));
  Vocabulary scored = vocabulary;
  EXPECT_TRUE(set_scores_of_merges(scored));
  EXPECT_GT(scored.pieces[6].score, scored.pieces[7].score);
  EXPECT_GT(scored.pieces[7].score, scored.pieces[5].score);
  scored.merges.pop_back();  // no merge makes ab any more
  EXPECT_FALSE(set_scores_of_merges(scored));
  scored = vocabulary;
  std::swap(scored.merges[1], scored.merges[0]);  // abc's two merges are apart
  EXPECT_FALSE(set_scores_of_merges(scored));
}

}  // namespace
}  // namespace penstock
