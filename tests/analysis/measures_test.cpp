// Measures of whole models: their consistency for decoders and Transformer-XL, and refusals.
#include "penstock/analysis/measures.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "penstock/analysis/analysis.h"
#include "penstock/analysis/refusals.h"
#include "penstock/base/error.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/trainer.h"
#include "tests/base/temp_directory.h"
#include "tests/data/prepared_corpus.h"
#include "tests/train/small_run.h"

namespace penstock::analysis {
namespace {

class Measures : public ::testing::Test {
 protected:
  Recipe recipe(const std::string& method, bool transformer_xl = false) const {
    Recipe out = testing::small_recipe(method, 4, 16);
    out.model.vocab = corpus_.vocab_size();
    if (!transformer_xl) return out;
    out.model.architecture = ModelKind::transformer_xl;
    out.model = out.model.resolved();
    return out;
  }

  /// A corpus so short that the probe can hold a whole split.
  static Corpus short_corpus(const std::filesystem::path& directory) {
    std::ofstream out(directory / "text.txt");
    for (int i = 0; i < 120; ++i) out << (i % 3 ? "weir " : i % 7 ? "gate, " : "head race.\n");
    out.close();
    return testing::prepared_corpus({.inputs = {{.path = (directory / "text.txt").string()}},
                                     .split = "contiguous:0.5,0.25,0.25",
                                     .out = (directory / "corpus").string()});
  }

  testing::TempDirectory directory_;
  Corpus corpus_ = short_corpus(directory_.path());
};

TEST_F(Measures, AreThoseOfEachTokenByItself) {
  for (const char* method : {"topk", "remoe"}) {
    const auto model = initial_model(recipe(method));
    // With windows of one token the probe holds every token that the pass reads.
    const ModelMeasures m =
        measure(*model, corpus_, {.reading = {.sequence_length = 1}, .probe_tokens = 1024});
    ASSERT_EQ(m.layers.size(), 2u);
    ASSERT_EQ(std::ssize(m.probe.tokens), m.tokens);
    for (std::size_t l = 0; l < 2; ++l) {
      const at::Tensor h = router_entropies(m.probe.layers[l].logits);
      EXPECT_EQ(m.layers[l].entropy->count(), m.tokens);
      EXPECT_NEAR(m.layers[l].entropy->mean(), h.mean().item<double>(), 1e-6);
      EXPECT_NEAR(m.layers[l].entropy->sd(), h.std(0, false).item<double>(), 1e-6);
      EXPECT_LE(m.layers[l].entropy->mean(), std::log(4.0));
      const at::Tensor on = m.probe.layers[l].gates.gt(0).sum(0);  // [E]
      const double all = on.sum().item<double>();
      for (std::int64_t e = 0; e < 4; ++e)
        EXPECT_NEAR(m.layers[l].load->share[static_cast<std::size_t>(e)],
                    on[e].item<double>() / all, 1e-12);
      EXPECT_NEAR(m.layers[l].load->active, all / static_cast<double>(m.tokens), 1e-12);
    }
  }
}

TEST_F(Measures, ReadAsTheEvaluationDoes) {
  const auto model = initial_model(recipe("smoe", true));
  const auto reading = [](std::int64_t streams, std::int64_t memory) {
    return EvaluateOptions{.split = Split::kTest,
                           .sequence_length = 8,
                           .batch_sequences = 4,
                           .max_tokens = 200,
                           .streams = streams,
                           .memory_length = memory};
  };
  for (const EvaluateOptions& one : {reading(10, 0), reading(2, 24)}) {
    const double loss = evaluate(*model, corpus_, one).total.loss();
    EXPECT_EQ(measure(*model, corpus_, {.reading = one, .probe_tokens = 8}).loss, loss);
  }
}

TEST_F(Measures, EqualExpertsAreWhollyAlike) {
  const auto model = initial_model(recipe("topk"));
  {
    torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : model->moe_layers()[0]->experts().parameters())
      parameter.copy_(parameter.slice(0, 0, 1).expand_as(parameter));
  }
  const ModelMeasures m =
      measure(*model, corpus_, {.reading = {.sequence_length = 16}, .probe_tokens = 32});
  EXPECT_NEAR(m.layers[0].similarity.output_cosine, 1, 1e-9);
  EXPECT_NEAR(m.layers[0].similarity.output_cka, 1, 1e-9);
  EXPECT_NEAR(m.layers[0].similarity.weight_cosine, 1, 1e-9);
  EXPECT_LT(std::abs(m.layers[1].similarity.output_cosine), 0.5);
  EXPECT_LT(std::abs(m.layers[1].similarity.weight_cosine), 0.1);
}

TEST_F(Measures, AnalysisOfATransformerXlHoldsItsBounds) {
  const Recipe settings = recipe("hyperrouter", true);
  Analysis a{.config = settings.model, .refused = refusals(settings.model)};
  EXPECT_EQ(a.refused.entropy + a.refused.load + a.refused.samples + a.refused.jacobian, "");
  const auto model = initial_model(settings);
  const MeasureOptions options{
      .reading = {.split = Split::kTest, .sequence_length = 16, .max_tokens = 400, .streams = 10},
      .probe_tokens = 40};
  a.snapshots.push_back({0, measure(*model, corpus_, options)});
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : model->named_parameters())
      if (parameter.key().ends_with("scorer.embedding"))
        parameter.value().add_(at::randn_like(parameter.value()), 0.1);
  }
  a.snapshots.push_back({1, measure(*model, corpus_, options)});
  a.chosen = 1;
  a.samples = sample_tokens(a.here().measures.probe, 3);
  a.jacobians = jacobians(*model, a.here().measures.probe, 3);
  a.growth = growth(a, 3);
  const auto json = to_json(a);
  EXPECT_EQ(json["samples"].size(), 3u);
  for (const auto& row : json["samples"][0]["probabilities"])
    EXPECT_NEAR(
        std::accumulate(row.begin(), row.end(), 0.0,
                        [](double sum, const auto& p) { return sum + p.template get<double>(); }),
        1, 1e-12);
  EXPECT_EQ(json["jacobian"].size(), 2 * 3u);  // k = 1, 2, 4
  for (const auto& one : json["jacobian"]) {
    EXPECT_TRUE(one["bounds_hold"]) << one;
    EXPECT_EQ(one["bound"][1], one["k"].get<int>() - 1);
    EXPECT_LT(one["sum_error"], 1e-12);
    if (one["k"] != 1) {
      EXPECT_LT(one["closed_form_error"], 1e-12);
    }
  }
  // Moving the embedding doubles the span of a token's gates.
  EXPECT_EQ(json["span"][0]["router"][0]["rank"], 4);
  EXPECT_EQ(json["span"][0]["router"][1]["rank"], 8);
  EXPECT_NEAR(json["span"][0]["tokens"][1]["after"][1]["rank"].get<double>(), 2, 1e-9);
}

TEST_F(Measures, RefuseWithTheReason) {
  EXPECT_THROW(refusals(recipe("dense").model), Error);
  const Refusals hash = refusals(recipe("hash").model);
  EXPECT_NE(hash.entropy.find("'none'"), std::string::npos);
  EXPECT_EQ(hash.load, "");
  const Refusals lory = refusals(recipe("lory").model);
  EXPECT_NE(lory.load.find("'lory'"), std::string::npos);
  EXPECT_NE(lory.samples, "");
  EXPECT_EQ(lory.entropy, "");
  const auto model = initial_model(recipe("hash"));
  const ModelMeasures m =
      measure(*model, corpus_, {.reading = {.sequence_length = 16}, .probe_tokens = 8});
  EXPECT_FALSE(m.layers[0].entropy);
  EXPECT_EQ(m.layers[0].load->active, 1);
  Recipe segmented = recipe("lory");
  segmented.model.router.parts["lory"].set("segment_length", 16);
  const auto pooled = initial_model(segmented);
  const Probe segments = probe(*pooled, corpus_, {.tokens = 8, .sequence_length = 16});
  EXPECT_FALSE(segments.layers[0].gates.defined());
  EXPECT_TRUE(sample_tokens(segments, 2).empty());
}

/// The window is longer than the split, so that it ends with segments of padding alone.
TEST_F(Measures, EntropyIsOfSegmentsThatHoldTokens) {
  constexpr std::int64_t kSegment = 4;
  Recipe segmented = recipe("lory");
  segmented.model.router.parts["lory"].set("segment_length", kSegment);
  const auto model = initial_model(segmented);
  const std::int64_t tokens = corpus_.file().range(Split::kTest).tokens - 1;
  const ModelMeasures m = measure(
      *model, corpus_,
      {.reading = {.split = Split::kTest, .sequence_length = (tokens / kSegment + 3) * kSegment},
       .probe_tokens = tokens});
  ASSERT_EQ(m.tokens, tokens);
  const at::Tensor hidden = m.probe.layers[0].hidden;
  ASSERT_EQ(hidden.size(0), tokens);
  torch::NoGradGuard no_grad;
  std::vector<at::Tensor> means;
  for (std::int64_t begin = 0; begin < tokens; begin += kSegment)
    means.push_back(hidden.slice(0, begin, std::min(begin + kSegment, tokens)).mean(0));
  const at::Tensor weight = model->moe_layers()[0]->router().scorer().fold().weight;
  const at::Tensor h = router_entropies(at::stack(means).matmul(weight.t()));
  EXPECT_EQ(m.layers[0].entropy->count(), std::ssize(means));
  EXPECT_NEAR(m.layers[0].entropy->mean(), h.mean().item<double>(), 1e-6);
  EXPECT_NEAR(m.layers[0].entropy->sd(), h.std(0, false).item<double>(), 1e-6);
}

TEST_F(Measures, InitialModelIsTheTrainers) {
  const Recipe settings = recipe("hyperrouter");
  Trainer trainer(settings, corpus_);
  const auto model = initial_model(settings);
  const auto expected = trainer.model().named_parameters();
  for (const auto& parameter : model->named_parameters())
    EXPECT_TRUE(parameter.value().equal(expected[parameter.key()])) << parameter.key();
  EXPECT_GT(expected.size(), 10u);
}

}  // namespace
}  // namespace penstock::analysis
