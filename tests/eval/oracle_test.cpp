// The oracle's choice of experts: equal to the best of all choices in the last layer, never worse
// than the model's own choice, and without a change to the model.
#include "penstock/eval/oracle.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <nlohmann/json.hpp>

#include "penstock/layers/all_outputs.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/make_model.h"
#include "tests/base/error_of.h"
#include "tests/models/tiny_decoder.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

ModelConfig model_of(const std::string& method, double k, bool renormalise = false) {
  ModelConfig config = testing::tiny_decoder(method, 16, 256);
  config.layers = 3;
  config.router.k = k;
  if (renormalise) config.router.parts["topk"].set("renormalise", true);
  return config;
}

class Oracle : public testing::SmallCorpusTest<> {
 protected:
  static EvaluateOptions options() {
    return {.sequence_length = 16, .batch_sequences = 4, .max_tokens = 128};
  }
  Batch batch(std::int64_t index) const {
    return EvaluationWindows(*corpus_, options().split,
                             {.sequence_length = 16, .batch_sequences = 4, .max_tokens = 128})
        .batch(index);
  }
};

/// −ln p of each target if the last layer's token t takes the experts `first` and `second`. They
/// get the token's two highest probabilities; the expert with the higher logit gets the higher one.
at::Tensor nats_with(LanguageModel& model, const at::Tensor& without, const at::Tensor& outputs,
                     const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                     std::int64_t second) {
  const at::Tensor p = logits.softmax(1);
  const at::Tensor gates = std::get<0>(p.sort(1, true));  // [T, E]
  const at::Tensor first_leads = logits.select(1, first).ge(logits.select(1, second));
  const at::Tensor high = gates.select(1, 0), low = gates.select(1, 1);
  const at::Tensor of_first = high.where(first_leads, low),
                   of_second = low.where(first_leads, high);
  const at::Tensor x =
      without + of_first.unsqueeze(1) * outputs[first] + of_second.unsqueeze(1) * outputs[second];
  const at::Tensor gain = model.named_parameters()["norm.weight"];
  const at::Tensor hidden = x * (x.square().mean(1, true) + model.config().norm_eps).rsqrt() * gain;
  return -model.logits(hidden).log_softmax(1).gather(1, targets.unsqueeze(1)).squeeze(1);
}

TEST_F(Oracle, IsTheBestOfAllChoicesInTheLastLayer) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model(model_of("topk", 2), 1);
  model->to(at::kDouble);
  double own = 0, best = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    const BatchTensors tensors = to_tensors(batch(i), at::kCPU);
    RoutingResult last;
    at::Tensor stream;
    model->forward(
        tensors.input, {}, [&](std::int64_t, const RoutingResult& result) { last = result; },
        [&](std::int64_t, const at::Tensor& hidden) {
          stream = hidden.reshape({-1, 16});
        });
    const at::Tensor outputs = all_outputs(model->moe_layers()[2]->experts(), 4, last.hidden);
    at::Tensor without = stream.clone();
    for (std::int64_t a = 0; a < last.plan.assignments(); ++a) {
      const auto t = last.plan.token[a].item<std::int64_t>();
      without[t] -= last.plan.weight[a] * outputs[last.plan.expert[a].item<std::int64_t>()][t];
    }
    std::vector<at::Tensor> all;
    for (std::int64_t first = 0; first < 4; ++first)
      for (std::int64_t second = first + 1; second < 4; ++second)
        all.push_back(nats_with(*model, without, outputs, last.scores.logits, tensors.targets,
                                first, second));
    best += std::get<0>(at::stack(all).min(0)).sum().item<double>();
    own += model->losses(model->forward(tensors.input, {}).hidden, tensors.targets)
               .sum()
               .item<double>();
  }
  const OracleRouting oracle = oracle_routing(*model, *corpus_, options());
  EXPECT_EQ(oracle.k, 2);
  EXPECT_EQ(oracle.choices, 6);
  EXPECT_EQ(oracle.own.tokens, 128);
  EXPECT_NEAR(oracle.own.nats, own, 1e-9);
  const OracleLayer& last = oracle.layers.front();
  EXPECT_EQ(last.layer, 2);
  EXPECT_TRUE(last.exact);
  EXPECT_NEAR(last.total.nats, best, 1e-4);  // a gain below 1e-6 changes no choice
  EXPECT_LT(best, own - 1);
  EXPECT_GT(last.changed, 0.3);
  EXPECT_LT(last.changed, 1);
}

TEST_F(Oracle, IsNeverWorseThanTheModelsOwnChoice) {
  const std::vector<ModelConfig> configs = {model_of("topk", 1), model_of("topk", 2, true),
                                            model_of("vanilla", 2), model_of("hyperrouter", 3),
                                            model_of("noisy-topk", 2)};
  for (const ModelConfig& config : configs) {
    SCOPED_TRACE(config.router.method);
    const auto model = make_model(config, 1);
    const double before = evaluate(*model, *corpus_, options()).total.nats;
    double done = 0;
    const OracleRouting oracle = oracle_routing(*model, *corpus_, options(), [&](double so_far) {
      EXPECT_GT(so_far, done);
      done = so_far;
    });
    EXPECT_DOUBLE_EQ(done, 1);
    EXPECT_EQ(oracle.own.nats, before);
    double loss = oracle.own.nats;
    for (const OracleLayer& layer : oracle.layers) {
      EXPECT_LE(layer.total.nats, loss);
      EXPECT_EQ(layer.total.tokens, oracle.own.tokens);
      EXPECT_EQ(layer.exact, layer.layer == 2);
      loss = layer.total.nats;
    }
    EXPECT_LT(loss, oracle.own.nats);
    EXPECT_EQ(evaluate(*model, *corpus_, options()).total.nats, before);
  }
}

TEST_F(Oracle, FindsNothingAmongEqualExperts) {
  const torch::NoGradGuard no_grad;
  const auto model = make_model(model_of("topk", 2), 1);
  for (MoeLayer* const layer : model->moe_layers())
    for (at::Tensor& parameter : layer->experts().parameters())
      parameter.copy_(parameter.slice(0, 0, 1).expand_as(parameter).clone());
  const auto json = to_json(oracle_routing(*model, *corpus_, options()));
  EXPECT_NEAR(json["gap"].get<double>(), 0, 1e-5);
  EXPECT_EQ(json["layers"].size(), 3u);
  EXPECT_LT(json["layers"][0]["changed"].get<double>(), 0.05);
}

TEST_F(Oracle, RefusesWithTheReason) {
  EXPECT_EQ(why_no_oracle(model_of("topk", 2)), "");
  const auto reason_has = [](const ModelConfig& config, const char* words) {
    return why_no_oracle(config).find(words) != std::string::npos;
  };
  EXPECT_TRUE(reason_has(model_of("dense", 1), "dense"));
  EXPECT_TRUE(reason_has(model_of("remoe", 1), "'relu'"));
  EXPECT_TRUE(reason_has(model_of("switch", 1), "capacity"));
  EXPECT_TRUE(reason_has(model_of("loss-free", 1), "bias"));
  ModelConfig many = model_of("topk", 3);
  many.moe.experts = 16;
  EXPECT_TRUE(reason_has(many, "3 of 16 experts can be chosen in more than 512 ways"));
  many.router.k = 2;
  EXPECT_EQ(why_no_oracle(many), "");
  testing::expect_error([&] { check_oracle(model_of("remoe", 1)); }, {"options.oracle_routing"});
}

}  // namespace
}  // namespace penstock
