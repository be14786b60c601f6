// The estimate of a training step's memory with products in bf16, compared with the bytes that
// libtorch's allocator gave.
#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"
#include "tests/base/temp_directory.h"
#include "tests/ops/allocated_bytes.h"
#include "tests/train/small_run.h"

namespace penstock::training_memory_test {
namespace {

struct Case {
  const char* method;
  std::int64_t layers, experts, sequences;
  bool recompute;
};

struct Bytes {
  double peak, estimate;
};

Bytes bytes_of(const Case& c, ops::ProductPrecision precision, const Corpus& corpus) {
  ConfigNode node = testing::small_recipe_node(c.method, c.sequences, 128, "unused");
  node.set("model.d_model", 128);
  node.set("model.d_ffn", 256);
  node.set("model.layers", c.layers);
  if (c.experts > 0) node.set("model.moe.experts", c.experts);
  Recipe recipe = read_recipe(node);
  recipe.train.recompute_experts = c.recompute;
  recipe.train.precision = precision;
  recipe.run.emulate_bf16 = !ops::processor_has_bf16();
  Trainer trainer(recipe, corpus);
  const testing::AllocatedBytes allocated;
  trainer.advance();
  return {static_cast<double>(allocated.peak()),
          static_cast<double>(memory_of_training(trainer.recipe()).total())};
}

TEST(TrainingMemoryMeasured, Bf16TakesAsMuchMoreOrLessAsTheEstimateSays) {
  const testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  ops::set_threads(2);
  for (const Case& c : {Case{"dense", 6, 0, 8, false},  // narrower rows
                        Case{"topk", 2, 32, 2, false},  // packed experts
                        Case{"topk", 2, 32, 2, true}, Case{"remoe", 2, 32, 2, true}}) {
    SCOPED_TRACE(concat(c.method, ", recompute ", c.recompute));
    const Bytes fp32 = bytes_of(c, ops::ProductPrecision::fp32, corpus);
    const Bytes bf16 = bytes_of(c, ops::ProductPrecision::bf16, corpus);
    EXPECT_GT(std::abs(bf16.peak - fp32.peak), 0.06 * fp32.peak);
    EXPECT_NEAR(bf16.estimate - fp32.estimate, bf16.peak - fp32.peak, 0.04 * fp32.peak);
  }
  ops::emulate_bf16(false);
}

}  // namespace
}  // namespace penstock::training_memory_test
