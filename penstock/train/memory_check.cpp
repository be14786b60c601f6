#include "penstock/train/memory_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/number_text.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/routers/resolve.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/layouts/rank_estimate.h"

namespace penstock {
namespace {

constexpr double kMebibyte = 1 << 20, kGibibyte = 1 << 30;

bool fits(const Recipe& recipe, double available, const RunProcesses& processes) {
  return bytes_of_process(recipe, processes) <= available &&
         bytes_to_divide(recipe, processes) <= available;
}

/// Whether the processes hold one copy of the weights if they can share memory.
bool one_copy(const Recipe& recipe, const RunProcesses& processes) {
  return recipe.parallel.zero > 0 && processes.here >= processes.all &&
         layout_of(recipe, processes.all).data > 1;
}

/// An estimate for processes that share memory with those of their machine. Its choice of what is
/// computed again is not that of the run.
RankEstimate sharing_estimate(const Recipe& recipe, const RunProcesses& processes) {
  return estimate_rank(recipe, layout_of(recipe, processes.all),
                       {.node_ranks = processes.here, .shared_memory = true});
}

/// The tensors of training of one process. The activations are those of memory_of_training():
/// processes choose what they compute again before they know whether they share memory.
TrainingMemory tensors_of(const TrainingMemory& training, const RankEstimate& sharing) {
  TrainingMemory out = sharing.memory;
  out.activation_bytes = training.activation_bytes;
  return out;
}

/// A value of train.memory_budget with which training fits, if computing layers again can meet it;
/// "" if it cannot. The budget covers memory_of_training() alone.
std::string budget_that_fits(Recipe recipe, double available, const RunProcesses& processes) {
  const double besides = bytes_of_process(recipe, processes) -
                         static_cast<double>(memory_of_training(recipe, processes.all).total());
  const double left = std::floor((available - besides) / kMebibyte);
  if (left < 1) return "";
  recipe.train.memory_budget = fmt::format("{:.0f} MiB", left);
  const bool fits = count_training(recipe, processes.all).recomputation.fits;
  return fits ? recipe.train.memory_budget : "";
}

/// Says what to change so that the activations fit. Changes that affect a run least come first.
std::string remedy(Recipe recipe, double available, const RunProcesses& processes) {
  TrainConfig& train = recipe.train;
  if (recipe.model.moe_layers() > 0 && !train.recompute_experts) {
    train.recompute_experts = true;
    if (fits(recipe, available, processes)) return "set train.recompute_experts = true";
    train.recompute_experts = false;
  }
  if (const std::string budget = budget_that_fits(recipe, available, processes); !budget.empty())
    return concat("set train.memory_budget = \"", budget, "\"");
  const std::int64_t micro_batch = train.micro_batch;
  for (std::int64_t rows = micro_batch - 1; rows > 0; --rows) {
    if (train.batch_sequences % rows != 0) continue;
    train.micro_batch = rows;
    if (fits(recipe, available, processes))
      return fmt::format("lower train.micro_batch to {}", rows);
  }
  const bool cut = train.micro_batch < micro_batch;
  while (train.sequence_length > 1 && !fits(recipe, available, processes))
    train.sequence_length /= 2;
  if (!fits(recipe, available, processes)) return "make the model smaller";
  return fmt::format("lower train.sequence_length to {}{}", train.sequence_length,
                     cut ? " and train.micro_batch to 1" : "");
}

}  // namespace

std::string memory_text(const TrainingMemory& memory) {
  const auto total = static_cast<double>(memory.total());
  const double unit = total < kMebibyte ? 1 << 10 : total < kGibibyte ? kMebibyte : kGibibyte;
  const auto part = [&](std::int64_t bytes) {
    return fmt::format("{:.{}f}", static_cast<double>(bytes) / unit, unit < kGibibyte ? 0 : 1);
  };
  return fmt::format("{} (weights {}, gradients {}, AdamW {}, activations about {})",
                     size_text(total), part(memory.parameter_bytes), part(memory.gradient_bytes),
                     part(memory.optimizer_bytes), part(memory.activation_bytes));
}

CountedTraining count_training(const Recipe& recipe, const dist::Layout& layout) {
  const TrainConfig& train = recipe.train;
  if (layout.ranks() > 1 || train.gradient_sum == GradientOrder::tree) {
    const RankEstimate rank = estimate_rank(recipe, layout);
    return {rank.memory, rank.recomputation};
  }
  const TrainingPass pass{.micro_batch = train.micro_batch,
                          .sequence_length = train.sequence_length,
                          .precision = train.precision,
                          .moment_bytes = moment_bytes(train.optimizer.moments)};
  CountedTraining out{training_memory(recipe.model, pass)};
  // Outer steps keep weights and momentum of their own.
  if (recipe.parallel.local_steps > 1) out.memory.optimizer_bytes += 2 * out.memory.gradient_bytes;
  out.memory.activation_bytes = 0;
  out.recomputation = choose_recomputation(recipe, ActivationCount(recipe.model, pass),
                                           {.others = static_cast<double>(out.memory.total())});
  out.memory.activation_bytes = std::llround(out.recomputation.activation_bytes);
  return out;
}

CountedTraining count_training(const Recipe& recipe, int processes) {
  return count_training(recipe, processes > 1 ? layout_of(recipe, processes) : dist::Layout());
}

TrainingMemory memory_of_training(const Recipe& recipe, int processes) {
  return count_training(recipe, processes).memory;
}

Recomputation recomputation_of(const Recipe& recipe, const dist::Layout& layout) {
  RecomputeChoice choice = count_training(recipe, layout).recomputation;
  check_memory_budget(recipe, choice);
  return std::move(choice.layers);
}

TrainingMemory memory_of_process(const Recipe& recipe, const RunProcesses& processes) {
  const TrainingMemory training = memory_of_training(recipe, processes.all);
  if (processes.all == 1) return training;
  return tensors_of(training, sharing_estimate(recipe, processes));
}

double bytes_of_process(const Recipe& recipe, const RunProcesses& processes) {
  const TrainingMemory training = memory_of_training(recipe, processes.all);
  if (processes.all == 1) return static_cast<double>(training.total());
  const RankEstimate rank = sharing_estimate(recipe, processes);
  const auto total = static_cast<double>(tensors_of(training, rank).total());
  const auto piece = static_cast<double>(rank.checkpoint_bytes);
  // Memory that rank 0 alone takes. The other ranks of its machine leave their shares to it.
  double of_first = static_cast<double>(rank.evaluation_bytes);
  const bool alone = recipe.parallel.local_steps > 1;
  if (alone) of_first += piece;
  return total + static_cast<double>(rank.exchange_bytes) + (alone ? 0 : piece) +
         (processes.first ? of_first / processes.here : 0);
}

double bytes_to_divide(const Recipe& recipe, const RunProcesses& processes) {
  const bool divides =
      recipe.parallel.zero > 0 && processes.all > 1 && layout_of(recipe, processes.all).data > 1;
  if (!divides || (recipe.parallel.zero < 3 && !one_copy(recipe, processes))) return 0;
  Recipe whole = recipe;
  whole.parallel.zero = 0;
  const auto moments = static_cast<double>(memory_of_process(recipe, processes).optimizer_bytes);
  // Both moments of a rank's spans, and the fp32 weights of the spans.
  const auto two = static_cast<double>(2 * moment_bytes(recipe.train.optimizer.moments));
  return static_cast<double>(memory_of_training(whole, processes.all).parameter_bytes) + moments +
         4 * moments / two;
}

namespace {

/// The keys that set the larger part of a model's parameters.
std::string largest_part(const ModelConfig& model) {
  const ParameterCounts counts = count_parameters(model);
  const std::int64_t half = (counts.total + counts.frozen) / 2,
                     scorers = counts.router + counts.frozen;
  const std::int64_t idle = counts.total - counts.active;  // experts that a token does not use
  if (scorers > half) return concat("model.router.", resolve(model.router).scorer);
  if (counts.embedding > half) return concat("model.vocab = ", model.vocab);
  if (idle > half)
    return concat("model.moe.experts = ", model.moe.experts, ", model.d_ffn = ", model.d_ffn);
  return concat("model.d_model = ", model.d_model, ", model.layers = ", model.layers);
}

}  // namespace

void check_training_memory(const Recipe& recipe, double available, const RunProcesses& processes) {
  const double bytes = bytes_of_process(recipe, processes);
  const double at_first = bytes_to_divide(recipe, processes);
  PENSTOCK_CHECK(at_first <= available, largest_part(recipe.model), ": each process takes ",
                 size_text(at_first),
                 " to make its whole weights and to divide them, and this machine has ",
                 size_text(available),
                 " free for each; make the model smaller, start fewer processes, or try it all the "
                 "same with options.force");
  if (bytes <= available) return;
  const TrainingMemory memory = memory_of_process(recipe, processes);
  const double besides = bytes - static_cast<double>(memory.total());
  // Whether the memory that does not depend on the tokens of a pass is too much by itself.
  const bool model = bytes - static_cast<double>(memory.activation_bytes) > available;
  const std::string keys =
      model ? largest_part(recipe.model)
            : fmt::format("train.sequence_length = {}, train.micro_batch = {}",
                          recipe.train.sequence_length, recipe.train.micro_batch);
  const std::string of_process =
      concat(processes.all == 1 ? "" : " of each process",
             one_copy(recipe, processes) ? ", which share one copy of the weights" : "");
  const std::string more = besides > 0 ? concat(", with ", size_text(besides),
                                                " more to exchange, to save and to evaluate")
                                       : "";
  fail(keys, ": training takes ", memory_text(memory), of_process, more, " and this machine has ",
       size_text(available), " free", processes.here > 1 ? " for each" : "", "; ",
       model ? "make the model smaller" : remedy(recipe, available, processes),
       " (`penstock info` counts), or try it all the same with options.force");
}

std::int64_t checkpoint_bytes(const Recipe& recipe) {
  const ParameterCounts counts = count_parameters(recipe.model);
  return saved_bytes(recipe.train.optimizer.moments) * counts.total + 4 * counts.frozen;
}

std::int64_t checkpoint_copy_bytes(const Recipe& recipe) {
  if (recipe.parallel.local_steps > 1) return 0;  // saving gathers the moments of all ranks
  const TrainConfig& train = recipe.train;
  const bool on_the_way =
      (train.checkpoint_every > 0 && train.checkpoint_every < train.steps) ||
      (train.keep_best && train.eval_every > 0 && train.eval_every < train.steps);
  return recipe.run.background_checkpoints && on_the_way ? checkpoint_bytes(recipe) : 0;
}

std::string why_training_waits(std::int64_t copy, double left) {
  if (copy == 0 || static_cast<double>(copy) <= left) return "";
  return fmt::format(
      "training waits while checkpoints are written: a copy to write them from takes {} and "
      "training leaves {}",
      size_text(static_cast<double>(copy)), size_text(std::max(left, 0.0)));
}

}  // namespace penstock
