// An evaluation's sums by domain, compared with hand-worked ones: a model gives the same
// probabilities after every text, and hash routing sends a token to the expert of its number.
#include "penstock/eval/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numbers>

#include "penstock/data/prepare/prepare.h"
#include "tests/base/temp_directory.h"
#include "tests/data/prepared_corpus.h"
#include "tests/eval/constant_model.h"

namespace penstock {
namespace {

/// Bytes, of which byte 0 ends a document. The test split has "aab" in the domain x and "cb" in the
/// domain y.
Corpus corpus_of_two_domains(const std::filesystem::path& directory) {
  PrepareOptions options;
  const auto add = [&](const std::string& text, const std::string& domain, Split split) {
    const auto file = directory / (std::to_string(options.inputs.size()) + ".txt");
    std::ofstream(file) << text;
    options.inputs.push_back({.path = file.string(), .domain = domain, .split = split});
  };
  add("aabaa", "x", Split::kTrain);
  add("aab", "x", Split::kTest);
  add("cb", "y", Split::kTest);
  options.out = (directory / "corpus").string();
  return testing::prepared_corpus(options);
}

/// After every text: p(a) = 1/2, p(b) = 1/4, and 1/8 each for c and for the end of a document.
std::shared_ptr<LanguageModel> model_of_letters(const std::string& method) {
  return testing::constant_model(method, 256,
                                 {{'a', std::log(4)}, {'b', std::log(2)}, {'c', 0}, {0, 0}});
}

class EvaluatedDomains : public ::testing::Test {
 protected:
  nlohmann::ordered_json measure(const std::string& method) const {
    return to_json(evaluate(*model_of_letters(method), corpus_,
                            {.split = Split::kTest, .sequence_length = 3, .batch_sequences = 2}));
  }
  testing::TempDirectory directory_;
  Corpus corpus_ = corpus_of_two_domains(directory_.path());
};

TEST_F(EvaluatedDomains, HaveTheLossesAndBytesOfTheirTargets) {
  // The inputs are "aab" and "|cb", the targets "ab|" and "cb|". An end of document has no bytes.
  // x: 1 + 2 + 3 bits. y: 3 + 2 + 3 bits.
  const auto expect = [](const nlohmann::ordered_json& totals, int tokens, int bytes, double bits) {
    SCOPED_TRACE(totals.dump());
    EXPECT_EQ(totals.at("tokens"), tokens);
    EXPECT_NEAR(totals.at("loss").get<double>(), bits * std::numbers::ln2 / tokens, 1e-5);
    EXPECT_NEAR(totals.at("perplexity").get<double>(), std::exp2(bits / tokens), 1e-4);
    EXPECT_NEAR(totals.at("bits_per_byte").get<double>(), bits / bytes, 1e-5);
  };
  for (const char* method : {"dense", "lory"}) {  // windows of three are no whole segments of lory
    SCOPED_TRACE(method);
    const auto found = measure(method);
    EXPECT_FALSE(found.contains("load"));
    expect(found, 6, 4, 14);
    ASSERT_EQ(found.at("by_domain").size(), 2u);
    expect(found.at("by_domain").at("x"), 3, 2, 6);
    expect(found.at("by_domain").at("y"), 3, 2, 8);
  }
}

TEST_F(EvaluatedDomains, HaveTheLoadsOfTheTokensBeforeTheirTargets) {
  // a, b, c and the end of a document have the numbers 97, 98, 99 and 0.
  const auto found = measure("hash");
  using Loads = std::vector<std::vector<double>>;
  EXPECT_EQ(found.at("load").get<Loads>(), (Loads{{1 / 6., 2 / 6., 2 / 6., 1 / 6.}}));
  EXPECT_EQ(found.at("load_by_domain").at("x").get<Loads>(), (Loads{{0, 2 / 3., 1 / 3., 0}}));
  EXPECT_EQ(found.at("load_by_domain").at("y").get<Loads>(), (Loads{{1 / 3., 0, 1 / 3., 1 / 3.}}));
  EXPECT_NEAR(found.at("active_by_layer").at(0).get<double>(), 1, 1e-12);
  EXPECT_NEAR(found.at("active_by_layer_domain").at("y").at(0).get<double>(), 1, 1e-12);
}

}  // namespace
}  // namespace penstock
