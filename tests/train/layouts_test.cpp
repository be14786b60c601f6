// Training steps under every layout, in f64 and for every registered method: the numbers are those
// of one process. A layout that runs once through shared memory and once through sockets has the
// same bits.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <variant>

#include "penstock/dist/transport.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/routers/methods.h"
#include "penstock/train/ranks/model_exchange.h"
#include "penstock/train/ranks/shared_optimizer.h"
#include "penstock/train/step/language_work.h"
#include "penstock/train/step/step.h"
#include "tests/base/test_names.h"
#include "tests/dist/ranks.h"
#include "tests/train/drawn_batch.h"
#include "tests/train/report_numbers.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock::layouts_test {
namespace {

constexpr std::int64_t kSteps = 5, kVocab = 64;
constexpr double kTolerance = 1e-9, kBeta1 = 0.9;
/// A number counts as at least this large where differences are compared. Rounding leaves about
/// 1e-12 of a number that is zero in one process.
constexpr double kSmallest = 0.1;

struct Case {
  std::string name;
  dist::Layout layout;
  int zero = 0;
  std::size_t parts = 4;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"dp2", {.data = 2}},
      {"dp4", {.data = 4}},
      {"dp2zero1", {.data = 2}, 1},
      {"dp2zero2", {.data = 2}, 2},
      {"dp2zero3", {.data = 2}, 3},
      {"tp2", {.tensor = 2}},
      {"pp2", {.pipeline = 2}},
      {"ep2", {.data = 2, .expert = 2}},
      {"ep4", {.data = 4, .expert = 4}},
      {"dp2ep2", {.data = 4, .expert = 2}},
      {"dp2ep2zero3", {.data = 4, .expert = 2}, 3},
      {"tp2ep2", {.data = 2, .tensor = 2, .expert = 2}},
      {"pp2ep2", {.data = 2, .pipeline = 2, .expert = 2}},
      {"pp2dp2zero1", {.data = 2, .pipeline = 2}, 1},
      {"dp2tp2zero3", {.data = 2, .tensor = 2}, 3},
      {"dp2tp2pp2ep2", {.data = 2, .tensor = 2, .pipeline = 2, .expert = 2}},
      {"tp2seq", {.tensor = 2, .sequence = true}},
      {"tp2pp2seq", {.tensor = 2, .pipeline = 2, .sequence = true}},
      {"dp2tp2seqzero1", {.data = 2, .tensor = 2, .sequence = true}, 1},
      {"dp2tp2seqzero2", {.data = 2, .tensor = 2, .sequence = true}, 2},
      {"dp2tp2seqzero3", {.data = 2, .tensor = 2, .sequence = true}, 3},
      {"dp2tp2pp2ep2seq",
       {.data = 2, .tensor = 2, .pipeline = 2, .expert = 2, .sequence = true},
       1},
      {"tp2whole", {.tensor = 2, .whole_experts = true}},
      {"tp2ep2whole", {.tensor = 2, .expert = 2, .whole_experts = true}},
      {"tp2whole, zero3", {.tensor = 2, .whole_experts = true}, 3},
      {"dp2tp2ep2whole", {.data = 2, .tensor = 2, .expert = 2, .whole_experts = true}},
      {"dp2tp2ep2whole, zero2", {.data = 2, .tensor = 2, .expert = 2, .whole_experts = true}, 2},
      {"dp2tp2ep2whole, zero3", {.data = 2, .tensor = 2, .expert = 2, .whole_experts = true}, 3},
      {"dp2tp2ep4whole, zero1", {.data = 2, .tensor = 2, .expert = 4, .whole_experts = true}, 1},
      {"dp2tp2ep2whole, sequence, zero1",
       {.data = 2, .tensor = 2, .expert = 2, .sequence = true, .whole_experts = true},
       1},
      {"dp4tp2ep4whole, zero1", {.data = 4, .tensor = 2, .expert = 4, .whole_experts = true}, 1},
      {"dp2tp2pp2ep4whole",
       {.data = 2, .tensor = 2, .pipeline = 2, .expert = 4, .whole_experts = true}},
      {"dp2, 3 parts", {.data = 2}, 0, 3},
      {"pp2, 5 parts", {.pipeline = 2}, 0, 5},
      {"ep2, 6 parts", {.data = 2, .expert = 2}, 0, 6},
  };
  return all;
}

ModelConfig config_of(const std::string& method) {
  Recipe recipe = testing::small_recipe(method, 8, 16);
  recipe.model.vocab = kVocab;
  recipe.model.layers = 4;
  recipe.model.kv_heads = 2;
  recipe.model.init_std = 0.2;
  recipe.model.qk_norm_per_head = true;
  recipe.model.tie_embeddings = method.size() % 2 == 0;  // tied for about half of the methods
  if (method != "dense") {
    recipe.model.moe.shared_width = 16;
    recipe.model.moe.shared_gate = true;
  }
  if (method == "lory") recipe.model.router.parts["lory"].set("segment_length", 8);
  // With the default of 1e-8 the loss and its gradients would be smaller than the tolerance.
  if (method == "remoe") recipe.model.router.parts["adaptive-l1"].set("initial", 0.3);
  return recipe.model.resolved();
}

/// The results of training steps: numbers in a fixed order, and whole tensors by name.
struct History {
  std::vector<double> numbers;
  TensorMap weights, first_moments, second_moments;  // on rank 0
  TensorMap gradients;                               // on rank 0: "STEP.NAME", after clipping
};

constexpr TensorMap History::*kTensors[] = {&History::weights, &History::first_moments,
                                            &History::second_moments, &History::gradients};

/// Adds the gradients of the last step, g = (m − β₁ m₀) / (1 − β₁). Ranks that divide gradients
/// keep no whole gradient, but the moments can be gathered.
/// @param before  the first moments m₀ before the step; empty before the first step
void append_gradients(TensorMap& out, std::int64_t step, const TensorMap& moments,
                      const TensorMap& before) {
  for (const auto& [name, moment] : moments) {
    const at::Tensor earlier = before.empty() ? torch::zeros_like(moment) : before.at(name);
    out[concat(step, ".", name)] = (moment - kBeta1 * earlier) / (1 - kBeta1);
  }
}

History train(const ModelConfig& config, const dist::Mesh& mesh, const Case& how) {
  const auto model = make_model(config, 1, place_in(config, mesh));
  model->to(torch::kDouble);
  model->train();
  const ModelExchange exchange(*model, mesh);
  GradientSharing sharing = exchange.sharing();
  sharing.zero = how.zero;
  const OptimizerConfig optimizer{
      .lr = 1e-2, .min_lr = 1e-3, .warmup_steps = 0, .beta1 = kBeta1, .clip = 0.5};
  StepEngine engine(*model, optimizer, {}, sharing);
  const std::vector<std::int32_t> bytes(kVocab, 1);
  const PartRange mine = parts_of_rank(how.parts, mesh.data.rank(), mesh.data.size());
  History out;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<Batch> batches(how.parts);
    for (std::size_t p = mine.first; p < mine.last; ++p)
      batches[p] = testing::drawn_batch(step, p, 16, kVocab);
    LanguageWork work(*model, std::move(batches), bytes);
    const StepOutcome done =
        engine.advance(work, {.total_steps = kSteps, .draw_seed = 3, .learning_rate = 1e-2});
    EXPECT_EQ(done.failure, "");
    out.numbers.push_back(done.gradient_norm);
    testing::append_numbers(out.numbers, done.report);
    for (const auto& balancer : model->balancers())
      for (const auto& [name, value] : balancer->state()) out.numbers.push_back(value);
    TensorMap moments = exchange.gather(engine.tensors(), "m.");
    append_gradients(out.gradients, step, moments, out.first_moments);
    out.first_moments = testing::copies(moments);
  }
  engine.optimizer().gather_weights();
  out.weights = testing::copies(exchange.gather(held_tensors(*model)));
  out.second_moments = testing::copies(exchange.gather(engine.tensors(), "v."));
  return out;
}

/// The history of rank 0. Where another rank fails, all ranks fail.
/// @param shared_memory  false: all messages go through sockets, as between machines
History train_on_ranks(const ModelConfig& config, const Case& how, bool shared_memory = true) {
  History out;
  const auto action = [&](const dist::ProcessGroup& world) {
    History mine = train(config, dist::make_mesh(world, how.layout), how);
    if (world.rank() == 0) out = std::move(mine);
  };
  testing::on_ranks(how.layout.ranks(), action, {.shared_memory = shared_memory, .check = true});
  return out;
}

/// The largest number of all tensors.
double largest(const TensorMap& tensors) {
  double out = 0;
  for (const auto& [name, value] : tensors) out = std::max(out, value.abs().max().item<double>());
  return out;
}

void expect_near(const History& found, const History& expected) {
  testing::expect_near(found.numbers, expected.numbers, kTolerance, kSmallest);
  for (const auto member : kTensors) {
    ASSERT_EQ((found.*member).size(), (expected.*member).size());
    const double tolerance = kTolerance * std::min(1.0, largest(expected.*member));
    for (const auto& [name, value] : expected.*member)
      EXPECT_LT(((found.*member).at(name) - value).abs().max().item<double>(), tolerance) << name;
  }
}

void expect_same_bits(const History& found, const History& expected) {
  EXPECT_EQ(found.numbers, expected.numbers);
  for (const auto member : kTensors)
    for (const auto& [name, value] : expected.*member)
      EXPECT_TRUE(torch::equal((found.*member).at(name), value)) << name;
}

/// Whether the covering selection contains this pair: every layout runs with some methods and every
/// method with some layouts. PENSTOCK_ALL_LAYOUTS=1 selects all pairs.
bool is_selected(std::size_t method, std::size_t layout) {
  return std::getenv("PENSTOCK_ALL_LAYOUTS") != nullptr || (method + layout) % 4 == 0;
}

/// Whether a pair runs a second time, through sockets. With zero, each rank then holds its own copy
/// of the weights. Half of the selected pairs with zero test that the bits stay the same.
bool is_run_again(const Case& how, std::size_t method, std::size_t layout) {
  return how.zero > 0 ? (method + layout) % 8 == 0 : method % 5 == layout % 5;
}

class Layouts : public ::testing::TestWithParam<std::string> {};

TEST_P(Layouts, HaveTheNumbersOfOneProcess) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const auto methods = method_registry().names();
  const auto index =
      static_cast<std::size_t>(std::ranges::find(methods, GetParam()) - methods.begin());
  const ModelConfig config = config_of(GetParam());
  std::map<std::size_t, History> alone;  // by number of parts
  for (std::size_t i = 0; i < cases().size(); ++i) {
    const Case& how = cases()[i];
    if (!is_selected(index, i)) continue;
    SCOPED_TRACE(how.name);
    try {
      check_divides(config, how.layout);
    } catch (const Error& refusal) {
      std::cout << GetParam() << " under " << how.name << " is refused: " << refusal.what() << "\n";
      continue;
    }
    if (!alone.contains(how.parts)) alone[how.parts] = train(config, {}, how);
    const History found = train_on_ranks(config, how);
    expect_near(found, alone[how.parts]);
    if (!is_run_again(how, index, i)) continue;
    expect_same_bits(train_on_ranks(config, how, /*shared_memory=*/false), found);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, Layouts, ::testing::ValuesIn(method_registry().names()),
                         testing::test_name);

/// Distillation runs a pass with all experts before each part's own pass.
TEST(DistilledLayouts, HaveTheNumbersOfOneProcess) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  ModelConfig config = config_of("topk");
  config.router.parts["topk"].set("distil", 0.5);
  const History alone = train(config, {}, {});
  for (const Case& how : {Case{"dp2zero2", {.data = 2}, 2}, Case{"ep2", {.data = 2, .expert = 2}},
                          Case{"tp2seq", {.tensor = 2, .sequence = true}}}) {
    SCOPED_TRACE(how.name);
    expect_near(train_on_ranks(config, how), alone);
  }
}

/// A balancer whose loss or state counts tokens otherwise than over the micro-batch and all layers.
struct Balance {
  std::string method, balancer;
  std::map<std::string, ConfigNode::Value> options;
};

TEST(BalancedLayouts, HaveTheNumbersOfOneProcess) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  using Text = std::string;
  const Balance balances[] = {
      {"remoe", "adaptive-l1", {{"per_layer", true}, {"controller", Text("log-proportional")}}},
      {"remoe", "adaptive-l1", {{"scope", Text("sequence")}}},
      {"topk", "load-balance", {{"scope", Text("device")}, {"devices", std::int64_t{2}}}},
      {"topk", "load-balance", {{"scope", Text("global")}}},
  };
  const Case layouts[] = {
      {"dp2ep2zero1", {.data = 4, .expert = 2}, 1},
      {"tp2ep2seqwhole", {.tensor = 2, .expert = 2, .sequence = true, .whole_experts = true}},
      {"pp2ep2", {.data = 2, .pipeline = 2, .expert = 2}},
  };
  for (const Balance& balance : balances) {
    ModelConfig config = config_of(balance.method);
    for (const auto& [key, value] : balance.options)
      config.router.parts[balance.balancer].set(key, value);
    const History alone = train(config, {}, {});
    const bool global = balance.options.contains("scope") &&
                        std::get<Text>(balance.options.at("scope")) == "global";
    for (const Case& how : layouts) {
      if (global && how.layout.pipeline > 1) continue;  // refused before a run begins
      SCOPED_TRACE(concat(balance.method, " ", balance.options.begin()->first, " ", how.name));
      expect_near(train_on_ranks(config, how), alone);
    }
  }
}

}  // namespace
}  // namespace penstock::layouts_test
