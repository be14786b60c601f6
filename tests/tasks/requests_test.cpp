// Requests of other programs: texts and tokens are encoded as tasks encode them, and scores do not
// depend on how the requests are grouped.
#include "penstock/tasks/requests.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/data/tokenizers/bytes_tokenizer.h"
#include "penstock/models/make_model.h"
#include "tests/models/tiny_decoder.h"
#include "tests/tasks/support.h"

namespace penstock::tasks {
namespace {

TokenRequest read_line(const std::string& line, std::int64_t window = 16) {
  const auto tokenizer = make_bytes_tokenizer(/*end_of_document=*/false);
  return read_request(RequestEncoder(*tokenizer, window), parse_row(line, "asked.jsonl:3"));
}

std::string error_of_line(const std::string& line) {
  return error_of([&] { read_line(line); });
}

TEST(Requests, AreTextsOrTokens) {
  const TokenRequest texts = read_line(R"({"context": "ab ", "continuation": "c"})");
  EXPECT_EQ(texts.ids, (std::vector<TokenId>{'a', 'b', ' ', 'c'}));
  EXPECT_EQ(texts.scored_from, 2u);  // white space at the context's end is scored
  EXPECT_EQ(read_line(R"({"ids": [97, 98, 32, 99], "scored_from": 2})"), texts);
  const TokenRequest cut = read_line(R"({"ids": [1, 2, 3, 4, 5, 6], "scored_from": 4})", 3);
  EXPECT_EQ(cut.ids, (std::vector<TokenId>{3, 4, 5, 6}));
  EXPECT_EQ(cut.scored_from, 2u);
}

TEST(Requests, ThatAreNoneNameTheirLine) {
  for (const auto& [line, part] : std::vector<std::pair<std::string, std::string>>{
           {"[1]", "no JSON object"},
           {R"({"context": "a"})", "'context' and 'continuation', or 'ids' and 'scored_from'"},
           {R"({"context": "a", "continuation": "b", "k": 1})", "no more"},
           {R"({"context": "a", "continuation": 1})", "'continuation' is no text"},
           {R"({"ids": [1, -2], "scored_from": 1})", "no list of token ids"},
           {R"({"ids": [1, 2.5], "scored_from": 1})", "no list of token ids"},
           {R"({"ids": [1, 2], "scored_from": 2})", "'scored_from' is 2"},
           {R"({"ids": [1, 2], "scored_from": 0})", "'scored_from' is 0"},
           {R"({"context": "a", "continuation": ""})", "adds no token"}}) {
    const std::string error = error_of_line(line);
    EXPECT_NE(error.find("asked.jsonl:3"), std::string::npos) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  EXPECT_NE(error_of([] {
              read_line(R"({"ids": [1, 2, 3, 4, 5], "scored_from": 1})", 3);
            }).find("longer than the model's window of 3"),
            std::string::npos);
}

TEST(Requests, HaveTheSameScoresTogetherAndAlone) {
  torch::manual_seed(5);
  const auto model = make_model(testing::tiny_decoder("topk", /*context=*/64), 1);
  std::vector<TokenRequest> requests;
  for (TokenId first = 0; first < 3; ++first)
    for (const TokenId last : {4, 7, 9}) {
      TokenRequest request{.scored_from = 10};
      for (TokenId i = 0; i < 12; ++i) request.ids.push_back((first + i * i) % 11);
      request.ids.push_back(last);
      requests.push_back(request);
    }
  requests.push_back({.ids = {3, 1}});
  const auto together = score_requests(*model, requests);
  ASSERT_EQ(together.size(), requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto alone = score_items(*model, std::vector<std::vector<TokenRequest>>{{requests[i]}});
    EXPECT_NEAR(together[i].loglikelihood, alone[0][0].loglikelihood, 1e-5);
    EXPECT_EQ(together[i].greedy, alone[0][0].greedy);
  }
  EXPECT_TRUE(score_requests(*model, {}).empty());
}

}  // namespace
}  // namespace penstock::tasks
