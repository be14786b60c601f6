// Small models on the ranks of a layout, and the results of training them.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/models/make_model.h"
#include "penstock/train/ranks/gradient_tree.h"
#include "penstock/train/ranks/model_exchange.h"
#include "penstock/train/step/language_work.h"
#include "penstock/train/step/step.h"
#include "tests/dist/ranks.h"
#include "tests/train/drawn_batch.h"
#include "tests/train/report_numbers.h"
#include "tests/train/small_run.h"

namespace penstock::pipelines {

using testing::on_ranks;

constexpr std::int64_t kVocab = 64;

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
    if (method == "lory") out.router.parts["lory"].set("segment_length", 4);
    return out.resolved();
  }
  /// The model in f64: this rank's part of it, or the whole model without a mesh.
  std::shared_ptr<LanguageModel> model(const dist::Mesh& mesh = {}) const {
    const ModelConfig all = config();
    const auto out = make_model(all, 1, place_in(all, mesh, chunks));
    out->to(torch::kDouble);
    out->train();
    return out;
  }
};

using Tensors = std::map<std::string, at::Tensor>;

/// The results of training steps.
struct History {
  std::vector<double> numbers;
  Tensors gradients;  // of the first step
  Tensors state;      // weights and the balancers' state
};

inline LanguageWork work_of(const Case& is, LanguageModel& model, std::int64_t step,
                            PartRange mine) {
  static const std::vector<std::int32_t> bytes(kVocab, 1);
  std::vector<Batch> batches(is.parts);
  for (std::size_t p = mine.first; p < mine.last; ++p)
    batches[p] = testing::drawn_batch(step, p, 8, kVocab);
  return {model, std::move(batches), bytes};
}

inline void add_numbers(const StepReport& report, std::vector<double>& out) {
  testing::append_numbers(out, report);
  out.push_back(report.flops);
  out.insert(out.end(), report.sparsity_by_layer.begin(), report.sparsity_by_layer.end());
  for (const auto& layer : report.routing.expert_tokens)
    for (const std::int64_t count : layer) out.push_back(static_cast<double>(count));
}

inline History train(const Case& is, LanguageModel& model, const GradientSharing& sharing = {}) {
  const PartRange mine = parts_of_rank(is.parts, sharing.data.rank(), sharing.data.size());
  History out;
  std::vector<ModelMemory> memory;
  LanguageWork first = work_of(is, model, 0, mine);
  accumulate(first, {.total_steps = 5, .training = true}, 3, memory, {},
             {.data = sharing.data,
              .stages = sharing.stages,
              .world = sharing.world,
              .peers = sharing.peers,
              .counts = sharing.counts});
  // With data ranks, the gradients are those of the rank's own parts only.
  for (const auto& item : model.named_parameters())
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

/// The largest difference of two tensors, relative to the largest element of `expected`.
inline double relative(const at::Tensor& found, const at::Tensor& expected) {
  const double size = expected.abs().max().item<double>();
  return (found - expected).abs().max().item<double>() / std::max(size, 1e-12);
}

inline void expect_close(const Tensors& found, const Tensors& expected) {
  for (const auto& [name, value] : found) {
    ASSERT_TRUE(expected.contains(name)) << name;
    if (value.is_floating_point()) {
      EXPECT_LT(relative(value, expected.at(name)), 1e-9) << name;
    }
  }
}

inline void expect_close(const History& found, const History& expected) {
  testing::expect_near(found.numbers, expected.numbers, 1e-9);
  expect_close(found.gradients, expected.gradients);
  expect_close(found.state, expected.state);
}

inline bool same_bits(const Tensors& found, const Tensors& expected) {
  return std::ranges::all_of(
      found, [&](const auto& item) { return torch::equal(item.second, expected.at(item.first)); });
}

inline GradientSharing sharing_on(const dist::Mesh& mesh, const LanguageModel& model) {
  GradientSharing out = ModelExchange(model, mesh).sharing();
  out.tree = mesh.data.size() > 1;
  out.overlap = model.place().part.chunks() == 1;
  return out;
}

inline History train_on(const Case& is, const dist::Mesh& mesh) {
  const auto model = is.model(mesh);
  return train(is, *model, sharing_on(mesh, *model));
}

/// The history of each rank, indexed by rank.
inline std::vector<History> train_on_ranks(const Case& is) {
  std::vector<History> out(static_cast<std::size_t>(is.layout.ranks()));
  on_ranks(is.layout.ranks(), [&](const dist::ProcessGroup& world) {
    const dist::Mesh mesh = dist::make_mesh(world, is.layout);
    out[static_cast<std::size_t>(world.rank())] = train_on(is, mesh);
  });
  return out;
}

class Pipeline : public testing::RanksTest<> {};

}  // namespace penstock::pipelines
