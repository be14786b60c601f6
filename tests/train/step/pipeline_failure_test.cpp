// One outcome for all ranks where a stage of a pipeline stops, fails or is not finite.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/train/ranks/agreement.h"
#include "tests/train/step/pipeline_case.h"

namespace penstock::pipelines {
namespace {

/// The outcome of one step on a pipeline with a mishap on one stage.
struct Ending {
  std::string thrown;  // what the step threw; "" for nothing
  StepOutcome outcome;
  bool changed = false;  // whether a weight changed
};

struct Mishap {
  int rank = 0;
  std::function<void()> thrown = {};  ///< called at a layer of the second part
  PassDirection direction = PassDirection::forward;
  std::string poisoned = {};  ///< the parameter that is set to NaN
};

std::string ending_of_step(const std::function<void()>& step) {
  try {
    step();
  } catch (const StepStopped& stop) {
    return concat("stopped by ", stop.signal());
  } catch (const ReportedByRankZero&) {
    return "reported";
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<Ending> endings_of(const Mishap& mishap, const dist::Layout& layout = {.pipeline = 3}) {
  const Case is{.method = "remoe", .layers = 3, .layout = layout};
  std::vector<Ending> out(static_cast<std::size_t>(layout.ranks()));
  on_ranks(layout.ranks(), [&](const dist::ProcessGroup& world) {
    const dist::Mesh mesh = dist::make_mesh(world, layout);
    const auto model = is.model(mesh);
    const torch::NoGradGuard no_grad;
    for (const auto& item : model->named_parameters())
      if (item.key() == mishap.poisoned) item.value().fill_(NAN);
    const at::Tensor before = model->parameters()[2].detach().clone();
    const torch::AutoGradMode with_gradient(true);
    StepEngine engine(*model, {.lr = 1e-2, .min_lr = 1e-3, .warmup_steps = 0, .clip = 0}, {},
                      sharing_on(mesh, *model));
    LanguageWork work = work_of(is, *model, 0, {0, is.parts});
    Ending& ending = out[static_cast<std::size_t>(world.rank())];
    ending.thrown = ending_of_step([&] {
      ending.outcome = engine.advance(
          work, {.total_steps = 1, .learning_rate = 1e-2}, [&](const StepPlace& place) {
            const bool here = place.part == 1 && place.direction == mishap.direction;
            if (world.rank() == mishap.rank && here && mishap.thrown) mishap.thrown();
          });
    });
    ending.changed = !torch::equal(before, model->parameters()[2]) || engine.step() != 0;
    world.barrier("still in step");
  });
  return out;
}

TEST_F(Pipeline, StopsOnAllStagesWhereOneIsStopped) {
  for (const PassDirection direction : {PassDirection::forward, PassDirection::backward})
    for (const int stage : {0, 1, 2})
      for (const Ending& ending : endings_of(
               {.rank = stage, .thrown = [] { throw StepStopped(15); }, .direction = direction})) {
        EXPECT_EQ(ending.thrown, "stopped by 15") << "stage " << stage;
        EXPECT_FALSE(ending.changed);
      }
}

TEST_F(Pipeline, FailsOnAllStagesWhereOneFails) {
  for (const PassDirection direction : {PassDirection::forward, PassDirection::backward})
    for (const int stage : {1, 2}) {
      const auto endings = endings_of(
          {.rank = stage, .thrown = [] { fail("the disk is gone"); }, .direction = direction});
      EXPECT_TRUE(endings[0].thrown.starts_with(concat("rank ", stage, " on ")))
          << endings[0].thrown;
      EXPECT_TRUE(endings[0].thrown.ends_with(": the disk is gone")) << endings[0].thrown;
      EXPECT_EQ(endings[1].thrown, "reported");
      EXPECT_EQ(endings[2].thrown, "reported");
      for (const Ending& ending : endings) EXPECT_FALSE(ending.changed);
    }
}

TEST_F(Pipeline, NamesTheLayerThatIsNotFiniteAsOneProcessDoes) {
  for (const std::string poisoned :
       {"embed_tokens", "layer_0.post_attention_layernorm.weight",
        "layer_1.self_attn.qkv_proj.weight", "layer_2.mlp.experts.down", "lm_head"}) {
    const auto alone = endings_of({.poisoned = poisoned}, {});
    ASSERT_TRUE(alone[0].outcome.failure.starts_with("the loss is ")) << poisoned;
    for (const dist::Layout& layout :
         {dist::Layout{.pipeline = 3}, dist::Layout{.tensor = 2, .pipeline = 2}})
      for (const Ending& ending : endings_of({.poisoned = poisoned}, layout)) {
        EXPECT_EQ(ending.outcome.failure, alone[0].outcome.failure) << poisoned;
        EXPECT_FALSE(ending.changed);
      }
  }
}

TEST_F(Pipeline, StopsPeersBetweenTwoPasses) {
  for (const PassDirection direction : {PassDirection::forward, PassDirection::backward})
    for (const dist::Layout& layout :
         {dist::Layout{.tensor = 2}, dist::Layout{.tensor = 2, .pipeline = 2}})
      for (const Ending& ending :
           endings_of({.rank = 1, .thrown = [] { throw StepStopped(2); }, .direction = direction},
                      layout)) {
        EXPECT_EQ(ending.thrown, "stopped by 2");
        EXPECT_FALSE(ending.changed);
      }
}

/// Work whose parts fail before their first layer.
class FailingWork : public LanguageWork {
 public:
  using LanguageWork::LanguageWork;
  PartOutcome forward(const PartInput&, StepReport&) override { fail("out of room"); }
};

TEST_F(Pipeline, LosesARankThatFailsInAPassWithPeers) {
  const Case is{.method = "topk", .parts = 1, .layout = {.tensor = 2}};
  const auto failures = testing::failures_on_ranks(
      2,
      [&](const dist::ProcessGroup& world) {
        const dist::Mesh mesh = dist::make_mesh(world, is.layout);
        const auto model = is.model(mesh);
        const std::vector<std::int32_t> bytes(kVocab, 1);
        LanguageWork sound(*model, {testing::drawn_batch(0, 0, 8, kVocab)}, bytes);
        FailingWork failing(*model, {testing::drawn_batch(0, 0, 8, kVocab)}, bytes);
        StepWork& work = world.rank() == 1 ? static_cast<StepWork&>(failing) : sound;
        std::vector<ModelMemory> memory;
        accumulate(work, {.training = true}, 3, memory, {},
                   {.world = world, .peers = {mesh.tensor}});
      },
      {.timeout = std::chrono::seconds(60)});
  EXPECT_THROW(std::rethrow_exception(failures[0]), dist::LostRank);
  EXPECT_THROW(std::rethrow_exception(failures[1]), dist::FailedRank);
  const std::string said = ending_of_step([&] { std::rethrow_exception(failures[1]); });
  EXPECT_EQ(said, "rank 1 on " + dist::host_name() +
                      " failed in the middle of work with other ranks: out of room");
}

}  // namespace
}  // namespace penstock::pipelines
