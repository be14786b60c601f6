// A training as a task of the run loop: recipe, corpus and machine; validations, test,
// finished.json.
#include "penstock/train/run.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/failure_text.h"
#include "penstock/base/memory.h"
#include "penstock/base/nonfinite.h"
#include "penstock/base/threads.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/train/follow.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/longer_run.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/ranks/orders.h"
#include "penstock/train/ranks/shared_files.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_identity.h"
#include "penstock/train/run_loop.h"
#include "penstock/train/run_record.h"
#include "penstock/train/step/product_precision.h"
#include "penstock/train/trainer.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The recipe on rank 0, which sees the directory. A run that goes on keeps some settings of its
/// beginning.
Recipe recipe_of(const ConfigNode& node, const std::string& directory, bool resume, int processes) {
  const std::string path = directory + "/config.toml";
  Recipe recipe = with_initial_hash(read_recipe(node));
  layout_of(recipe, processes);
  std::optional<Recipe> begun;
  if (resume && fs::exists(path)) begun = recorded_recipe(path);
  if (begun) recipe = with_warm_up_of(*begun, std::move(recipe), node);
  choose_gradient_sum(recipe, begun ? &*begun : nullptr, processes);
  return recipe;
}

/// The same recipe on every rank. Ranks other than 0 need not see the directory.
Recipe recipe_on_ranks(const ConfigNode& node, const std::string& directory,
                       const TrainControl& control) {
  const dist::ProcessGroup& group = control.group;
  Recipe recipe = on_all_ranks(group, [&] {
    return naming_origins(node, [&] {
      return group.rank() == 0 ? recipe_of(node, directory, control.resume, group.size())
                               : with_initial_hash(read_recipe(node));
    });
  });
  TrainConfig& train = recipe.train;
  const at::Tensor chosen = torch::tensor(
      {train.optimizer.warmup_steps, static_cast<std::int64_t>(train.gradient_sum)}, at::kLong);
  group.broadcast(chosen);
  train.optimizer.warmup_steps = chosen[0].item<std::int64_t>();
  train.gradient_sum = static_cast<GradientOrder>(chosen[1].item<std::int64_t>());
  return recipe;
}

RunProcesses processes_of_run(const dist::ProcessGroup& group, int here) {
  return {.all = group.size(), .here = std::min(here, group.size()), .first = group.rank() == 0};
}

/// Refuses a model that this machine cannot hold, because the system would later kill the process.
Trainer make_trainer(const Recipe& given, const TrainControl& control, const dist::Mesh& mesh,
                     double available) {
  RunText text = open_text(given.data, /*verify=*/true);
  const Recipe recipe = with_vocabulary(given, text.measured);
  if (!control.force && recipe.run.on_cpu())
    check_training_memory(recipe, available,
                          processes_of_run(control.group, control.processes_here));
  return Trainer(recipe, std::move(text), mesh);
}

class TrainTask : public RunTask {
 public:
  TrainTask(const Recipe& recipe, const TrainControl& control, const dist::Mesh& mesh)
      : threads_(ops::set_threads(threads_of_process(recipe, control.processes_here))),
        processes_here_(control.processes_here),
        peak_flops_(ops::measure_peak_flops(threads_, 0.2, recipe.train.precision)),
        available_(control.memory > 0 ? control.memory
                                      : available_memory_bytes() / processes_here_),
        trainer_(make_trainer(recipe, control, mesh, available_)),
        leader_(control.group),
        group_(control.group) {
    check_evaluations();
  }

  Trainer& trainer() { return trainer_; }
  Leader& leader() { return leader_; }
  /// Bytes of memory that training leaves, by bytes_of_process().
  double memory_left() const {
    if (!recipe().run.on_cpu()) return available_;
    return available_ - bytes_of_process(recipe(), processes_of_run(group_, processes_here_));
  }

  /// Call it after all ranks have made their tasks.
  void meet_others() {
    check_same_beginning(group_, trainer_.recipe(), trainer_.text().content_hash());
    const at::Tensor peak = at::full({1}, peak_flops_, at::kDouble);
    group_.all_reduce(peak, dist::Reduction::sum);
    peak_flops_ = peak.item<double>();
    leader_.begin();
  }

  RunPlan plan() const override {
    const TrainConfig& train = recipe().train;
    return {.steps = train.steps,
            .measure_every = train.eval_every,
            .measure_first = train.eval_every > 0,
            .checkpoint_every = train.checkpoint_every,
            .copy_bytes = checkpoint_copy_bytes(recipe()),
            .memory_left = memory_left(),
            .checkpoints = {.keep_last = train.keep_last, .keep_best = train.keep_best},
            .tensorboard = recipe().run.tensorboard,
            .settings = {.clip = train.optimizer.clip,
                         .steered_experts = steered_experts(recipe().model)},
            .result_file = "finished.json"};
  }

  std::vector<std::string> notes() const override {
    std::vector<std::string> out = recipe().notes;
    if (const std::string& budget = recipe().train.memory_budget; !budget.empty())
      out.push_back(
          concat("train.memory_budget = \"", budget, "\": computed again in the backward pass: ",
                 recomputation_text(count_training(recipe(), group_.size()).recomputation)));
    const int cores = physical_cores(), threads = threads_ * processes_here_;
    const char* of_cores = cores == 1 ? "core" : "cores";
    if (processes_here_ > 1 && threads > cores)
      out.push_back(fmt::format("{} processes of {} {} on {} {}: they wait for each other",
                                processes_here_, threads_, threads_ == 1 ? "thread" : "threads",
                                cores, of_cores));
    else if (threads > 2 * cores)
      out.push_back(fmt::format("run.threads = {} on {} {}: so many threads wait for each other",
                                threads, cores, of_cores));
    return out;
  }

  std::string config_text() const override { return to_toml(written_out(recipe())); }

  std::int64_t check_same_run(const std::string& directory) const override {
    Recipe begun = recorded_recipe(directory + "/config.toml");
    if (group_.size() > 1)
      begun.train.gradient_sum = recipe().train.gradient_sum;  // a note says so
    return check_continues(directory, begun, recipe());
  }

  std::int64_t step() const override { return trainer_.step(); }
  StepOutcome advance(const StepWatch& watch) override {
    return leader_.together(Order::step, [&] { return trainer_.advance(watch); });
  }

  MachineRecord machine() const override {
    MachineRecord out = machine_record(trainer_.model(), threads_, peak_flops_);
    out.ranks = group_.size();
    return out;
  }

  CheckpointContents contents() override {
    return leader_.together(Order::gather, [&] {
      TensorMap model = trainer_.model_tensors();
      return contents_with(std::move(model), trainer_.optimizer_tensors());
    });
  }

  Writers writers(const fs::path& checkpoints, FileSystem& files) override {
    if (!trainer_.divides_checkpoints()) return {};
    return leader_.together(Order::meet, [&]() -> Writers {
      const std::string without = first_rank_without(group_, checkpoints, files);
      if (!without.empty())
        return {.note = concat(without, " cannot write to ", fs::absolute(checkpoints).string(),
                               ": rank 0 gathers the whole model and its moments to save them")};
      same_files_ = true;
      const PieceRoom room = agree_on_room(trainer_, group_, memory_left());
      return {.ranks = group_.size(),
              .copy_bytes = checkpoint_copy_bytes(recipe()) > 0 ? room.piece : 0,
              .memory_left = room.left};
    });
  }

  CheckpointContents piece(const PieceOrder& order) override {
    const std::string text = nlohmann::json{{"directory", fs::absolute(order.directory).string()},
                                            {"step", order.step},
                                            {"waits", order.training == Training::waits}}
                                 .dump();
    CheckpointShare share =
        leader_.together(Order::save, text, [&] { return trainer_.checkpoint_share(); });
    return contents_with(std::move(share.model), std::move(share.optimizer));
  }

  CheckpointContents to_copy() override {
    if (same_files_) {
      leader_.give(Order::room);  // no rank waits for another in it
      CheckpointShare share = trainer_.own_share();
      return contents_with(std::move(share.model), std::move(share.optimizer));
    }
    // Rank 0 owns the tensors that it gathers, so they are not copied.
    return trainer_.divides_checkpoints() ? CheckpointContents{} : contents();
  }

  void await_pieces(ToldPieces& told) override {
    const std::vector<std::string> texts = leader_.together(Order::saved, [&] {
      check_none_failed(group_, nullptr);
      return group_.gather("");
    });
    for (int rank = 1; rank < group_.size(); ++rank)
      told.put(rank, parse_piece(texts[static_cast<std::size_t>(rank)], group_.name(rank)));
  }

  void restore(const CheckpointInfo& info, const CheckpointContents& contents) override {
    const std::string where = info.directory.string();
    PENSTOCK_CHECK(contents.trainer.value("corpus_hash", "") == trainer_.text().content_hash(),
                   where, ": was trained on another corpus than ", recipe().data.corpus);
    const std::string shared = same_files_ ? fs::absolute(info.directory).string() : "";
    leader_.together(Order::restore, shared, [&] {
      if (!same_files_)
        return trainer_.restore(info.step, contents.model, contents.optimizer, where);
      check_none_failed(group_, nullptr);  // in opening the checkpoint
      trainer_.restore_from_files(info.step, contents.model, contents.optimizer, where);
    });
  }

  std::optional<Measured> measure(nlohmann::ordered_json& line,
                                  const MeasureWatch& watch) override {
    if (!has_split(Split::kValidation)) return std::nullopt;
    const TrainConfig& train = recipe().train;
    leader_.together(Order::gather_whole, [&] { trainer_.gather_whole(); });
    const Evaluation validation = trainer_.evaluate(
        Split::kValidation, train.eval_tokens, watching(Split::kValidation, watch), train.eval_k);
    trainer_.let_go_of_whole();
    line["validation"] = to_json(validation);
    if (train.eval_k > 0) line["validation"]["k"] = train.eval_k;
    const double loss = validation.total.loss();
    return Measured{.loss = loss, .shown = fmt::format("valid {:.4f}", plain_nan(loss))};
  }

  nlohmann::ordered_json result(const std::vector<nlohmann::ordered_json>& lines, CheckpointStore&,
                                const MeasureWatch& watch) override {
    leader_.together(Order::gather_whole, [&] { trainer_.gather_whole(); });
    const nlohmann::ordered_json validation = final_evaluation(Split::kValidation, watch);
    nlohmann::ordered_json out = finished_record(recipe(), lines, machine());
    out["validation"] = validation;
    out["test"] = final_evaluation(Split::kTest, watch);
    return out;
  }

  std::string summary(const nlohmann::ordered_json& result) const override {
    const nlohmann::ordered_json& validation = result.at("validation");
    if (validation.is_null()) return "no validation: the corpus has no held-out text";
    return fmt::format("validation loss {:.4f} nats, {:.4f} bits per byte",
                       plain_nan(validation["loss"].get<double>()),
                       plain_nan(validation["bits_per_byte"].get<double>()));
  }

 private:
  /// The recipe, with the corpus's vocabulary.
  const Recipe& recipe() const { return trainer_.recipe(); }

  CheckpointContents contents_with(TensorMap model, TensorMap optimizer) const {
    CheckpointContents out{.model = std::move(model),
                           .config_json = config_json_text(recipe().model),
                           .files = trainer_.corpus().tokenizer().files(),
                           .optimizer = std::move(optimizer),
                           .trainer = {{"seed", recipe().train.seed},
                                       {"corpus_hash", trainer_.text().content_hash()}}};
    if (recipe().run.on_cpu()) record_product_unit(recipe().train.precision, out.trainer);
    return out;
  }

  bool has_split(Split split) const { return trainer_.corpus().count(split).tokens > 1; }

  /// Throws now where the run's first evaluation would throw, before the run has cost anything.
  void check_evaluations() const {
    const TrainConfig& train = recipe().train;
    if (train.evaluation.streams == 0) return;
    for (const Split split : {Split::kValidation, Split::kTest})
      if (has_split(split))
        EvaluationStreams(trainer_.corpus(), split,
                          {.sequence_length = train.evaluation.sequence_length,
                           .batch_sequences = train.micro_batch,
                           .streams = train.evaluation.streams});
  }

  nlohmann::ordered_json final_evaluation(Split split, const MeasureWatch& watch) {
    if (!has_split(split)) return nullptr;
    return to_json(
        trainer_.evaluate(split, recipe().train.final_eval_tokens, watching(split, watch)));
  }

  std::function<void(double, const LossTotals&)> watching(Split split, const MeasureWatch& watch) {
    return [this, split, &watch](double done, const LossTotals& totals) {
      leader_.keep_waiting();
      watch([&] {
        return fmt::format("evaluating {} {:3.0f}%  loss {:.4f}", split_name(split), 100 * done,
                           plain_nan(totals.loss()));
      });
    };
  }

  int threads_, processes_here_;
  double peak_flops_;
  double available_;  // bytes, before the model is there
  Trainer trainer_;
  Leader leader_;
  dist::ProcessGroup group_;
  bool same_files_ = false;  // all ranks see the run's files
};

/// This rank's task, once all ranks have made theirs and the tasks agree.
std::unique_ptr<TrainTask> make_task(const ConfigNode& node, const std::string& directory,
                                     const TrainControl& control) {
  const Recipe recipe = recipe_on_ranks(node, directory, control);
  const dist::Layout layout =
      on_all_ranks(control.group, [&] { return layout_of(recipe, control.group.size()); });
  check_same_layout(control.group, layout, recipe.parallel);
  const dist::Mesh mesh = make_mesh(control.group, layout);
  // A recipe that does not fit the corpus or the machine is a mistake in the recipe too.
  auto task = on_all_ranks(control.group, [&] {
    return naming_origins(node, [&] { return std::make_unique<TrainTask>(recipe, control, mesh); });
  });
  task->meet_others();
  return task;
}

}  // namespace

RunOutcome train_run(const ConfigNode& node, const std::string& run_directory,
                     const TrainControl& control) {
  ops::restart_peak_memory();  // a study's runs share a process
  const auto task = make_task(node, run_directory, control);
  try {
    if (control.group.rank() > 0)
      return follow(task->trainer(), control.group,
                    control.files ? *control.files : real_file_system(), task->memory_left());
    const RunOutcome outcome = run_task(*task, run_directory, control);
    task->leader().end(outcome);
    return outcome;
  } catch (const FailureOfRank& failed) {
    throw FailureOfRank(concat(failed.what(), "; the last complete step was ", task->step()));
  } catch (const dist::FailedRank& failed) {
    throw dist::FailedRank(failed, concat("; the last complete step was ", task->step()));
  } catch (const dist::LostRank& lost) {
    throw dist::LostRank(concat(lost.what(), "; the last complete step was ", task->step()));
  } catch (const std::exception& error) {
    if (control.group.size() == 1 || !memory_ran_out(error)) throw;
    throw FailureOfRank(concat(control.group.name(), ": ", failure_text(error),
                               "; the last complete step was ", task->step()));
  }
}

}  // namespace penstock
