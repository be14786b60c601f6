// A text's logits depend on the text and the model, and not on the other texts of its pass.
#include "penstock/finetune/classifier.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "penstock/base/error.h"
#include "penstock/finetune/k_points.h"
#include "penstock/finetune/pretrained.h"
#include "penstock/finetune/score.h"
#include "penstock/models/make_model.h"
#include "tests/base/temp_directory.h"
#include "tests/finetune/small_task.h"

namespace penstock {
namespace {

/// @param segment  of Lory
std::shared_ptr<Classifier> make_classifier(ModelKind architecture, const std::string& method,
                                            double k = 1, std::int64_t segment = 4) {
  ModelConfig config = testing::small_body(architecture, method);
  config.router.k = k;
  if (method == "lory") config.router.parts["lory"].set("segment_length", segment);
  torch::manual_seed(3);
  auto out = std::make_shared<Classifier>(make_model(config, 1),
                                          std::make_shared<ClassifierHead>(32, 3, 0.1, 0.3, 5));
  out->eval();
  return out;
}

/// Texts of four lengths; some have equal lengths.
EncodedSet some_texts() {
  EncodedSet set;
  for (std::uint64_t i = 0; i < 9; ++i) {
    std::vector<std::int64_t> text(2 + i % 4 * 3);
    for (std::size_t j = 0; j < text.size(); ++j)
      text[j] = static_cast<std::int64_t>(random_below(random_bits(9, i, j), 256));
    set.texts.push_back(std::move(text));
    set.labels.push_back(static_cast<std::int64_t>(i % 3));
  }
  return set;
}

EncodedSet only(const EncodedSet& set, std::size_t i) {
  return {.texts = {set.texts[i]}, .labels = {set.labels[i]}};
}

TEST(Classifier, PaddingHasNoPartInASegmentsMean) {
  EncodedSet set;
  set.texts = {{7, 31, 202}};
  set.labels = {1};
  const auto padded = make_classifier(ModelKind::decoder, "lory", 1, /*segment=*/4);
  const auto whole = make_classifier(ModelKind::decoder, "lory", 1, /*segment=*/3);
  EXPECT_NEAR(score(*padded, set, {}).nats, score(*whole, set, {}).nats, 1e-5);
}

class Composition : public ::testing::TestWithParam<std::tuple<ModelKind, const char*>> {};

TEST_P(Composition, OtherTextsChangeNothing) {
  const auto [architecture, method] = GetParam();
  const bool two = std::string(method) == "topk" || std::string(method) == "hyperrouter";
  const auto classifier = make_classifier(architecture, method, two ? 2 : 1);
  const EncodedSet set = some_texts();
  double sum = 0;
  for (std::size_t i = 0; i < set.texts.size(); ++i)
    sum += score(*classifier, only(set, i), {}).nats;
  EXPECT_NEAR(score(*classifier, set, {}).nats, sum, 1e-4);
  EncodedSet some = only(set, 0);
  for (const std::size_t i : {4u, 8u}) {  // the same length, so they share a pass
    some.texts.push_back(set.texts[i]);
    some.labels.push_back(set.labels[i]);
  }
  double three = 0;
  for (const std::size_t i : {0u, 4u, 8u}) three += score(*classifier, only(set, i), {}).nats;
  EXPECT_NEAR(score(*classifier, some, {}).nats, three, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Composition,
    ::testing::Combine(::testing::Values(ModelKind::decoder, ModelKind::transformer_xl),
                       ::testing::Values("dense", "topk", "remoe", "hyperrouter", "switch",
                                         "expert-choice", "gshard", "thor", "lory", "hash")));

TEST(Classifier, RowsOfOnePassAreThoseOfPassesOfTheirOwn) {
  torch::NoGradGuard no_grad;
  for (const ModelKind architecture : {ModelKind::decoder, ModelKind::transformer_xl}) {
    const auto classifier = make_classifier(architecture, "topk", 2);
    const at::Tensor tokens = torch::randint(256, {5, 7}, torch::kLong);
    const at::Tensor together = classifier->forward({.tokens = tokens}, {}).logits;
    for (std::int64_t row = 0; row < 5; ++row) {
      const at::Tensor alone = classifier->forward({.tokens = tokens.narrow(0, row, 1)}, {}).logits;
      EXPECT_TRUE(torch::allclose(alone[0], together[row], 1e-4, 1e-5)) << word(architecture);
    }
    // The logits are no constant.
    EXPECT_GT((together[0] - together[1]).abs().max().item<double>(), 1e-3);
  }
}

TEST(Classifier, CarriedMemoryIsReadAndOnlyWhereCarried) {
  torch::NoGradGuard no_grad;
  const auto classifier = make_classifier(ModelKind::transformer_xl, "hyperrouter", 2);
  const at::Tensor tokens = torch::randint(256, {1, 6}, torch::kLong);
  const auto first = classifier->forward({.tokens = tokens, .memory_length = 8}, {});
  ASSERT_EQ(first.memory.size(), 2u);
  EXPECT_EQ(first.memory[0].size(1), 6);
  const auto second =
      classifier->forward({.tokens = tokens, .memory = first.memory, .memory_length = 8}, {});
  EXPECT_EQ(second.memory[0].size(1), 8);
  EXPECT_FALSE(torch::allclose(first.logits, second.logits, 1e-4, 1e-5));
  EXPECT_TRUE(classifier->forward({.tokens = tokens}, {}).memory.empty());
}

TEST(Classifier, TensorsGoOutAndComeBack) {
  torch::NoGradGuard no_grad;
  const auto a = make_classifier(ModelKind::decoder, "topk");
  const auto b = make_classifier(ModelKind::decoder, "topk");
  for (auto& parameter : b->parameters()) parameter.add_(0.5);
  const at::Tensor tokens = torch::randint(256, {2, 6}, torch::kLong);
  const auto logits = [&](Classifier& c) { return c.forward({.tokens = tokens}, {}).logits; };
  ASSERT_FALSE(torch::equal(logits(*a), logits(*b)));
  b->load(a->tensors(), "test");
  EXPECT_TRUE(torch::equal(logits(*a), logits(*b)));
  auto tensors = a->tensors();
  tensors["classifier.out_proj.weight"] = torch::zeros({4, 32});
  EXPECT_THROW(b->load(tensors, "test"), Error);
  tensors.erase("classifier.out_proj.weight");
  EXPECT_THROW(b->load(tensors, "test"), Error);
}

TEST(Classifier, TheLanguageHeadIsNotTrained) {
  const auto classifier = make_classifier(ModelKind::transformer_xl, "dense");
  classifier->train();
  classifier->forward({.tokens = torch::randint(256, {2, 6}, torch::kLong)}, {.training = true})
      .logits.sum()
      .backward();
  for (const auto& item : classifier->named_parameters())
    EXPECT_EQ(item.value().requires_grad(), item.key() != "body.head_bias") << item.key();
}

TEST(Classifier, AnotherKIsAnotherAnswerOfTheSameTensors) {
  torch::NoGradGuard no_grad;
  const auto classifier = make_classifier(ModelKind::transformer_xl, "hyperrouter", 4);
  const at::Tensor tokens = torch::randint(256, {2, 6}, torch::kLong);
  const auto at = [&](std::int64_t k) {
    return classifier->forward({.tokens = tokens}, {.k = k}).logits;
  };
  EXPECT_TRUE(torch::equal(at(4), at(0)));
  EXPECT_FALSE(torch::allclose(at(1), at(4), 1e-4, 1e-5));
}

TEST(KPoints, PowersOfTwoAndAll) {
  ModelConfig config = testing::small_body(ModelKind::decoder, "hyperrouter");
  config.moe.experts = 6;
  config.router.k = 6;
  config = config.resolved();
  EXPECT_EQ(k_points(config, {}, 3), (std::vector<std::int64_t>{1, 2, 3, 4, 6}));
  EXPECT_EQ(k_points(config, {4, 1, 4}, 3), (std::vector<std::int64_t>{1, 4}));
  EXPECT_THROW(k_points(config, {7}, 0), Error);
  for (const char* method : {"dense", "remoe", "hash"}) {
    const ModelConfig without = testing::small_body(ModelKind::decoder, method).resolved();
    EXPECT_TRUE(k_points(without, {}, 0).empty()) << method;
    EXPECT_THROW(k_points(without, {1}, 0), Error) << method;
  }
}

TEST(KPoints, ASelectorsOwnLimitCounts) {
  const ModelConfig config = testing::small_body(ModelKind::decoder, "gshard").resolved();
  EXPECT_EQ(largest_k(config), 2);
  EXPECT_EQ(k_points(config, {}, 2), (std::vector<std::int64_t>{1, 2}));
  EXPECT_THROW(k_points(config, {4}, 0), Error);
}

TEST(KPoints, TrainingTakesAllTheOwnOrAGivenNumber) {
  ModelConfig config = testing::small_body(ModelKind::decoder, "hyperrouter");
  config.moe.granularity = 2;
  config.router.k = 3;
  config = config.resolved();
  const auto trained = [&](std::int64_t train, std::int64_t selection) {
    FinetuneConfig finetune;
    finetune.train_k = train;
    finetune.selection_k = selection;
    return training_k(config, finetune);
  };
  EXPECT_EQ(trained(0, 0).train, 8);
  EXPECT_EQ(trained(0, 0).selection, 8);
  EXPECT_EQ(trained(-1, 2).train, 6);
  EXPECT_EQ(trained(-1, 2).selection, 2);
  EXPECT_EQ(trained(5, 0).selection, 5);
  EXPECT_THROW(trained(9, 0), Error);
  EXPECT_EQ(training_k(testing::small_body(ModelKind::decoder, "remoe").resolved(), {}).train, 0);
}

TEST(PretrainedClassifier, IsReadWithoutDraws) {
  const testing::TempDirectory folder;
  const auto state = [] { return at::detail::getDefaultCPUGenerator().get_state().clone(); };
  for (const ModelKind architecture : {ModelKind::decoder, ModelKind::transformer_xl}) {
    const std::string model = testing::write_model(
        folder.path() / word(architecture), testing::small_body(architecture, "hyperrouter"));
    const at::Tensor before = state();
    const FinetuneConfig config = read_finetune_config(ConfigNode());
    pretrained_classifier(model, config, 2, std::nullopt);
    pretrained_classifier(model, config, 2, 300);
    EXPECT_TRUE(before.equal(state())) << word(architecture);
  }
}

}  // namespace
}  // namespace penstock
