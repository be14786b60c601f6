#include "penstock/train/trainer.h"

#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/optim/schedule.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/ranks/shared_optimizer.h"
#include "penstock/train/seed_streams.h"
#include "penstock/train/step/language_work.h"
#include "penstock/train/step/product_precision.h"

namespace penstock {
namespace {

void check_device(const std::string& name) {
  try {
    const at::Device device(name);
    // The processor has one name: with another, "cpu:0", memory would not be counted.
    const bool there = device.is_cuda()
                           ? torch::cuda::is_available() &&
                                 device.index() < static_cast<int>(torch::cuda::device_count())
                           : name == "cpu";
    PENSTOCK_CHECK(there, "run.device = '", name, "': this libtorch sees no such device; use cpu");
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
      text_.training, TrainingOptions{.sequence_length = train.sequence_length,
                                      .batch_sequences = train.batch_sequences,
                                      .seed = seed_bits(train, SeedStream::data),
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
  return {.step = step(), .total_steps = recipe_.train.steps};
}

StepOutcome Trainer::advance(const StepWatch& watch) {
  const TrainConfig& train = recipe_.train;
  const StepInput input{.total_steps = train.steps,
                        .draw_seed = seed_bits(train, SeedStream::routers, step()),
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

}  // namespace penstock
