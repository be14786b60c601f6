#include "penstock/bench/starting_point.h"

#include <algorithm>
#include <array>

#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/train/recipe_template.h"

namespace penstock::bench {
namespace {

constexpr std::array<ModelSize, 5> kSizes = {{{"tiny", 128, 4, 4, 512},
                                              {"small", 256, 4, 8, 1024},
                                              {"medium", 384, 6, 6, 1536},
                                              {"large", 512, 8, 8, 2048},
                                              {"larger", 768, 12, 12, 3072}}};
constexpr std::int64_t kSequences = 8, kLength = 256;
constexpr std::int64_t kFewestSteps = 10;

}  // namespace

std::span<const ModelSize> model_sizes() { return kSizes; }

Recipe recipe_of_size(const ModelSize& size, const StartingRequirements& requirements) {
  Recipe out;
  out.model = {.vocab = requirements.vocab,
               .d_model = size.d_model,
               .layers = size.layers,
               .heads = size.heads,
               .d_ffn = size.d_ffn};
  out.model.router = example_router(requirements.method);
  if (!resolve(out.model.router).dense()) out.model.moe.experts = 8;
  out.model = out.model.resolved();
  out.train.batch_sequences = kSequences;
  out.train.micro_batch = kSequences;
  out.train.sequence_length = kLength;
  out.train.optimizer.lr = 1e-3;
  return out;
}

const ModelSize& size_for(const StartingRequirements& requirements, double flops) {
  const ModelSize* chosen = &kSizes.front();
  for (const ModelSize& size : kSizes) {
    const ModelConfig model = recipe_of_size(size, requirements).model;
    const double per_token =
        nominal_training_flops(model, kSequences, kLength) / (kSequences * kLength);
    const double tokens =
        requirements.seconds / static_cast<double>(requirements.runs) * flops / per_token;
    const ParameterCounts counts = count_parameters(model);
    if (tokens >= kTokensPerParameter * static_cast<double>(counts.active - counts.embedding))
      chosen = &size;
  }
  return *chosen;
}

std::int64_t steps_for(const StartingRequirements& requirements, const Recipe& recipe,
                       double step_seconds) {
  const double a_step =
      static_cast<double>(recipe.train.batch_sequences * recipe.train.sequence_length);
  double steps = requirements.seconds / static_cast<double>(requirements.runs) / step_seconds;
  if (requirements.corpus_tokens > 0)
    steps = std::min(steps, kMostEpochs * static_cast<double>(requirements.corpus_tokens) / a_step);
  return std::max(kFewestSteps, static_cast<std::int64_t>(std::min(steps, 1e9)));
}

}  // namespace penstock::bench
