// The training objective of two passes: its formula compared with the numbers of
// objective_numbers.py, a step's gradient compared with one by hand, and what is counted once.
#include "penstock/train/step/objective.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/eval/perplexity.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/models/make_model.h"
#include "penstock/routers/methods.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/step/language_work.h"
#include "penstock/train/trainer.h"
#include "tests/base/temp_directory.h"
#include "tests/models/tiny_decoder.h"
#include "tests/ops/finite_difference.h"
#include "tests/train/gradients.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock {
namespace {

at::Tensor rows_of(std::initializer_list<double> values) {
  return torch::tensor(std::vector<double>(values), torch::kDouble).view({2, 3});
}

TEST(Disagreement, GivesTheNumbersOfTheScript) {
  const at::Tensor first = rows_of({0.5, -1.0, 2.0, 0.0, 0.3, -0.3}).requires_grad_(),
                   second = rows_of({1.5, 0.0, -0.5, 0.1, 0.2, -0.4}).requires_grad_();
  const at::Tensor value = disagreement(first, second);
  value.backward();
  EXPECT_NEAR(value.item<double>(), 0.6024876351297206, 1e-15);
  EXPECT_LT(
      testing::relative_error(
          first.grad(), rows_of({-0.2607027437681929, -0.0581706449681319, 0.3188733887363248,
                                 -0.0222479448224998, 0.0143645258752105, 0.0078834189472893})),
      1e-14);
  EXPECT_LT(
      testing::relative_error(
          second.grad(), rows_of({0.2043770846999171, 0.0456026916397617, -0.2499797763396788,
                                  0.0229435720607601, -0.0148136619883757, -0.0081299100723844})),
      1e-14);
}

TEST(Disagreement, GradientByFiniteDifferencesAndNoneWherePassesAgree) {
  torch::manual_seed(3);
  const auto report = testing::check_gradients(
      [](const std::vector<at::Tensor>& in) { return disagreement(in[0], in[1]); },
      {torch::randn({5, 7}, torch::kDouble), torch::randn({5, 7}, torch::kDouble)});
  EXPECT_LT(report.error, 1e-8) << report.where;
  const at::Tensor same = torch::randn({4, 6}, torch::kDouble);
  EXPECT_EQ(disagreement(same, same).item<double>(), 0);
  EXPECT_NEAR(disagreement(same, same + 3).item<double>(), 0, 1e-15);  // the softmax is the same
}

TEST(Divergence, GivesTheNumbersOfTheScript) {
  const at::Tensor teacher = rows_of({0.5, -1.0, 2.0, 0.0, 0.3, -0.3}).requires_grad_(),
                   student = rows_of({1.5, 0.0, -0.5, 0.1, 0.2, -0.4}).requires_grad_();
  const at::Tensor value = divergence(teacher, student);
  value.backward();
  EXPECT_NEAR(value.item<double>(), 0.6595547261432653, 1e-15);
  EXPECT_LT(
      testing::relative_error(
          student.grad(), rows_of({0.2804171660862785, 0.0625695271772002, -0.3429866932634788,
                                   0.0226092191863277, -0.0145977849464937, -0.0080114342398340})),
      1e-14);
  EXPECT_FALSE(teacher.grad().defined());
  EXPECT_NEAR(divergence(teacher, teacher + 3).item<double>(), 0, 1e-15);
}

ModelConfig thor_config(ModelKind architecture) {
  ModelConfig config = testing::tiny_decoder("thor", 12, 256);
  config.architecture = architecture;
  if (architecture == ModelKind::transformer_xl) {
    config.xl.memory = 12;
    config.xl.dropout = 0.1;
  }
  return config;
}

TEST(TrainingObjective, IsTheMethods) {
  ModelConfig config = thor_config(ModelKind::decoder);
  EXPECT_EQ(training_objective(config.traits()).passes, 2);
  EXPECT_EQ(training_objective(config.traits()).weight, 5);  // as in the released code
  config.router.parts["thor"].set("consistency", 0.5);
  EXPECT_EQ(training_objective(config.traits()).weight, 0.5);
  config.moe.first_layers = 0;
  EXPECT_EQ(training_objective(config.traits()).passes, 1);
  for (const auto& [name, method] : method_registry().entries()) {
    if (name == "thor") continue;
    ModelConfig other = thor_config(ModelKind::decoder);
    other.router.method = name;
    EXPECT_EQ(training_objective(other.traits()).passes, 1) << name;
    EXPECT_EQ(training_objective(other.traits()).weight, 0) << name;
  }
}

TEST(TrainingObjective, OthersRefuseItsOption) {
  RouterConfig router{.method = "topk"};
  router.parts["thor"].set("consistency", 1.0);
  EXPECT_THROW(resolve(router), Error);
}

Batch seeded_batch(std::int64_t sequences, std::int64_t length, std::uint64_t seed) {
  Batch batch{.sequences = sequences, .length = length};
  for (std::int64_t i = 0; i < sequences * length; ++i) {
    const auto draw = [&](std::uint64_t stream) {
      return static_cast<std::int64_t>(
          random_below(random_bits(seed, stream, static_cast<std::uint64_t>(i)), 256));
    };
    batch.inputs.push_back(draw(0));
    batch.targets.push_back(draw(1));
    batch.domains.push_back(0);
  }
  return batch;
}

void expect_near(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected,
                 double tolerance) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT(testing::relative_error(found[i], expected[i]), tolerance) << i;
}

class TwoPasses : public ::testing::Test {
 protected:
  void SetUp() override {
    torch::manual_seed(5);
    model_ = make_model(thor_config(ModelKind::transformer_xl), 1);
    model_->to(torch::kDouble);
    model_->train();
    context_.training = true;
    context_.total_steps = 10;
  }
  StepReport step(const std::vector<Batch>& batches, std::vector<ModelMemory>& memory) {
    const std::vector<std::int32_t> bytes(256, 1);
    LanguageWork work(*model_, batches, bytes);
    return accumulate(work, context_, 9, memory);
  }
  std::shared_ptr<LanguageModel> model_;
  RoutingContext context_;
};

TEST_F(TwoPasses, AStepsGradientIsThatOfTheObjectiveByHand) {
  std::vector<Batch> batches = {seeded_batch(2, 8, 1), seeded_batch(2, 8, 2)};
  std::vector<ModelMemory> memory;
  step(batches, memory);
  testing::gradients(*model_);
  for (Batch& batch : batches) batch.fresh = false;  // the second step reads the first's memory
  const std::vector<ModelMemory> before = memory;
  const StepReport report = step(batches, memory);
  const std::vector<at::Tensor> measured = testing::gradients(*model_);

  at::Tensor objective = torch::zeros({}, torch::kDouble);
  double cross_entropy = 0, between = 0;
  for (std::size_t m = 0; m < 2; ++m) {
    BatchTensors tensors = to_tensors(batches[m], at::kCPU);
    tensors.input.memory = before[m];
    context_.generator = at::detail::createCPUGenerator(mix64(9 + m));
    const ModelOutput one = model_->forward(tensors.input, context_),
                      two = model_->forward(tensors.input, context_);
    EXPECT_FALSE(torch::equal(one.hidden, two.hidden));
    const auto mean_loss = [&](const ModelOutput& output) {
      return -torch::log_softmax(model_->logits(output.hidden), -1)
                  .gather(1, tensors.targets.view({-1, 1}))
                  .mean();
    };
    const at::Tensor p = torch::softmax(model_->logits(one.hidden), -1),
                     q = torch::softmax(model_->logits(two.hidden), -1);
    const at::Tensor apart = 0.5 * ((p - q) * (p.log() - q.log())).sum() / p.size(0);
    const at::Tensor losses = mean_loss(one) + mean_loss(two);
    objective = objective + (losses + 5 * apart) / 2;  // mean of the micro-batches
    cross_entropy += losses.item<double>() / 4;
    between += apart.item<double>() / 2;
    for (std::size_t layer = 0; layer < 2; ++layer)
      EXPECT_TRUE(torch::equal(memory[m][layer], one.memory[layer])) << layer;
    EXPECT_FALSE(torch::equal(memory[m][1], two.memory[1]));
  }
  objective.backward();
  expect_near(measured, testing::gradients(*model_), 1e-11);
  EXPECT_NEAR(report.loss, cross_entropy, 1e-12);
  EXPECT_NEAR(*report.consistency, between, 1e-12);
  EXPECT_NEAR(report.total_loss, objective.item<double>(), 1e-12);
  EXPECT_GT(between, 1e-3);
}

TEST_F(TwoPasses, ChunksOfRowsChangeNothing) {
  const at::Tensor first = torch::randn({7, 16}, torch::kDouble),
                   second = torch::randn({7, 16}, torch::kDouble);
  const auto whole = disagreement_backward(*model_, first, second, 0.3, 1 << 20);
  const auto wanted = testing::gradients(*model_);
  for (const std::int64_t bytes : {1, 3 * 256 * 8}) {  // one row, and three rows
    const auto chunked = disagreement_backward(*model_, first, second, 0.3, bytes);
    EXPECT_NEAR(chunked.value, whole.value, 1e-13);
    EXPECT_LT(testing::relative_error(chunked.first_gradient, whole.first_gradient), 1e-13);
    EXPECT_LT(testing::relative_error(chunked.second_gradient, whole.second_gradient), 1e-13);
    expect_near(testing::gradients(*model_), wanted, 1e-13);
  }
}

TEST(TrainingTwoPasses, CountsTokensOnceFlopsTwiceAndMeansOverPasses) {
  const ModelConfig thor = thor_config(ModelKind::decoder);
  // Also one expert per token, but one pass, and no multiply-adds of a router.
  ModelConfig hash = thor;
  hash.router.method = "hash";
  EXPECT_DOUBLE_EQ(nominal_training_flops(thor.resolved(), 4, 12),
                   2 * nominal_training_flops(hash.resolved(), 4, 12));
  EXPECT_GT(training_memory(thor.resolved(), 4, 12).activation_bytes,
            training_memory(hash.resolved(), 4, 12).activation_bytes * 3 / 2);
  const auto model = make_model(thor, 1);
  RoutingContext context;
  context.training = true;
  std::vector<ModelMemory> memory;
  const std::vector<std::int32_t> bytes(256, 1);
  LanguageWork two(*model, {seeded_batch(2, 12, 1), seeded_batch(2, 12, 2)}, bytes);
  const StepReport report = accumulate(two, context, 3, memory);
  EXPECT_EQ(report.tokens, 48);
  EXPECT_EQ(report.bytes, 48);
  EXPECT_DOUBLE_EQ(report.flops, nominal_training_flops(thor.resolved(), 4, 12));
  EXPECT_EQ(report.active_experts, 1);
  EXPECT_EQ(report.sparsity, 0.75);
  for (const auto& layer : report.load) {
    double sum = 0;
    for (const double share : layer) sum += share;
    EXPECT_DOUBLE_EQ(sum, 1);  // whole passes go to one expert, so shares are quarters
  }
  const auto plain = make_model(hash, 1);
  LanguageWork single(*plain, {seeded_batch(2, 12, 1)}, bytes);
  const StepReport one = accumulate(single, context, 3, memory);
  EXPECT_FALSE(one.consistency);
  EXPECT_EQ(one.total_loss, one.loss);
}

/// Top-1 that learns from all four experts, in f64, with dropout and a memory.
class Distilled : public TwoPasses {
 protected:
  static ModelConfig config(double weight) {
    ModelConfig out = thor_config(ModelKind::transformer_xl);
    out.router.method = "topk";
    out.router.k = 1;
    out.router.parts["topk"].set("distil", weight);
    return out;
  }
  void SetUp() override {
    TwoPasses::SetUp();
    model_ = make_model(config(0.7), 1);
    model_->to(torch::kDouble);
  }
};

TEST_F(Distilled, AStepsGradientIsThatOfTheObjectiveByHand) {
  EXPECT_EQ(training_objective(config(0.7).traits()).distillation, 0.7);
  EXPECT_EQ(training_objective(config(0.7).traits()).passes, 1);
  std::vector<Batch> batches = {seeded_batch(2, 8, 1), seeded_batch(2, 8, 2)};
  std::vector<ModelMemory> memory;
  step(batches, memory);
  testing::gradients(*model_);
  for (Batch& batch : batches) batch.fresh = false;
  const std::vector<ModelMemory> before = memory;
  const StepReport report = step(batches, memory);
  const std::vector<at::Tensor> measured = testing::gradients(*model_);

  at::Tensor objective = torch::zeros({}, torch::kDouble);
  double cross_entropy = 0, from = 0;
  for (std::size_t m = 0; m < 2; ++m) {
    BatchTensors tensors = to_tensors(batches[m], at::kCPU);
    tensors.input.memory = before[m];
    context_.generator = at::detail::createCPUGenerator(mix64(9 + m));
    const ModelOutput student = model_->forward(tensors.input, context_);
    const ModelOutput teacher = model_->forward(tensors.input, {.k = 4});
    const at::Tensor p = torch::softmax(model_->logits(teacher.hidden), -1).detach(),
                     q = torch::softmax(model_->logits(student.hidden), -1);
    const at::Tensor apart = (p * (p.log() - q.log())).sum() / p.size(0);
    const at::Tensor loss = -q.log().gather(1, tensors.targets.view({-1, 1})).mean();
    objective = objective + (loss + student.auxiliary_loss + 0.7 * apart) / 2;
    cross_entropy += loss.item<double>() / 2;
    from += apart.item<double>() / 2;
    EXPECT_TRUE(torch::equal(memory[m][1], student.memory[1]));
  }
  objective.backward();
  expect_near(measured, testing::gradients(*model_), 1e-11);
  EXPECT_NEAR(report.loss, cross_entropy, 1e-12);
  EXPECT_NEAR(*report.consistency, from, 1e-12);
  EXPECT_NEAR(report.total_loss, objective.item<double>(), 1e-12);
  EXPECT_GT(from, 1e-3);
  EXPECT_EQ(report.active_experts, 1);  // the pass with all experts is not counted
}

TEST_F(Distilled, CostsAForwardPassWithAllExperts) {
  ModelConfig distilled = config(0.7), plain = config(0);
  EXPECT_DOUBLE_EQ(nominal_training_flops(distilled.resolved(), 2, 8),
                   nominal_training_flops(plain.resolved(), 2, 8) +
                       nominal_forward_flops(plain.resolved(), 2, 8, 12, 4));
  std::vector<Batch> batches = {seeded_batch(2, 8, 1)};
  std::vector<ModelMemory> memory;
  const double with = step(batches, memory).flops;
  model_ = make_model(plain, 1);
  model_->to(torch::kDouble);
  memory.clear();
  const StepReport without = step(batches, memory);
  EXPECT_FALSE(without.consistency);
  // The memory is still empty.
  EXPECT_NEAR(with, without.flops + nominal_forward_flops(plain.resolved(), 2, 8, 0, 4),
              1e-6 * with);
}

TEST_F(Distilled, ChunksOfRowsChangeNothing) {
  const at::Tensor teacher = torch::randn({7, 16}, torch::kDouble),
                   student = torch::randn({7, 16}, torch::kDouble);
  const auto whole = divergence_backward(*model_, teacher, student, 0.3, 1 << 20);
  const auto wanted = testing::gradients(*model_);
  const auto chunked = divergence_backward(*model_, teacher, student, 0.3, 3 * 256 * 8);
  EXPECT_NEAR(chunked.value, whole.value, 1e-13);
  EXPECT_LT(testing::relative_error(chunked.gradient, whole.gradient), 1e-13);
  expect_near(testing::gradients(*model_), wanted, 1e-13);
}

/// The teacher's pass may keep what routers compute from the weights before the update.
TEST(TrainingDistilled, EvaluatesWithTheWeightsAfterTheUpdate) {
  const testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  Recipe recipe = testing::small_recipe("hyperrouter", 8, 32);
  recipe.model.router.k = 3;  // the schedule begins at 2
  recipe.model.router.parts["topk"].set("distil", 0.5);
  Trainer trainer(recipe, corpus);
  const EvaluateOptions options{.sequence_length = 32, .max_tokens = 1024};
  for (int step = 0; step < 3; ++step) {
    trainer.advance();
    const auto copy = make_model(trainer.model().config(), 1);
    const torch::NoGradGuard no_grad;
    for (const auto& item : trainer.model().named_parameters())
      copy->named_parameters()[item.key()].copy_(item.value());
    for (const auto& item : trainer.model().named_buffers())
      copy->named_buffers()[item.key()].copy_(item.value());
    EXPECT_EQ(evaluate(trainer.model(), corpus, options).total.nats,
              evaluate(*copy, corpus, options).total.nats)
        << step;
  }
}

TEST(TrainingTwoPasses, ContinuesBitwise) {
  const testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  ConfigNode node = testing::small_recipe_node("thor", 8, 32, "unused");
  node.set("model.architecture", "transformer-xl");
  node.set("model.transformer_xl.dropout", 0.1);
  node.set("train.micro_batch", 4);
  const Recipe recipe = read_recipe(node);
  Trainer straight(recipe, corpus), before(recipe, corpus), after(recipe, corpus);
  for (int i = 0; i < 5; ++i) straight.advance();
  for (int i = 0; i < 3; ++i) before.advance();
  testing::restore(after, testing::state_of(before));
  for (int i = 0; i < 2; ++i) after.advance();
  testing::expect_equal(testing::state_of(after), testing::state_of(straight));
}

}  // namespace
}  // namespace penstock
