#include "penstock/bench/synthetic.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/layers/moe.h"
#include "penstock/models/make_model.h"
#include "penstock/train/memory_check.h"

namespace penstock::bench {

std::vector<Batch> synthetic_step(const Recipe& recipe, std::int64_t step) {
  const TrainConfig& train = recipe.train;
  const auto seed = static_cast<std::uint64_t>(train.seed);
  const auto vocab = static_cast<std::uint64_t>(recipe.model.vocab);
  std::vector<Batch> out;
  std::uint64_t index = 0;
  for (std::int64_t first = 0; first < train.batch_sequences; first += train.micro_batch) {
    Batch batch{.sequences = train.micro_batch,
                .length = train.sequence_length,
                .fresh = step == 0 || !recipe.model.has_memory()};
    for (std::int64_t row = 0; row < batch.sequences; ++row)
      for (std::int64_t i = 0; i <= batch.length; ++i) {
        const auto token = static_cast<std::int64_t>(
            random_below(random_bits(seed, static_cast<std::uint64_t>(step), index++), vocab));
        if (i < batch.length) batch.inputs.push_back(token);
        if (i > 0) batch.targets.push_back(token);
      }
    out.push_back(std::move(batch));
  }
  return out;
}

std::shared_ptr<LanguageModel> build_model(const Recipe& recipe) {
  PENSTOCK_CHECK(recipe.model.vocab > 0,
                 "model.vocab = 0 takes the corpus's vocabulary, and a bench has no corpus; give "
                 "model.vocab = 256");
  check_bench(recipe);
  auto model = make_model(recipe.model, static_cast<std::uint64_t>(recipe.train.seed));
  model->train();
  model->recompute(recomputation_of(recipe));
  return model;
}

void check_bench(const Recipe& recipe) {
  PENSTOCK_CHECK(recipe.run.on_cpu(), "run.device = '", recipe.run.device,
                 "': the bench measures the processor; set run.device = 'cpu'");
}

void check_active_experts(const Recipe& recipe, double active) {
  const auto experts = static_cast<double>(recipe.model.total_experts());
  PENSTOCK_CHECK(
      recipe.model.traits().variable_active,
      "options.active_experts holds routing whose number of experts varies, as ReLU's does; "
      "this recipe's is fixed by its model.router.k");
  PENSTOCK_CHECK(active > 0 && active <= experts, "options.active_experts ", active,
                 " is not above 0 and at most E = ", experts);
}

}  // namespace penstock::bench
