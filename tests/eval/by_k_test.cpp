// Evaluation at chosen numbers of experts per token. It equals a model built with that k; models
// without a choice of k are refused.
#include "penstock/eval/by_k.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/models/make_model.h"
#include "tests/base/error_of.h"
#include "tests/models/tiny_decoder.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

ModelConfig small(const std::string& method, double k, ModelKind architecture) {
  ModelConfig config = testing::tiny_decoder(method, 16, 256);
  config.architecture = architecture;
  config.router.k = k;
  if (method == "lory") config.router.parts["lory"].set("segment_length", 4);
  return config;
}

/// The weights do not depend on k: the same seed draws the same weights.
std::shared_ptr<LanguageModel> built(const ModelConfig& config) {
  torch::manual_seed(11);
  return make_model(config, 1);
}

std::string refusal(const ModelConfig& config, std::vector<std::int64_t> values) {
  return testing::error_or("", [&] { check_k_values(config, values); });
}

class ByK : public testing::SmallCorpusTest<> {
 protected:
  static EvaluateOptions options(bool streams) {
    return {.sequence_length = 16,
            .batch_sequences = 4,
            .max_tokens = 500,
            .streams = streams ? 5 : 0,
            .memory_length = streams ? 24 : -1};
  }
};

TEST_F(ByK, IsTheModelBuiltWithThatK) {
  for (const ModelKind architecture : {ModelKind::decoder, ModelKind::transformer_xl}) {
    const bool streams = architecture == ModelKind::transformer_xl;
    for (const char* method : {"topk", "smoe", "smoe-dropout", "hyperrouter", "switch"}) {
      SCOPED_TRACE(std::string(word(architecture)) + " " + method);
      const auto trained = built(small(method, 2, architecture));
      double before = 0;
      for (const std::int64_t k : {1, 2, 3, 4}) {
        const auto other = built(small(method, static_cast<double>(k), architecture));
        const double expected = evaluate(*other, *corpus_, options(streams)).total.nats;
        const KPoint point = evaluate_at_k(*trained, *corpus_, options(streams), k);
        EXPECT_EQ(point.evaluation.total.nats, expected) << k;
        EXPECT_NE(expected, before) << k;
        before = expected;
      }
      // A pass with another k changes nothing in the model, whose own k is the last of its
      // schedule.
      EXPECT_EQ(evaluate(*trained, *corpus_, options(streams)).total.nats,
                evaluate_at_k(*trained, *corpus_, options(streams), 2).evaluation.total.nats);
    }
  }
}

TEST_F(ByK, WithAllExpertsAndSoftmaxBeforeItIsTheFullMixture) {
  torch::manual_seed(3);
  const ModelConfig config = small("topk", 1, ModelKind::decoder);
  MoeLayer layer(config.moe_options(0));
  layer.to(at::kDouble);
  torch::NoGradGuard no_grad;
  const at::Tensor x = torch::randn({7, 16}, at::kDouble);  // [T, d]
  const auto parameters = layer.named_parameters();
  const at::Tensor router = parameters["router.scorer.weight"];
  const at::Tensor gates = x.matmul(router.t()).softmax(1);  // [T, E]
  at::Tensor expected = at::zeros_like(x);
  for (std::int64_t e = 0; e < 4; ++e) {
    const auto halves = x.matmul(layer.experts().gate_up()[e].t()).chunk(2, 1);  // 2 x [T, f]
    const at::Tensor inner = halves[0] * halves[0].sigmoid() * halves[1];
    expected += gates.select(1, e).unsqueeze(1) * inner.matmul(layer.experts().down()[e].t());
  }
  const at::Tensor y = layer.forward(x, {.k = 4}).y;
  EXPECT_LT((y - expected).abs().max().item<double>(), 1e-12);
  EXPECT_GT((layer.forward(x).y - expected).abs().max().item<double>(), 1e-6);
}

TEST_F(ByK, CountsWhatEachPointCosts) {
  const auto model = built(small("hyperrouter", 4, ModelKind::transformer_xl));
  std::vector<double> flops;
  for (const std::int64_t k : {1, 2, 4}) {
    const KFigures figures = evaluate_at_k(*model, *corpus_, options(true), k).figures;
    EXPECT_EQ(figures.k, k);
    EXPECT_GT(figures.tokens_per_second, 0);
    EXPECT_GT(figures.peak_memory_bytes, 1e6);
    flops.push_back(figures.flops_per_token);
  }
  // One expert costs two matrices of 16 x 24 in each of two layers, at 2 FLOPs a product.
  const double expert = 2 * 2 * 2 * 16 * 24;
  EXPECT_DOUBLE_EQ(flops[1] - flops[0], expert);
  EXPECT_DOUBLE_EQ(flops[2] - flops[0], 3 * expert);
  // All costs at k = 1 with 4 rows of 16 tokens after 24 remembered ones. Per token: q, k, v and
  // output of width 16, a router of 4, one expert and the head; 8.5 + 24 positions read by three
  // products. Per row: keys and values of 24 remembered positions. For all rows together: 40
  // distances.
  const double by_hand = 2 * (2 * (4 * 256 + 64 + 2 * 384) + 256 * 16 + 2 * 3 * 16 * 32.5 +
                              2 * (2 * 256 * 24.0 / 16 + 256 * 40.0 / 64));
  EXPECT_DOUBLE_EQ(flops[0], by_hand);
}

TEST_F(ByK, ModelsWithoutKHaveOnePoint) {
  for (const char* method : {"dense", "remoe", "hash"}) {
    const auto model = built(small(method, 1, ModelKind::decoder));
    const KPoint point = evaluate_at_k(*model, *corpus_, options(false), 0);
    EXPECT_EQ(point.evaluation.total.nats, evaluate(*model, *corpus_, options(false)).total.nats);
    EXPECT_TRUE(to_json(point.figures)["k"].is_null());
  }
  // ReLU's cost is the cost of the experts that were active.
  const auto model = built(small("remoe", 1, ModelKind::decoder));
  const KPoint point = evaluate_at_k(*model, *corpus_, options(false), 0);
  double assignments = 0;
  for (const auto& layer : point.evaluation.routing.assignments)
    for (const double count : layer) assignments += count;
  const double active = assignments / static_cast<double>(point.evaluation.total.tokens);
  EXPECT_NEAR(point.figures.flops_per_token,
              forward_flops_per_token(model->config(), options(false), 0) + 2 * 3 * 384 * active,
              1e-6 * point.figures.flops_per_token);
}

TEST(ByKRefuses, ModelsWhoseTokensDoNotAskForK) {
  const std::map<std::string, std::string> reasons = {
      {"dense", "dense"},        {"remoe", "'relu'"}, {"hash", "'hash'"},
      {"lory", "'lory' blends"}, {"thor", "'thor'"},  {"expert-choice", "'expert-choice'"}};
  for (const auto& [method, reason] : reasons) {
    const ModelConfig config = small(method, 1, ModelKind::decoder);
    testing::expect_says(refusal(config, {1}), {reason});
    EXPECT_EQ(refusal(config, {1}).find('\n'), std::string::npos);
    EXPECT_FALSE(takes_k(config, 1));
    if (method == "dense" || method == "lory") continue;
    const auto model = built(config);
    EXPECT_THROW(model->forward({.tokens = torch::zeros({1, 8}, at::kLong)}, {.k = 1}), Error);
  }
}

TEST(ByKRefuses, ValuesThatTheModelDoesNotTake) {
  const ModelConfig config = small("topk", 1, ModelKind::decoder);
  EXPECT_EQ(refusal(config, {1, 2, 4}), "");
  testing::expect_says(refusal(config, {2, 5}), {"5 is not from 1 to 4"});
  testing::expect_says(refusal(config, {0}), {"0 is not from 1"});
  testing::expect_says(refusal(small("gshard", 2, ModelKind::decoder), {1, 3}),
                       {"3 is not from 1 to 2"});
  EXPECT_TRUE(takes_k(small("gshard", 2, ModelKind::decoder), 1));
  EXPECT_FALSE(takes_k(small("gshard", 2, ModelKind::decoder), 4));
  EXPECT_FALSE(takes_k(config, 5));
  // Granularity multiplies the number of experts, and k counts granular experts.
  ModelConfig fine = config;
  fine.moe.granularity = 2;
  EXPECT_EQ(refusal(fine, {3, 8}), "");
  fine.router = small("hyperrouter", 4, ModelKind::decoder).router;
  EXPECT_EQ(refusal(fine, {3, 8}), "");
}

TEST(ByKRefuses, TextThatIsNoListOfNumbers) {
  EXPECT_EQ(parse_k_values("1,2,16"), (std::vector<std::int64_t>{1, 2, 16}));
  EXPECT_EQ(parse_k_values("8"), (std::vector<std::int64_t>{8}));
  for (const char* text :
       {"", "1,", ",1", "1,,2", "1;2", "two", "1.5", "1, 2", "2,1,2", "99999999999999999999"})
    EXPECT_THROW(parse_k_values(text), Error) << text;
}

TEST(KFigures, GoToJsonAndBack) {
  const KFigures figures{8, 1.5, 4.4817, 2.164, 3.6e7, 1234.5, 2e9};
  const nlohmann::json written = nlohmann::json::parse(to_json(figures).dump());
  const KFigures read = k_figures_from_json(written, "here");
  EXPECT_EQ(read.k, 8);
  EXPECT_EQ(read.bits_per_byte, 2.164);
  EXPECT_EQ(read.peak_memory_bytes, 2e9);
  nlohmann::json broken = written;
  broken.erase("loss");
  EXPECT_THROW(k_figures_from_json(broken, "here"), Error);
  broken = written;
  broken["k"] = "two";
  EXPECT_THROW(k_figures_from_json(broken, "here"), Error);
}

}  // namespace
}  // namespace penstock
