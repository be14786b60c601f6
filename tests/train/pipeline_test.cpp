// Layers divided over ranks: the numbers of one process for every method, and one outcome for all
// where a stage stops, fails or is not finite.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <map>
#include <set>

#include "penstock/base/random.h"
#include "penstock/train/agreement.h"
#include "penstock/train/language_work.h"
#include "penstock/train/model_exchange.h"
#include "penstock/train/step.h"
#include "tests/dist/ranks.h"
#include "tests/train/small_run.h"

namespace penstock::pipelines {
namespace {

using testing::on_ranks;

constexpr std::int64_t kVocab = 64;

/// Two rows of eight tokens.
Batch batch_of(std::int64_t step, std::size_t part) {
  Batch out{.sequences = 2, .length = 8};
  for (std::uint64_t i = 0; i < 16; ++i) {
    const auto draw = [&](std::uint64_t stream) {
      const std::uint64_t place = static_cast<std::uint64_t>(step) * 100 + part;
      return static_cast<std::int64_t>(random_below(random_bits(place, stream, i), kVocab));
    };
    out.inputs.push_back(draw(0));
    out.targets.push_back(draw(1));
    out.domains.push_back(0);
  }
  return out;
}

struct Case {
  std::string method;
  std::int64_t layers = 2;
  std::size_t parts = 4;
  bool tied = false;
  dist::Layout layout = {};
  int chunks = 1;
  double clip = 1;

  ModelConfig config() const {
    ModelConfig out = testing::small_recipe(method, 8, 8).model;
    out.vocab = kVocab;
    out.init_std = 0.2;
    out.layers = layers;
    out.tie_embeddings = tied;
    if (method == "lory")
      out.router.parts["lory"].set("segment_length", ConfigNode(std::int64_t{4}));
    return out.resolved();
  }
  /// In f64: this rank's part; the whole without a mesh.
  std::shared_ptr<LanguageModel> model(const dist::Mesh& mesh = {}) const {
    const ModelConfig all = config();
    const auto out = make_model(all, 1, place_in(all, mesh, chunks));
    out->to(torch::kDouble);
    out->train();
    return out;
  }
};

using Tensors = std::map<std::string, at::Tensor>;

/// What steps came to.
struct Course {
  std::vector<double> numbers;
  Tensors gradients;  // of the first step
  Tensors state;      // weights and what balancers keep
};

LanguageWork work_of(const Case& is, LanguageModel& model, std::int64_t step, PartRange mine) {
  static const std::vector<std::int32_t> bytes(kVocab, 1);
  std::vector<Batch> batches(is.parts);
  for (std::size_t p = mine.first; p < mine.last; ++p) batches[p] = batch_of(step, p);
  return {model, std::move(batches), bytes};
}

void add_numbers(const StepReport& report, std::vector<double>& out) {
  for (const double value :
       {report.loss, report.total_loss, report.consistency.value_or(0), report.flops,
        report.sparsity, report.active_experts, static_cast<double>(report.tokens)})
    out.push_back(value);
  for (const auto& layer : report.load) out.insert(out.end(), layer.begin(), layer.end());
  out.insert(out.end(), report.sparsity_by_layer.begin(), report.sparsity_by_layer.end());
  for (const auto* named : {&report.auxiliary_losses, &report.statistics})
    for (const auto& [name, value] : *named) out.push_back(value);
  for (const auto& layer : report.routing.expert_tokens)
    for (const std::int64_t count : layer) out.push_back(static_cast<double>(count));
}

Course train(const Case& is, LanguageModel& model, const GradientSharing& sharing = {}) {
  const PartRange mine = parts_of_rank(is.parts, sharing.data.rank(), sharing.data.size());
  Course out;
  std::vector<ModelMemory> memory;
  LanguageWork first = work_of(is, model, 0, mine);
  accumulate(first, {.total_steps = 5, .training = true}, 3, memory, {},
             {.data = sharing.data,
              .stages = sharing.stages,
              .world = sharing.world,
              .peers = sharing.peers,
              .counts = sharing.counts});
  for (const auto& item : model.named_parameters())  // with data ranks those of its parts alone
    if (item.value().grad().defined() && sharing.data.size() == 1)
      out.gradients[item.key()] = item.value().grad().clone();
  StepEngine engine(model, {.lr = 1e-2, .min_lr = 1e-3, .warmup_steps = 0, .clip = is.clip}, {},
                    sharing);
  for (std::int64_t step = 0; step < 5; ++step) {
    LanguageWork work = work_of(is, model, step, mine);
    const StepOutcome done =
        engine.advance(work, {.total_steps = 5, .draw_seed = 3, .learning_rate = 1e-2});
    EXPECT_EQ(done.failure, "");
    add_numbers(done.report, out.numbers);
    out.numbers.push_back(done.gradient_norm);
  }
  for (const auto& item : model.named_parameters())
    out.state[item.key()] = item.value().detach().clone();
  for (const auto& item : model.named_buffers()) out.state[item.key()] = item.value().clone();
  return out;
}

/// The largest difference of two tensors, of the largest element.
double relative(const at::Tensor& found, const at::Tensor& expected) {
  const double size = expected.abs().max().item<double>();
  return (found - expected).abs().max().item<double>() / std::max(size, 1e-12);
}

void expect_close(const Tensors& found, const Tensors& expected) {
  for (const auto& [name, value] : found) {
    ASSERT_TRUE(expected.contains(name)) << name;
    if (value.is_floating_point()) EXPECT_LT(relative(value, expected.at(name)), 1e-9) << name;
  }
}

void expect_close(const Course& found, const Course& expected) {
  ASSERT_EQ(found.numbers.size(), expected.numbers.size());
  for (std::size_t i = 0; i < found.numbers.size(); ++i)
    EXPECT_NEAR(found.numbers[i], expected.numbers[i],
                1e-9 * std::max(1.0, std::fabs(expected.numbers[i])))
        << "number " << i;
  expect_close(found.gradients, expected.gradients);
  expect_close(found.state, expected.state);
}

bool same_bits(const Tensors& found, const Tensors& expected) {
  return std::ranges::all_of(
      found, [&](const auto& item) { return torch::equal(item.second, expected.at(item.first)); });
}

GradientSharing sharing_on(const dist::Mesh& mesh, const LanguageModel& model) {
  const auto counted = ModelExchange(model, mesh).first_held_beside_data();
  return {.tree = mesh.data.size() > 1,
          .data = mesh.data,
          .replicas = mesh.replicas,
          .stages = mesh.pipeline,
          .peers = {mesh.tensor, mesh.expert},
          .world = mesh.world,
          .counted = [counted](const std::string& name) { return counted.contains(name); },
          .counts = dist::coordinates_of(mesh.layout, mesh.world.rank()).tensor == 0};
}

Course train_on(const Case& is, const dist::Mesh& mesh) {
  const auto model = is.model(mesh);
  return train(is, *model, sharing_on(mesh, *model));
}

/// By rank.
std::vector<Course> train_on_ranks(const Case& is) {
  std::vector<Course> out(static_cast<std::size_t>(is.layout.ranks()));
  on_ranks(is.layout.ranks(), [&](const dist::ProcessGroup& world) {
    const dist::Mesh mesh = dist::make_mesh(world, is.layout);
    out[static_cast<std::size_t>(world.rank())] = train_on(is, mesh);
  });
  return out;
}

void expect_as_one_process(const Case& is) {
  SCOPED_TRACE(::testing::Message()
               << is.method << ", " << is.layers << " layers, " << is.parts << " parts, "
               << is.layout.pipeline << " stages of " << is.chunks);
  const Course expected = train(is, *is.model(), {.tree = is.layout.data > 1});
  const std::vector<Course> found = train_on_ranks(is);
  std::set<std::string> names;
  for (const Course& course : found) {
    expect_close(course, expected);
    EXPECT_EQ(course.numbers, found[0].numbers);
    for (const auto& [name, value] : course.state) names.insert(name);
  }
  for (const auto& [name, value] : expected.state) EXPECT_TRUE(names.contains(name)) << name;
}

class Pipeline : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  }
};

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
    const Course expected = train(is, *is.model());
    for (Course& found : train_on_ranks(is)) {
      found.gradients.clear();  // of parts of the tensors, as the weights
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

/// Sums of the objective and of the norm over stages round otherwise; gradients and weights have
/// the same bits.
TEST_F(Pipeline, HasTheBitsOfOneProcessInGradientsAndWeights) {
  for (const std::string method : {"topk", "remoe", "noisy-topk"}) {
    const Case is{.method = method, .layers = 4, .layout = {.pipeline = 4}, .clip = 0};
    const Course expected = train(is, *is.model());
    for (const Course& found : train_on_ranks(is)) {
      EXPECT_TRUE(same_bits(found.gradients, expected.gradients)) << method;
      EXPECT_TRUE(same_bits(found.state, expected.state)) << method;
    }
  }
}

/// One step on a pipeline where something happens on a stage.
struct Ending {
  std::string thrown;  // by the step: "" for none
  StepOutcome outcome;
  bool changed = false;  // a weight
};

struct Mishap {
  int rank = 0;
  std::function<void()> thrown = {};  ///< called at a layer of the second part
  PassDirection direction = PassDirection::forward;
  std::string poisoned = {};  ///< a parameter that is not a number
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

}  // namespace
}  // namespace penstock::pipelines
