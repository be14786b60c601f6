// The trainer's state as tensors: makes the tensors of a checkpoint, and continues from them.
#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/train/checkpoints/moment_names.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/ranks/outer_optimizer.h"
#include "penstock/train/ranks/shared_optimizer.h"
#include "penstock/train/ranks/shared_weights.h"
#include "penstock/train/ranks/tensor_exchange.h"
#include "penstock/train/trainer.h"

namespace penstock {
namespace {

constexpr const char* kMemory = "memory.";  // begins the names of a model's memory

TensorMap memory_in(const TensorMap& tensors) {
  TensorMap out;
  for (const auto& [name, value] : tensors)
    if (name.starts_with(kMemory)) out[name] = value;
  return out;
}

std::int64_t step_of_rank_0(const dist::ProcessGroup& world, std::int64_t step) {
  const at::Tensor steps = at::full({1}, step, at::kLong);
  world.broadcast(steps);
  return steps.item<std::int64_t>();
}

}  // namespace

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

std::map<std::string, at::Tensor> Trainer::optimizer_tensors() {
  engine_.optimizer().gather_weights();
  TensorMap all = engine_.tensors();
  if (mesh_.world.size() == 1) return all;
  if (!engine_.apart()) check_weights();
  TensorMap memory, moments;
  for (const auto& [name, value] : all)
    (name.starts_with(kMemory) ? memory : moments)[name] = value;
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

/// Throws Error if ranks that hold the same slice of a tensor have other numbers there. With zero =
/// 3 there may be no weights of layers between passes. One copy in shared memory is compared by one
/// of its ranks, because its other ranks cannot differ.
void Trainer::check_weights() {
  std::vector<HeldWeights> compared;
  for (const auto& [name, tensor] : held_tensors(*model_)) {
    if (tensor.storage().nbytes() == 0) continue;
    if (is_shared(tensor) && !exchange_.first_of_copies(name)) continue;
    compared.push_back({name, exchange_.slice_of(name, tensor), tensor});
  }
  check_same_weights(mesh_.world, compared);
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
  step = step_of_rank_0(mesh_.world, step);
  on_all_ranks(mesh_.world, [&] {
    check_file_tensors(model_->config(), model, where);
    held_state().load(model, moments_of_files(model_->config(), optimizer));
    return true;
  });
  engine_.restored(step, memory_in(optimizer));
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
  step = step_of_rank_0(mesh_.world, step);
  TensorMap all = broadcast_tensors(mesh_.world, memory_in(optimizer));
  all.merge(exchange_.scatter(optimizer, "m."));
  all.merge(exchange_.scatter(optimizer, "v."));
  for (const auto& [name, value] : optimizer)
    if (name.starts_with(kOuterState)) all[name] = value;
  const auto load = [&] {
    engine_.restore(step, all);
    return true;
  };
  if (engine_.apart())
    load();  // exchanges the state of ranks that train apart, and has them agree
  else
    on_all_ranks(mesh_.world, load);
  prefetcher_.reset();
}

}  // namespace penstock
