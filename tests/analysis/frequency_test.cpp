// Active experts by frequency, surprisal and domain: the formulas against frequency.py's numbers
// and hand-worked ones, and a small model's figures against its own logits.
#include "penstock/analysis/frequency.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <fstream>
#include <map>

#include "penstock/analysis/measures.h"
#include "penstock/data/prepare/prepare.h"
#include "penstock/train/initial_model.h"
#include "tests/base/temp_directory.h"
#include "tests/data/prepared_corpus.h"
#include "tests/train/small_run.h"

namespace penstock::analysis {
namespace {

void expect_correlation(const ActiveCorrelation& c, const std::vector<double>& expected) {
  const std::optional<double> all[] = {
      c.frequency,         c.surprisal,    c.together, c.frequency_partial,
      c.surprisal_partial, c.per_doubling, c.per_nat};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(all[i]) << i;
    EXPECT_NEAR(*all[i], expected[i], 1e-11) << i;
  }
}

/// The report of the 40 tokens that frequency.py makes up.
FrequencyReport made_up() {
  FrequencyCounter counter({3, 8, 9, 100, 40}, 2);
  for (int n = 0; n < 40; ++n) {
    const int token = 7 * n % 5;
    const double surprisal = 2.6 + 2.5 * std::sin(0.7 * n);
    const double active[] = {n % 2 + (token < 2 ? 2.0 : 0.0), n % 3 + (surprisal >= 3 ? 1.0 : 0.0)};
    counter.add({.id = token, .surprisal = surprisal, .active = active});
  }
  const double nowhere[] = {99, 99};
  // A window's first token has no surprisal.
  counter.add({.id = 0, .surprisal = std::nan(""), .active = nowhere});
  return counter.report();
}

TEST(FrequencyCounter, GivesTheScriptsCorrelations) {
  const FrequencyReport report = made_up();
  EXPECT_EQ(report.places, 40);
  expect_correlation(report.layers[0],
                     {-0.666444631532, -0.014603370136, 0.047245475122, -0.666570041363,
                      0.022670370595, -0.407216474327, 0.010540909831});
  expect_correlation(report.layers[1],
                     {0.025812224356, 0.464316227739, 0.047245475122, 0.004380546094,
                      0.463768954608, 0.002097600239, 0.255855016742});
  expect_correlation(report.whole,
                     {-0.484236868512, 0.298149244720, 0.047245475122, -0.522650704215,
                      0.367324910678, -0.202559437044, 0.133197963286});
}

TEST(FrequencyCounter, GivesTheScriptsBins) {
  const FrequencyReport report = made_up();
  ASSERT_EQ(report.by_frequency.size(), 4u);
  const double expected[4][5] = {{2, 1, 8, 1.9375, 0.526634360824},
                                 {8, 2, 16, 1.46875, 0.799780243254},
                                 {32, 1, 8, 1.0625, 0.390312374900},
                                 {64, 1, 8, 0.9375, 0.582961190818}};
  for (std::size_t i = 0; i < 4; ++i) {
    const FrequencyBin& bin = report.by_frequency[i];
    EXPECT_EQ(bin.least, expected[i][0]);
    EXPECT_EQ(static_cast<double>(bin.tokens), expected[i][1]);
    EXPECT_EQ(bin.active.places, expected[i][2]);
    EXPECT_NEAR(bin.active.mean, expected[i][3], 1e-12);
    EXPECT_NEAR(bin.active.sd, expected[i][4], 1e-11);
  }
  const double places[] = {3, 0, 3, 4, 6, 0}, means[] = {2.0 / 3, 0, 11.0 / 6, 1.25, 11.0 / 6, 0};
  for (std::size_t s = 0; s < 6; ++s) {
    EXPECT_EQ(report.by_frequency[1].by_surprisal[s].places, places[s]);
    EXPECT_NEAR(report.by_frequency[1].by_surprisal[s].mean, means[s], 1e-12);
  }
  double all = 0;
  for (const SurprisalBin& bin : report.by_surprisal) all += bin.active.places;
  EXPECT_EQ(all, 40);
  EXPECT_EQ(report.by_surprisal[2].least, 1);
  EXPECT_EQ(report.by_surprisal[2].limit, 2);
  EXPECT_FALSE(report.by_surprisal.back().limit);
}

TEST(FrequencyCounter, SaysNothingOfWhatDoesNotVary) {
  FrequencyCounter counter({4, 9}, 1);
  const double one[] = {1};
  for (int n = 0; n < 9; ++n) counter.add({.id = n % 2, .surprisal = 1.0 * n, .active = one});
  const FrequencyReport report = counter.report();
  EXPECT_FALSE(report.whole.frequency || report.whole.surprisal || report.whole.frequency_partial ||
               report.whole.per_doubling);
  EXPECT_TRUE(report.whole.together);
  EXPECT_EQ(report.by_frequency[0].active.sd, 0);
}

TEST(Domains, DivergenceIsLn2WhereTwoDomainsShareNoExpert) {
  const auto domain = [](const char* name, std::vector<std::vector<double>> load) {
    DomainRouting out{.name = name, .tokens = 10, .load = std::move(load)};
    for (const auto& layer : out.load) out.active.push_back(layer[0] + layer[1]);
    return out;
  };
  // Layer 0: the domains share no expert. Layer 1: equal shares, although one domain has twice the
  // experts. Layer 2: shares (1, 0) and (1/2, 1/2) with mean (3/4, 1/4).
  const std::vector<DomainRouting> both{domain("a", {{1, 0}, {0.25, 0.75}, {1, 0}}),
                                        domain("b", {{0, 2}, {0.5, 1.5}, {0.5, 0.5}})};
  EXPECT_EQ(both[1].share(1), (std::vector<double>{0.25, 0.75}));
  const std::vector<double> divergence = domain_divergence(both);
  ASSERT_EQ(divergence.size(), 3u);
  EXPECT_NEAR(divergence[0], std::log(2.0), 1e-12);
  EXPECT_NEAR(divergence[1], 0, 1e-12);
  EXPECT_NEAR(divergence[2],
              (std::log(4.0 / 3) + 0.5 * std::log(2.0 / 3) + 0.5 * std::log(2.0)) / 2, 1e-12);
}

class RoutingOfText : public ::testing::Test {
 protected:
  /// A corpus with two domains: words and digits.
  static Corpus two_domains(const std::filesystem::path& directory) {
    PrepareOptions options;
    for (const char* name : {"words", "digits"}) {
      std::ofstream out(directory / (std::string(name) + ".txt"));
      for (int i = 0; i < 400; ++i)
        out << (name[0] == 'w' ? (i % 3 ? "weir " : "gate, ") : (i % 3 ? "12 " : "407\n"));
      options.inputs.push_back(
          {.path = (directory / (std::string(name) + ".txt")).string(), .domain = name});
    }
    options.out = (directory / "corpus").string();
    options.split = "contiguous:0.5,0.25,0.25";
    return testing::prepared_corpus(options);
  }

  testing::TempDirectory directory_;
  Corpus corpus_ = two_domains(directory_.path());
};

/// The report equals one computed token by token from the model's own logits.
TEST_F(RoutingOfText, IsThatOfTheModelsOwnLogits) {
  Recipe recipe = testing::small_recipe("remoe", 4, 16);
  recipe.model.vocab = corpus_.vocab_size();
  const auto model = initial_model(recipe);
  const ModelMeasures m =
      measure(*model, corpus_, {.reading = {.sequence_length = 16}, .by_token = true});
  // The same report from windows of 16 tokens with plain tensors.
  const torch::NoGradGuard no_grad;
  model->eval();
  const EvaluationWindows windows(corpus_, Split::kValidation, {.sequence_length = 16});
  FrequencyCounter counter(corpus_frequencies(corpus_), 2);
  std::map<std::int64_t, std::vector<double>> assigned;  // layer 1's assignments by token id
  for (std::int64_t w = 0; w < windows.batches(); ++w) {
    const Batch batch = windows.batch(w);
    const at::Tensor ids = torch::tensor(batch.inputs, at::kLong).view({1, -1});
    std::vector<at::Tensor> on;
    const ModelOutput output = model->forward(
        {.tokens = ids}, {},
        [&](std::int64_t, const RoutingResult& r) { on.push_back(r.scores.logits.gt(0)); });
    const at::Tensor log_p =
        model->logits(output.hidden).view({ids.size(1), -1}).to(at::kDouble).log_softmax(1);
    for (std::int64_t t = 0; t < ids.size(1); ++t) {
      const std::int64_t id = batch.inputs[static_cast<std::size_t>(t)];
      const double active[] = {on[0][t].sum().item<double>(), on[1][t].sum().item<double>()};
      counter.add({.id = id,
                   .surprisal = t > 0 ? -log_p[t - 1][id].item<double>() : std::nan(""),
                   .active = active});
      auto& row = assigned[id];
      row.resize(4);
      for (std::int64_t e = 0; e < 4; ++e)
        row[static_cast<std::size_t>(e)] += on[1][t][e].item<double>();
    }
  }
  ASSERT_TRUE(m.by_token && m.by_frequency);
  for (const auto& [id, row] : assigned)
    for (std::size_t e = 0; e < 4; ++e)
      EXPECT_EQ(m.by_token->by_expert(1, e, static_cast<std::size_t>(id)), row[e]) << id;
  const FrequencyReport expected = counter.report();
  EXPECT_EQ(m.by_frequency->places, expected.places);
  EXPECT_LT(m.by_frequency->places, m.tokens);
  ASSERT_EQ(m.by_frequency->by_frequency.size(), expected.by_frequency.size());
  for (std::size_t i = 0; i < expected.by_frequency.size(); ++i)
    EXPECT_NEAR(m.by_frequency->by_frequency[i].active.mean, expected.by_frequency[i].active.mean,
                1e-12);
  ASSERT_TRUE(expected.whole.surprisal);
  EXPECT_NEAR(*m.by_frequency->whole.surprisal, *expected.whole.surprisal, 1e-5);
  EXPECT_NEAR(*m.by_frequency->whole.per_nat, *expected.whole.per_nat, 1e-4);
}

TEST_F(RoutingOfText, DomainsAddUpToTheLoad) {
  Recipe recipe = testing::small_recipe("remoe", 4, 16);
  recipe.model.vocab = corpus_.vocab_size();
  const ModelMeasures m =
      measure(*initial_model(recipe), corpus_, {.reading = {.sequence_length = 16}});
  EXPECT_FALSE(m.by_token);
  ASSERT_EQ(m.domains.size(), 2u);
  EXPECT_EQ(m.domains[0].name, "digits");
  EXPECT_EQ(m.domains[0].tokens + m.domains[1].tokens, m.tokens);
  for (std::size_t l = 0; l < 2; ++l) {
    double active = 0;
    for (const DomainRouting& domain : m.domains)
      active += domain.active[l] * static_cast<double>(domain.tokens);
    EXPECT_NEAR(active / static_cast<double>(m.tokens), m.layers[l].load->active, 1e-12);
  }
}

TEST_F(RoutingOfText, FrequenciesAreOfTheWholeCorpus) {
  const std::vector<double> frequencies = corpus_frequencies(corpus_);
  double all = 0;
  for (const double one : frequencies) all += one;
  EXPECT_EQ(static_cast<std::int64_t>(all), corpus_.file().tokens());
  EXPECT_EQ(frequencies['w'], 266);  // "weir " occurs in 266 of 400 items
  EXPECT_EQ(frequencies['4'], 134);
}

}  // namespace
}  // namespace penstock::analysis
