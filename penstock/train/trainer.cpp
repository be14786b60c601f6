#include "penstock/train/trainer.h"

#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/layers/moe.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/files/same_tokenizer.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/optim/schedule.h"
#include "penstock/train/checkpoints/moment_names.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/ranks/outer_optimizer.h"
#include "penstock/train/ranks/shared_optimizer.h"
#include "penstock/train/ranks/shared_weights.h"
#include "penstock/train/ranks/tensor_exchange.h"
#include "penstock/train/step/language_work.h"
#include "penstock/train/step/product_precision.h"

namespace penstock {
namespace {

// Random streams of the recipe's seed. They keep the data's order independent of the model's draws.
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

std::shared_ptr<LanguageModel> build_model(const Recipe& recipe, const dist::Mesh& mesh) {
  check_device(recipe.run.device);
  prepare_products(recipe);
  ModelPlace place =
      place_in(recipe.model, mesh, static_cast<int>(recipe.parallel.pipeline_chunks));
  place.overlap = recipe.parallel.overlap;
  auto model = initial_model(recipe, place);
  const at::Device device(recipe.run.device);
  if (!device.is_cpu()) model->to(device);
  model->train();
  model->recompute(recomputation_of(recipe, mesh.layout));
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
  recipe.model = recipe.model.resolved();  // checks keys that depend on the vocabulary
  return recipe;
}

std::shared_ptr<LanguageModel> initial_model(const Recipe& recipe, const ModelPlace& place) {
  if (recipe.train.init_from.empty())
    return make_model(recipe.model,
                      random_bits(static_cast<std::uint64_t>(recipe.train.seed), model_stream, 0),
                      place);
  auto whole = load_model(*open_model_source(recipe.train.init_from), recipe.model);
  const auto slices = model_slices(whole->config(), place.part);
  auto out = make_model(recipe.model, place);
  if (held_tensors(*out).size() == held_tensors(*whole).size() &&
      std::ranges::all_of(slices, [](const auto& item) { return item.second.whole(); }))
    return whole;
  const TensorMap tensors = held_tensors(*whole);
  const torch::NoGradGuard no_grad;
  for (auto& [name, part] : held_tensors(*out)) part.copy_(take(tensors.at(name), slices.at(name)));
  return out;
}

Trainer::Trainer(const Recipe& recipe, RunText text, dist::Mesh mesh)
    : recipe_(with_vocabulary(recipe, text.measured)),
      text_(std::move(text)),
      mesh_(std::move(mesh)),
      model_(build_model(recipe_, mesh_)),
      exchange_(*model_, mesh_),
      engine_(*model_, recipe_.train.optimizer, router_lr_scale(recipe_, *model_),
              gradient_sharing()) {
  const TrainConfig& train = recipe_.train;
  batches_ = std::make_shared<TrainingBatches>(
      text_.training,
      TrainingOptions{.sequence_length = train.sequence_length,
                      .batch_sequences = train.batch_sequences,
                      .seed = random_bits(static_cast<std::uint64_t>(train.seed), data_stream, 0),
                      .sampling = recipe_.data.sampling,
                      .isolate_documents = recipe_.data.isolate_documents});
}

GradientSharing Trainer::gradient_sharing() const {
  GradientSharing out = exchange_.sharing();
  out.tree = mesh_.world.size() > 1 || recipe_.train.gradient_sum == GradientOrder::tree;
  out.zero = static_cast<int>(recipe_.parallel.zero);
  // The gradients of a micro-batch are complete only once it is through all chunks.
  out.overlap = recipe_.parallel.overlap && model_->place().part.chunks() == 1;
  out.local = {.steps = recipe_.parallel.local_steps,
               .lr = recipe_.parallel.outer_lr,
               .momentum = recipe_.parallel.outer_momentum};
  return out;
}

std::size_t Trainer::parts() const {
  return static_cast<std::size_t>(recipe_.train.batch_sequences / recipe_.train.micro_batch);
}

PartRange Trainer::own_parts() const {
  return parts_of_rank(parts(), mesh_.data.rank(), mesh_.data.size());
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
                        .learning_rate = learning_rate(train.optimizer, step(), train.steps),
                        .precision = train.precision};
  if (!prefetcher_) start_prefetch();
  const Batch batch = prefetcher_->next();  // of this rank's micro-batches alone
  std::vector<Batch> micro_batches(parts());
  std::int64_t first = 0;
  for (std::size_t p = own_parts().first; p < own_parts().last; ++p, first += train.micro_batch)
    micro_batches[p] = batch.slice(first, train.micro_batch);
  LanguageWork work(*model_, std::move(micro_batches), text_.measured.token_bytes());
  try {
    StepOutcome out = engine_.advance(work, input, watch);
    if (!out.failure.empty()) prefetcher_.reset();  // it would give the batch of the next step
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
  PENSTOCK_ASSERT(whole_ || !exchange_.divided());
  return penstock::evaluate(whole_ ? *whole_ : *model_, text_.measured, options);
}

void Trainer::gather_whole() {
  PENSTOCK_ASSERT(!engine_.apart());  // layout_of() ensures it
  engine_.optimizer().gather_weights();
  if (!exchange_.divided()) return;
  const TensorMap tensors = exchange_.gather(held_tensors(*model_));
  if (mesh_.world.rank() > 0) return;
  const torch::NoGradGuard no_grad;
  whole_ = make_model(recipe_.model);
  for (auto& [name, tensor] : held_tensors(*whole_)) tensor.copy_(tensors.at(name));
}

std::map<std::string, at::Tensor> Trainer::model_tensors() {
  engine_.optimizer().gather_weights();
  if (engine_.apart()) {  // the model is the shared weights; each rank's own weights are state
    TensorMap shared = engine_.shared_weights();
    shared.merge(held_tensors(*model_));
    return file_views(model_->config(), shared);
  }
  if (!exchange_.divided()) return file_tensors(*model_);
  const TensorMap whole = exchange_.gather(held_tensors(*model_));
  return mesh_.world.rank() == 0 ? file_views(model_->config(), whole) : TensorMap();
}

/// Names the part of the model that this rank holds.
std::string Trainer::part_text() const {
  const ModelPart& part = model_->place().part;
  const int stage = coordinates_of(mesh_.layout, mesh_.world.rank()).pipeline;
  return concat(stage, ".", part.tensor, ".", part.expert);
}

std::map<std::string, at::Tensor> Trainer::optimizer_tensors() {
  engine_.optimizer().gather_weights();
  TensorMap all = engine_.tensors();
  if (mesh_.world.size() == 1) return all;
  if (!engine_.apart()) check_weights();
  TensorMap memory, moments;
  for (const auto& [name, value] : all)
    (name.starts_with("memory.") ? memory : moments)[name] = value;
  TensorMap out = exchange_.gather(moments, "m.");
  out.merge(exchange_.gather(moments, "v."));
  out.merge(exchange_.gather(moments, kOuterState));
  out.merge(gather_tensors(mesh_.data, memory));
  return out;
}

bool Trainer::divides_checkpoints() const {
  return mesh_.world.size() > 1 && recipe_.parallel.local_steps == 1 &&
         (exchange_.divided() || recipe_.parallel.zero > 0);
}

const std::vector<TensorShare>& Trainer::shares() {
  if (shares_.empty())
    shares_ = checkpoint_shares(model_->config(),
                                {.layout = mesh_.layout,
                                 .chunks = model_->place().part.chunks(),
                                 .zero = static_cast<int>(recipe_.parallel.zero),
                                 .trained = engine_.optimizer().sizes()},
                                dist::coordinates_of(mesh_.layout, mesh_.world.rank()).pipeline);
  return shares_;
}

HeldState Trainer::held_state() {
  const ModelConfig& config = model_->config();
  return {file_parts(penstock::model_tensors(config), config, model_->place().part),
          held_tensors(*model_), engine_.optimizer().pieces(), recipe_.train.optimizer};
}

std::int64_t Trainer::largest_share_bytes() {
  const std::int64_t of_trained = saved_bytes(recipe_.train.optimizer.moments);
  std::map<int, std::int64_t> bytes;
  for (const TensorShare& share : shares())
    bytes[share.owner] += share.trained ? share.numbers() / 3 * of_trained : 4 * share.numbers();
  std::int64_t out = 0;
  for (const auto& [rank, count] : bytes) out = std::max(out, count);
  return out;
}

/// Throws Error if ranks with the same part of the model have other weights. With zero = 3 there
/// may be no weights of layers between passes. One copy in shared memory cannot differ.
void Trainer::check_weights() {
  TensorMap compared;
  for (const auto& [name, tensor] : held_tensors(*model_))
    if (tensor.storage().nbytes() > 0 && !is_shared(tensor)) compared[name] = tensor;
  check_same_weights(mesh_.world, compared, part_text());
}

CheckpointShare Trainer::checkpoint_share() {
  check_weights();
  CheckpointShare out = exchange_shares(mesh_.world, shares(), held_state());
  out.optimizer.merge(engine_.memory_tensors());
  return out;
}

CheckpointShare Trainer::own_share() {
  return own_shares(mesh_.world.rank(), shares(), held_state());
}

void Trainer::restore_from_files(std::int64_t step, const std::map<std::string, at::Tensor>& model,
                                 const std::map<std::string, at::Tensor>& optimizer,
                                 const std::string& where) {
  PENSTOCK_ASSERT(recipe_.parallel.local_steps == 1);
  engine_.optimizer().gather_weights();
  const at::Tensor steps = at::full({1}, step, at::kLong);
  mesh_.world.broadcast(steps);
  TensorMap memory;
  for (const auto& [name, value] : optimizer)
    if (name.starts_with("memory.")) memory[name] = value;
  on_all_ranks(mesh_.world, [&] {
    check_file_tensors(model_->config(), model, where);
    held_state().load(model, moments_of_files(model_->config(), optimizer));
    return true;
  });
  engine_.restored(steps.item<std::int64_t>(), memory);
  prefetcher_.reset();
}

void Trainer::restore_whole(const std::map<std::string, at::Tensor>& model,
                            const std::string& where) {
  if (!exchange_.divided()) {
    const TensorMap all = broadcast_tensors(mesh_.world, model);
    on_all_ranks(mesh_.world, [&] {
      load_file_tensors(*model_, all, where);
      return true;
    });
    return;
  }
  const torch::NoGradGuard no_grad;
  // Rank 0 reports tensors that do not fit before the other ranks wait for tensors.
  const TensorMap whole = on_all_ranks(mesh_.world, [&] {
    if (mesh_.world.rank() > 0) return TensorMap();
    const auto loaded = make_model(recipe_.model);
    load_file_tensors(*loaded, model, where);
    return held_tensors(*loaded);
  });
  const TensorMap mine = exchange_.scatter(whole);
  for (auto& [name, tensor] : held_tensors(*model_)) tensor.copy_(mine.at(name));
}

void Trainer::restore(std::int64_t step, const std::map<std::string, at::Tensor>& model,
                      const std::map<std::string, at::Tensor>& given, const std::string& where) {
  if (mesh_.world.size() == 1 && recipe_.parallel.local_steps == 1)
    return restore_from_files(step, model, given, where);
  const TensorMap optimizer = moments_of_modules(model_->config(), given);
  engine_.optimizer().gather_weights();
  restore_whole(model, where);
  const at::Tensor steps = at::full({1}, step, at::kLong);
  mesh_.world.broadcast(steps);
  TensorMap memory;
  for (const auto& [name, value] : optimizer)
    if (name.starts_with("memory.")) memory[name] = value;
  TensorMap all = broadcast_tensors(mesh_.world, memory);
  all.merge(exchange_.scatter(optimizer, "m."));
  all.merge(exchange_.scatter(optimizer, "v."));
  for (const auto& [name, value] : optimizer)
    if (name.starts_with(kOuterState)) all[name] = value;
  const auto load = [&] {
    engine_.restore(steps.item<std::int64_t>(), all);
    return true;
  };
  if (engine_.apart())
    load();  // exchanges the state of ranks that train apart, and has them agree
  else
    on_all_ranks(mesh_.world, load);
  prefetcher_.reset();
}

}  // namespace penstock
