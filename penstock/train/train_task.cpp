#include "penstock/train/train_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/nonfinite.h"
#include "penstock/base/threads.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/ops/dispatch.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/train/follow.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/longer_run.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/ranks/shared_files.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_identity.h"
#include "penstock/train/run_record.h"
#include "penstock/train/step/product_precision.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

TrainTask::TrainTask(const Recipe& recipe, const TrainControl& control, const dist::Mesh& mesh)
    : threads_(ops::set_threads(threads_of_process(recipe, control.processes_here))),
      processes_here_(control.processes_here),
      peak_flops_(ops::measure_peak_flops(threads_, 0.2, recipe.train.precision)),
      available_(control.memory),
      trainer_(make_trainer(recipe, control, mesh, available_)),
      files_(checkpoint_files(trainer_.recipe(), trainer_.corpus())),
      leader_(control.group),
      group_(control.group) {
  check_evaluations();
}

double TrainTask::memory_left() const {
  if (!recipe().run.on_cpu()) return available_;
  return available_ - bytes_of_process(recipe(), processes_of_run(group_, processes_here_));
}

void TrainTask::meet_others() {
  check_same_beginning(group_, trainer_.recipe(), trainer_.text().content_hash());
  check_same_passes(group_, trainer_.layout(), trainer_.model().recomputed(), threads_);
  const at::Tensor peak = at::full({1}, peak_flops_, at::kDouble);
  group_.all_reduce(peak, dist::Reduction::sum);
  peak_flops_ = peak.item<double>();
  leader_.begin();
}

RunPlan TrainTask::plan() const {
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

std::vector<std::string> TrainTask::notes() const {
  std::vector<std::string> out = recipe().notes;
  if (const std::string note = initial_tokenizer_note(recipe()); !note.empty()) out.push_back(note);
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

std::string TrainTask::config_text() const { return to_toml(written_out(recipe())); }

std::int64_t TrainTask::check_same_run(const std::string& directory) const {
  Recipe begun = recorded_recipe(directory + "/config.toml");
  if (group_.size() > 1) begun.train.gradient_sum = recipe().train.gradient_sum;  // a note says so
  return check_continues(directory, begun, recipe());
}

StepOutcome TrainTask::advance(const StepWatch& watch) {
  return leader_.together(Order::step, [&] { return trainer_.advance(watch); });
}

MachineRecord TrainTask::machine() const {
  MachineRecord out = machine_record(trainer_.model(), threads_, peak_flops_);
  out.ranks = group_.size();
  return out;
}

CheckpointContents TrainTask::contents() {
  return leader_.together(Order::gather, [&] {
    TensorMap model = trainer_.model_tensors();
    return contents_with(std::move(model), trainer_.optimizer_tensors());
  });
}

Writers TrainTask::writers(const fs::path& checkpoints, FileSystem& files) {
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

CheckpointContents TrainTask::piece(const PieceOrder& order) {
  const std::string text = nlohmann::json{{"directory", fs::absolute(order.directory).string()},
                                          {"step", order.step},
                                          {"waits", order.training == Training::waits}}
                               .dump();
  CheckpointShare share =
      leader_.together(Order::save, text, [&] { return trainer_.checkpoint_share(); });
  return contents_with(std::move(share.model), std::move(share.optimizer));
}

CheckpointContents TrainTask::to_copy() {
  if (same_files_) {
    leader_.give(Order::room);  // no rank waits for another in it
    CheckpointShare share = trainer_.own_share();
    return contents_with(std::move(share.model), std::move(share.optimizer));
  }
  // Rank 0 owns the tensors that it gathers, so they are not copied.
  return trainer_.divides_checkpoints() ? CheckpointContents{} : contents();
}

void TrainTask::await_pieces(ReportedPieces& reported) {
  const std::vector<std::string> texts = leader_.together(Order::saved, [&] {
    while (!all_done(group_, true)) continue;
    check_none_failed(group_, nullptr);
    return group_.gather("");
  });
  for (int rank = 1; rank < group_.size(); ++rank)
    reported.put(rank, parse_piece(texts[static_cast<std::size_t>(rank)], group_.name(rank)));
}

void TrainTask::restore(const CheckpointInfo& info, const CheckpointContents& contents) {
  const std::string where = info.directory.string();
  PENSTOCK_CHECK(contents.trainer.value("corpus_hash", "") == trainer_.text().content_hash(), where,
                 ": was trained on another corpus than ", recipe().data.corpus);
  const std::string shared = same_files_ ? fs::absolute(info.directory).string() : "";
  leader_.together(Order::restore, shared, [&] {
    if (!same_files_) return trainer_.restore(info.step, contents.model, contents.optimizer, where);
    check_none_failed(group_, nullptr);  // in opening the checkpoint
    trainer_.restore_from_files(info.step, contents.model, contents.optimizer, where);
  });
}

std::optional<Measured> TrainTask::measure(nlohmann::ordered_json& line,
                                           const MeasureWatch& watch) {
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

nlohmann::ordered_json TrainTask::result(const std::vector<nlohmann::ordered_json>& lines,
                                         CheckpointStore&, const MeasureWatch& watch) {
  leader_.together(Order::gather_whole, [&] { trainer_.gather_whole(); });
  const nlohmann::ordered_json validation = final_evaluation(Split::kValidation, watch);
  nlohmann::ordered_json out = finished_record(recipe(), lines, machine());
  out["validation"] = validation;
  out["test"] = final_evaluation(Split::kTest, watch);
  return out;
}

std::string TrainTask::summary(const nlohmann::ordered_json& result) const {
  const nlohmann::ordered_json& validation = result.at("validation");
  if (validation.is_null()) return "no validation: the corpus has no held-out text";
  return fmt::format("validation loss {:.4f} nats, {:.4f} bits per byte",
                     plain_nan(validation["loss"].get<double>()),
                     plain_nan(validation["bits_per_byte"].get<double>()));
}

CheckpointContents TrainTask::contents_with(TensorMap model, TensorMap optimizer) const {
  CheckpointContents out{
      .model = std::move(model),
      .config_json = config_json_text(recipe().model),
      .files = files_,
      .optimizer = std::move(optimizer),
      .trainer = {{"seed", recipe().train.seed}, {"corpus_hash", trainer_.text().content_hash()}}};
  if (recipe().run.on_cpu()) record_product_unit(recipe().train.precision, out.trainer);
  return out;
}

/// Throws now where the run's first evaluation would throw, before the run has cost anything.
void TrainTask::check_evaluations() const {
  const TrainConfig& train = recipe().train;
  if (train.evaluation.streams == 0) return;
  const std::int64_t segment = recipe().model.traits().segment_length;
  PENSTOCK_CHECK(train.evaluation.sequence_length % segment == 0,
                 "train.eval_sequence_length = ", train.evaluation.sequence_length,
                 " is not a multiple of the router's segment_length = ", segment,
                 ", as train.eval_streams needs; give a multiple, or train.eval_streams = 0");
  for (const Split split : {Split::kValidation, Split::kTest})
    if (has_split(split))
      EvaluationStreams(trainer_.corpus(), split,
                        {.sequence_length = train.evaluation.sequence_length,
                         .batch_sequences = train.micro_batch,
                         .streams = train.evaluation.streams});
}

nlohmann::ordered_json TrainTask::final_evaluation(Split split, const MeasureWatch& watch) {
  if (!has_split(split)) return nullptr;
  return to_json(
      trainer_.evaluate(split, recipe().train.final_eval_tokens, watching(split, watch)));
}

std::function<void(double, const LossTotals&)> TrainTask::watching(Split split,
                                                                   const MeasureWatch& watch) {
  return [this, split, &watch](double done, const LossTotals& totals) {
    leader_.keep_waiting();
    watch([&] {
      return fmt::format("evaluating {} {:3.0f}%  loss {:.4f}", split_name(split), 100 * done,
                         plain_nan(totals.loss()));
    });
  };
}

}  // namespace penstock
