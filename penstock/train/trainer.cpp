#include "penstock/train/trainer.h"

#include <torch/cuda.h>
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/layers/moe.h"
#include "penstock/models/model_directory.h"
#include "penstock/models/same_tokenizer.h"
#include "penstock/models/tensor_names.h"
#include "penstock/optim/schedule.h"
#include "penstock/train/agreement.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/language_work.h"
#include "penstock/train/tensor_exchange.h"

namespace penstock {
namespace {

// Streams of the recipe's seed, so that data order does not depend on what the model draws.
constexpr std::uint64_t model_stream = 1, data_stream = 2, router_stream = 3;

void check_device(const std::string& name) {
  try {
    const at::Device device(name);
    PENSTOCK_CHECK(device.is_cpu() || (device.is_cuda() && torch::cuda::is_available()),
                   "run.device = '", name, "': this libtorch sees no such device; use cpu");
  } catch (const c10::Error&) {
    fail("run.device = '", name, "' is not a device; use cpu, cuda or cuda:N");
  }
}

std::shared_ptr<LanguageModel> build_model(const Recipe& recipe) {
  check_device(recipe.run.device);
  auto model = initial_model(recipe);
  const at::Device device(recipe.run.device);
  if (!device.is_cpu()) model->to(device);
  model->train();
  model->recompute_experts(recipe.train.recompute_experts);
  return model;
}

}  // namespace

LrScale router_lr_scale(const Recipe& recipe, LanguageModel& model) {
  const double scale = recipe.model.router.lr_scale;
  if (scale == 1) return {};
  return [scale, names = router_parameters(model, model.moe_layers())](const std::string& name) {
    return names.contains(name) ? scale : 1.0;
  };
}

Recipe with_vocabulary(Recipe recipe, const Corpus& corpus) {
  if (!recipe.train.init_from.empty())
    check_same_tokenizer(*open_model_source(recipe.train.init_from), corpus);
  if (recipe.model.vocab == 0) recipe.model.vocab = corpus.vocab_size();
  PENSTOCK_CHECK(recipe.model.vocab >= corpus.vocab_size(), "model.vocab = ", recipe.model.vocab,
                 " is smaller than the corpus's ", corpus.vocab_size(), " (", corpus.path(),
                 "); raise it, or set it to 0 to take the corpus's");
  return recipe;
}

std::shared_ptr<LanguageModel> initial_model(const Recipe& recipe) {
  if (!recipe.train.init_from.empty())
    return load_model(*open_model_source(recipe.train.init_from), recipe.model);
  return make_model(recipe.model,
                    random_bits(static_cast<std::uint64_t>(recipe.train.seed), model_stream, 0));
}

Trainer::Trainer(const Recipe& recipe, Corpus corpus, dist::ProcessGroup group)
    : recipe_(with_vocabulary(recipe, corpus)),
      corpus_(std::move(corpus)),
      group_(std::move(group)),
      model_(build_model(recipe_)),
      engine_(*model_, recipe_.train.optimizer, router_lr_scale(recipe_, *model_),
              {.tree = group_.size() > 1 || recipe_.train.gradient_sum == GradientOrder::tree,
               .data = group_,
               .replicas = group_,
               .world = group_}) {
  const TrainConfig& train = recipe_.train;
  batches_ = std::make_shared<TrainingBatches>(
      corpus_,
      TrainingOptions{.sequence_length = train.sequence_length,
                      .batch_sequences = train.batch_sequences,
                      .seed = random_bits(static_cast<std::uint64_t>(train.seed), data_stream, 0),
                      .sampling = recipe_.data.sampling,
                      .isolate_documents = recipe_.data.isolate_documents});
}

std::size_t Trainer::parts() const {
  return static_cast<std::size_t>(recipe_.train.batch_sequences / recipe_.train.micro_batch);
}

PartRange Trainer::own_parts() const {
  return parts_of_rank(parts(), group_.rank(), group_.size());
}

void Trainer::start_prefetch() {
  const std::int64_t rows = recipe_.train.micro_batch;
  const auto first = static_cast<std::int64_t>(own_parts().first) * rows,
             count = static_cast<std::int64_t>(own_parts().size()) * rows;
  prefetcher_ = std::make_unique<Prefetcher>(
      [=, batches = batches_](std::int64_t step) { return batches->batch(step, first, count); },
      step());
}

RoutingContext Trainer::context() const {
  RoutingContext context;
  context.step = step();
  context.total_steps = recipe_.train.steps;
  return context;
}

StepOutcome Trainer::advance(const StepWatch& watch) {
  const TrainConfig& train = recipe_.train;
  const StepInput input{.total_steps = train.steps,
                        .draw_seed = random_bits(static_cast<std::uint64_t>(train.seed),
                                                 router_stream, static_cast<std::uint64_t>(step())),
                        .learning_rate = learning_rate(train.optimizer, step(), train.steps)};
  if (!prefetcher_) start_prefetch();
  const Batch batch = prefetcher_->next();  // of this rank's parts alone
  std::vector<Batch> micro_batches(parts());
  std::int64_t first = 0;
  for (std::size_t p = own_parts().first; p < own_parts().last; ++p, first += train.micro_batch)
    micro_batches[p] = batch.slice(first, train.micro_batch);
  LanguageWork work(*model_, std::move(micro_batches), corpus_.token_bytes());
  try {
    StepOutcome out = engine_.advance(work, input, watch);
    if (!out.failure.empty()) prefetcher_.reset();  // it would go on with the next step's batch
    return out;
  } catch (...) {
    prefetcher_.reset();
    throw;
  }
}

Evaluation Trainer::evaluate(Split split, std::int64_t max_tokens,
                             const std::function<void(double, const LossTotals&)>& progress,
                             std::int64_t k) {
  EvaluateOptions options = final_evaluation(recipe_, split);
  options.max_tokens = max_tokens;
  options.context = context();
  options.context.k = k;
  options.progress = progress;
  return penstock::evaluate(*model_, corpus_, options);
}

std::map<std::string, at::Tensor> Trainer::model_tensors() { return file_tensors(*model_); }

std::map<std::string, at::Tensor> Trainer::optimizer_tensors() {
  TensorMap out = engine_.tensors();
  if (group_.size() == 1) return out;
  check_same_weights(group_, model_tensors());
  TensorMap memory;
  for (const auto& [name, value] : out)
    if (name.starts_with("memory.")) memory[name] = value;
  out.merge(gather_tensors(group_, memory));
  return out;
}

void Trainer::restore(std::int64_t step, const std::map<std::string, at::Tensor>& model,
                      const std::map<std::string, at::Tensor>& optimizer,
                      const std::string& where) {
  load_file_tensors(*model_, broadcast_tensors(group_, model), where);
  const at::Tensor steps = at::full({1}, step, at::kLong);
  group_.broadcast(steps);
  engine_.restore(steps.item<std::int64_t>(), broadcast_tensors(group_, optimizer));
  prefetcher_.reset();
}

}  // namespace penstock
