// What a pass of a rank keeps for its backward pass, counted as it is allocated, beside the
// estimate of `penstock info`.
#include <c10/core/Allocator.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "penstock/dist/transport.h"
#include "penstock/models/language_model.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

/// Bytes that this thread's tensors hold more than when it began.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  bool memoryProfilingEnabled() const override { return true; }
  // The numbers behind the size have one type in libtorch 1.13 and another one in 2.6.
  void reportMemoryUsage(void*, std::int64_t size, std::int64_t, std::int64_t, c10::Device) {
    bytes += size;
  }
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) {
    bytes += size;
  }
  std::int64_t bytes = 0;
};

constexpr std::int64_t kSequences = 4, kLength = 64;

/// Held between the two passes of one micro-batch.
std::int64_t kept_bytes(LanguageModel& model) {
  const at::Tensor tokens =
      at::arange(kSequences * kLength).remainder(model.config().vocab).view({kSequences, kLength});
  const auto live = std::make_shared<LiveBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, live);
  const ModelOutput out = model.forward({.tokens = tokens}, {.training = true});
  const at::Tensor loss = model.loss(out.hidden, tokens.flatten());
  const std::int64_t kept = live->bytes;
  loss.backward();
  return kept;
}

TEST(KeptActivations, ShrinkWithDividedRowsAsTheEstimateSays) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  for (const std::int64_t experts : {0, 4}) {
    ModelConfig config;
    config.vocab = 96;
    config.d_model = 64;
    config.layers = 6;
    config.heads = 4;
    config.d_ffn = 96;
    config.context = kLength;
    config.moe.experts = experts;
    config.router.method = experts > 0 ? "topk" : "dense";
    config = config.resolved();
    testing::on_ranks(2, [&](const dist::ProcessGroup& world) {
      double counted[2], estimated[2];
      for (const bool divided : {false, true}) {
        const dist::Mesh mesh = dist::make_mesh(world, {.tensor = 2, .sequence = divided});
        const auto model = make_model(config, 1, place_in(config, mesh));
        kept_bytes(*model);  // the first pass of a thread makes what operators keep for the next
        counted[divided] = static_cast<double>(kept_bytes(*model));
        estimated[divided] = activations(config, kSequences, kLength, false, 2, divided).layers;
      }
      // Residuals of the layers, and three rows at the ends: half of 2·6 + 3 rows of width d.
      const double rows = 4.0 * kSequences * kLength * static_cast<double>(config.d_model);
      EXPECT_NEAR(estimated[0] - estimated[1], 6 * rows, 1);
      EXPECT_NEAR(counted[0] - counted[1], 7.5 * rows, 0.6 * rows);
    });
  }
}

}  // namespace
}  // namespace penstock
