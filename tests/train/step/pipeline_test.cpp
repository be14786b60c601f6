// Layers divided over ranks: the numbers are those of one process for every method.
#include <gtest/gtest.h>

#include <set>

#include "penstock/routers/methods.h"
#include "tests/train/step/pipeline_case.h"

namespace penstock::pipelines {
namespace {

void expect_as_one_process(const Case& is) {
  SCOPED_TRACE(::testing::Message()
               << is.method << ", " << is.layers << " layers, " << is.parts << " parts, "
               << is.layout.pipeline << " stages of " << is.chunks);
  const History expected = train(is, *is.model(), {.tree = is.layout.data > 1});
  const std::vector<History> found = train_on_ranks(is);
  std::set<std::string> names;
  for (const History& history : found) {
    expect_close(history, expected);
    EXPECT_EQ(history.numbers, found[0].numbers);
    for (const auto& [name, value] : history.state) names.insert(name);
  }
  for (const auto& [name, value] : expected.state) EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(Pipeline, TrainsEveryMethodAsOneProcess) {
  for (const std::string& method : method_registry().names())
    expect_as_one_process({.method = method, .layout = {.pipeline = 2}});
}

TEST_F(Pipeline, TrainsEveryMethodOnFourStages) {
  for (const std::string& method : method_registry().names())
    expect_as_one_process({.method = method, .layers = 4, .parts = 5, .layout = {.pipeline = 4}});
}

TEST_F(Pipeline, TakesAnyNumberOfPartsAndUnequalStages) {
  for (const std::size_t parts : {1, 2, 5})
    expect_as_one_process(
        {.method = "remoe", .layers = 5, .parts = parts, .layout = {.pipeline = 3}});
}

TEST_F(Pipeline, TiesTheEmbeddingsOfItsEnds) {
  for (const int stages : {2, 4})
    for (const std::string method : {"dense", "topk", "thor"})
      expect_as_one_process({.method = method,
                             .layers = 4,
                             .parts = 3,
                             .tied = true,
                             .layout = {.pipeline = stages}});
}

TEST_F(Pipeline, GoesWithDataRanks) {
  for (const bool tied : {false, true})
    for (const std::string method : {"remoe", "loss-free", "noisy-topk", "hash"})
      expect_as_one_process(
          {.method = method, .parts = 5, .tied = tied, .layout = {.data = 2, .pipeline = 2}});
}

TEST_F(Pipeline, GoesWithTensorRanks) {
  for (const std::string method : {"remoe", "topk"}) {
    const Case is{.method = method, .parts = 3, .layout = {.tensor = 2, .pipeline = 2}};
    const History expected = train(is, *is.model());
    for (History& found : train_on_ranks(is)) {
      found.gradients.clear();  // these are parts of the tensors, like the weights
      found.state.clear();
      expect_close(found, expected);
    }
  }
}

TEST_F(Pipeline, DealsChunksOfLayersInTurn) {
  for (const std::string method : {"remoe", "thor", "noisy-topk"}) {
    expect_as_one_process(
        {.method = method, .layers = 5, .tied = true, .layout = {.pipeline = 2}, .chunks = 2});
    expect_as_one_process({.method = method,
                           .layers = 4,
                           .parts = 4,
                           .layout = {.data = 2, .pipeline = 2},
                           .chunks = 2});
  }
}

TEST_F(Pipeline, HasTheSameBitsTwice) {
  const Case is{.method = "remoe", .parts = 5, .tied = true, .layout = {.data = 2, .pipeline = 2}};
  const auto first = train_on_ranks(is), second = train_on_ranks(is);
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    EXPECT_EQ(first[rank].numbers, second[rank].numbers);
    EXPECT_TRUE(same_bits(first[rank].gradients, second[rank].gradients));
    EXPECT_TRUE(same_bits(first[rank].state, second[rank].state));
  }
}

/// Sums over stages round the objective and the norm differently. Gradients and weights have the
/// same bits.
TEST_F(Pipeline, HasTheBitsOfOneProcessInGradientsAndWeights) {
  for (const std::string method : {"topk", "remoe", "noisy-topk"}) {
    const Case is{.method = method, .layers = 4, .layout = {.pipeline = 4}, .clip = 0};
    const History expected = train(is, *is.model());
    for (const History& found : train_on_ranks(is)) {
      EXPECT_TRUE(same_bits(found.gradients, expected.gradients)) << method;
      EXPECT_TRUE(same_bits(found.state, expected.state)) << method;
    }
  }
}

}  // namespace
}  // namespace penstock::pipelines
