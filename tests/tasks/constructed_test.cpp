// A task from its file to its accuracy, on a decoder that is a bigram model, so that all scores are
// known by hand.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <fstream>

#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/io/toml.h"
#include "penstock/models/make_model.h"
#include "penstock/tasks/evaluate.h"
#include "tests/base/temp_directory.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

constexpr std::int64_t kVocab = 257, kWidth = 272;

/// A decoder over bytes whose logit of byte v after byte u is `head`[v][u]. Embeddings are unit
/// vectors; attention and feed-forward add nothing.
std::shared_ptr<LanguageModel> bigram_model(const at::Tensor& head) {
  ModelConfig config{.vocab = kVocab, .d_model = kWidth, .layers = 1, .heads = 1, .d_ffn = 16};
  config.context = 64;
  auto model = make_model(config, 1);
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : model->named_parameters()) {
    at::Tensor value = parameter.value();
    const std::string& name = parameter.key();
    if (name.find("norm") != std::string::npos) value.fill_(1);
    // The embeddings are large, so that the norm's ε does not count.
    else if (name.find("embed_tokens") != std::string::npos)
      value.copy_(100 * torch::eye(kVocab, kWidth));
    else if (name.find("lm_head") != std::string::npos)
      value.copy_(torch::constant_pad_nd(head / std::sqrt(static_cast<double>(kWidth)),
                                         {0, kWidth - kVocab}));
    else
      value.zero_();
  }
  return model;
}

class BigramModel : public ::testing::Test {
 protected:
  void SetUp() override {
    at::Tensor head = torch::zeros({kVocab, kVocab});
    head.index_put_({'a', ' '}, 3);
    head.index_put_({'b', ' '}, 1);
    head.index_put_({0xff, '?'}, 60);
    head.index_put_({'a', 'a'}, 60);  // a follows a at no cost
    model_ = bigram_model(head);
  }

  EvaluatedTask evaluate(const std::string& task, const std::string& rows) {
    const std::string file = directory_.path("t.jsonl");
    std::ofstream(file) << rows;
    return evaluate(load_task(parse_task(parse_toml(task, "t.toml"), "t.toml"), {.file = file}));
  }

  EvaluatedTask evaluate(const LoadedTask& loaded) {
    const auto tokenizer = make_tokenizer("bytes", {});
    return evaluate_task(model_, *tokenizer, loaded,
                         encode_task(model_->config(), *tokenizer, loaded, {}), {});
  }

  testing::TempDirectory directory_;
  std::shared_ptr<LanguageModel> model_;
};

const std::string kChoices = R"(
name = "t"
metrics = ["acc", "acc_norm", "acc_bytes"]
[[form]]
has = ["q"]
context = "{{q}}:"
choices = ["{{c}}"]
gold = "{{g}}"
)";

TEST_F(BigramModel, ScoresWhatIsKnownByHand) {
  const auto out = evaluate(kChoices, R"({"q": "which", "c": ["b", "a", "aaa"], "g": 1}
{"q": "and then", "c": ["b", "a", "aaa"], "g": 2}
{"q": "x", "c": ["b", "bb"], "g": 0}
)");
  const double after_space = std::log(255 + std::exp(3.0) + std::exp(1.0)), any = std::log(257.0);
  const auto& first = out.scores.at(0);
  EXPECT_NEAR(first[0].loglikelihood, -any + 1 - after_space, 1e-3);
  EXPECT_NEAR(first[1].loglikelihood, -any + 3 - after_space, 1e-3);
  EXPECT_NEAR(first[2].loglikelihood, first[1].loglikelihood, 1e-6);
  EXPECT_NEAR(out.scores[2][1].loglikelihood, -2 * any + 1 - after_space, 1e-3);
  // Equal scores choose the first; scores per character choose the longest.
  EXPECT_EQ(out.result.items[0].chosen, 1);
  EXPECT_EQ(out.result.items[1].chosen, 1);
  EXPECT_EQ(out.result.items[2].chosen, 0);
  EXPECT_DOUBLE_EQ(out.result.acc.mean, 2.0 / 3);
  EXPECT_FALSE(out.result.items[0].right_norm);
  EXPECT_TRUE(out.result.items[1].right_norm);
}

TEST_F(BigramModel, SaysGreedilyWhatItWouldSay) {
  const std::string task = R"(
name = "t"
kind = "continuation"
metrics = ["acc", "perplexity"]
[[form]]
has = ["text"]
context = "{{text | before_last('|')}}"
continuation = "{{text | after_last('|')}}"
)";
  const auto out = evaluate(task, R"({"text": "ba|aaa"}
{"text": "ba|ab"}
)");
  EXPECT_TRUE(out.result.items[0].right);
  EXPECT_NEAR(*out.result.perplexity, std::exp(30), std::exp(30) * 1e-2);  // after aa, a b costs 60

  EXPECT_DOUBLE_EQ(out.result.acc.mean, 0.5);
}

const std::string kAnswers = R"(
name = "t"
kind = "generation"
metrics = ["exact_match"]
until = ["|"]
max_tokens = 5
[[form]]
has = ["q", "a"]
context = "{{q}}"
answers = ["{{a}}"]
)";

TEST_F(BigramModel, SaysItsAnswer) {
  const auto out = evaluate(kAnswers, R"({"q": "b ", "a": "AAAAA."}
{"q": "b ", "a": ["b", "aaaa"]}
)");
  ASSERT_EQ(out.result.items.size(), 2u);
  EXPECT_EQ(out.result.items[0].generated, "aaaaa");  // a follows a space, and a follows a
  EXPECT_TRUE(out.result.items[0].right);
  EXPECT_FALSE(out.result.items[1].right);
  EXPECT_EQ(to_json(out.result).at("exact_match"), 0.5);
  EXPECT_EQ(error_of([&] {
              evaluate(std::string(kAnswers).replace(kAnswers.find("= 5"), 3, "= 64"),
                       R"({"q": "b ", "a": "b"})");
            }).substr(directory_.path().string().size() + 1),
            "t.jsonl:1: the model's window of 64 tokens has no room for a question beside an "
            "answer of 64; give a longer options.sequence_length");
}

TEST_F(BigramModel, RecordsAnswersThatAreNoText) {
  const std::string file = directory_.path("t.jsonl");
  std::ofstream(file) << R"({"q": "?", "a": "b"})";
  const auto loaded =
      load_task(parse_task(parse_toml(kAnswers, "t.toml"), "t.toml"), {.file = file});
  const auto out = evaluate(loaded);
  const auto said = Row::parse(item_lines(loaded, out)).at("generated").get<std::string>();
  EXPECT_EQ(said.substr(0, 3), "\uFFFD");  // replaces a byte that is no character
}

TEST_F(BigramModel, RecordsEveryRequest) {
  const std::string row = R"({"q": "q", "c": ["b", "a"], "g": 1})";
  const std::string file = directory_.path("t.jsonl");
  std::ofstream(file) << row;
  const auto loaded =
      load_task(parse_task(parse_toml(kChoices, "t.toml"), "t.toml"), {.file = file});
  const auto out = evaluate(loaded);
  const Row line = Row::parse(item_lines(loaded, out));
  EXPECT_EQ(line.at("doc"), Row::parse(row));
  EXPECT_EQ(line.at("chosen"), 1);
  EXPECT_EQ(line.at("gold"), 1);
  const Row& request = line.at("requests").at(1);
  EXPECT_EQ(request.at("context"), "q:");
  EXPECT_EQ(request.at("continuation"), " a");
  EXPECT_EQ(request.at("ids"), (Row::array({'q', ':', ' ', 'a'})));
  EXPECT_EQ(request.at("scored_from"), 2);
  EXPECT_EQ(request.at("greedy"), false);
}

}  // namespace
}  // namespace penstock::tasks
