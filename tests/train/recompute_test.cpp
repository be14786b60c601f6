// train.recompute_experts changes memory and nothing else: weights after some steps are the same
// bits for every method that routes tokens to experts, stochastic parts and balancers included.
#include <gtest/gtest.h>

#include "penstock/ops/dispatch.h"
#include "penstock/routers/router.h"
#include "penstock/train/trainer.h"
#include "tests/base/temp_directory.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

TEST(Recompute, EveryMethodTrainsToTheSameBits) {
  ops::set_threads(2);
  testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  int routed = 0;
  for (const std::string& method : method_registry().names()) {
    if (method == "dense" || method == "lory") continue;  // no plan of assignments
    ++routed;
    Recipe kept = testing::small_recipe(method, 8, 32), again = kept;
    again.train.recompute_experts = true;
    Trainer a(kept, corpus), b(again, corpus);
    for (int i = 0; i < 4; ++i) {
      const StepOutcome first = a.advance(), second = b.advance();
      EXPECT_EQ(first.report.total_loss, second.report.total_loss) << method;
    }
    const auto expected = a.model_tensors();
    for (const auto& [name, tensor] : b.model_tensors())
      EXPECT_TRUE(tensor.equal(expected.at(name))) << method << " " << name;
  }
  EXPECT_GE(routed, 4);
}

}  // namespace
}  // namespace penstock
