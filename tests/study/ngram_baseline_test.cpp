// The n-gram model of a study is scored on the targets of its runs' final evaluation.
#include <cmath>
#include <numbers>

#include "penstock/io/toml.h"
#include "tests/eval/ngram_by_hand.h"
#include "tests/study/trained_study_fixture.h"

namespace penstock::study {
namespace {

using testing::write_text;

struct NgramBaseline : testing::TrainedStudy {
  /// Bits per byte of the hook for a recipe with these lines in [train].
  double bits(const std::string& train) const {
    write_text(path("recipe.toml"),
               "[model]\nvocab = 0\nd_model = 8\nlayers = 1\nheads = 1\nd_ffn = 8\n"
               "[model.router]\nmethod = \"dense\"\n[data]\ncorpus = \"" +
                   path("by-hand") +
                   "\"\n[train]\nsteps = 1\nbatch_sequences = 1\nsequence_length = 2\n" + train);
    const StudyHooks hooks = training_hooks(nullptr);
    return hooks.ngram_baseline(hooks.resolve(read_toml(path("recipe.toml"))), 3);
  }
};

TEST_F(NgramBaseline, IsScoredOnTheWindowsOfTheFinalEvaluation) {
  EXPECT_EQ(bits(""), 0);  // there is no corpus
  const Corpus corpus = penstock::testing::corpus_by_hand(path(""), {"aabababaa"});
  const penstock::testing::ThirdOrderByHand p(static_cast<double>(corpus.vocab_size()));
  const auto bits_of = [](double product, int bytes) {
    return -std::log(product) / std::numbers::ln2 / bytes;
  };
  // Two of the four windows: "aab" and "bab".
  EXPECT_NEAR(bits("final_eval_tokens = 4\n"),
              bits_of(p.a_after_a * p.b_after_aa * p.a_after_b * p.b_after_ba, 4), 1e-12);
  // All: "aab", "bab", "bab" and "baa". Without a memory, streams have the same contexts.
  const double all = bits_of(p.a_after_a * p.b_after_aa * std::pow(p.a_after_b * p.b_after_ba, 2) *
                                 p.a_after_b * p.a_after_ba,
                             8);
  EXPECT_NEAR(bits("final_eval_tokens = 0\n"), all, 1e-12);
  EXPECT_NEAR(bits("final_eval_tokens = 0\neval_streams = 1\n"), all, 1e-12);
}

}  // namespace
}  // namespace penstock::study
