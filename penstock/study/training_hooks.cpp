// Connects a study to the trainer, the FLOPs of models and the corpus.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "penstock/base/config_origin.h"
#include "penstock/base/memory.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/eval/ngram.h"
#include "penstock/io/toml.h"
#include "penstock/models/files/content_hash.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/study/runs/start_model.h"
#include "penstock/study/study_hooks.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run.h"
#include "penstock/train/run_text.h"
#include "penstock/train/scheduled_flops.h"

namespace penstock::study {
namespace {

double flops_per_step(const ConfigNode& resolved) {
  Recipe recipe = read_recipe(resolved);
  if (recipe.model.vocab == 0) recipe.model.vocab = Corpus::open(recipe.data.corpus).vocab_size();
  return mean_flops_per_step(recipe);
}

double ngram_bits_per_byte(const ConfigNode& resolved, int order) {
  const Recipe recipe = read_recipe(resolved);
  const std::string& path = recipe.data.corpus;
  if (path.empty() || !std::filesystem::exists(path)) return 0;
  const Corpus corpus = Corpus::open(path);
  EvaluateOptions scored = final_evaluation(recipe, measured_split(corpus));
  if (!recipe.model.has_memory())
    scored.memory_length = 0;
  else if (scored.memory_length < 0)
    scored.memory_length = recipe.model.xl.memory;
  return ngram_baseline(corpus, order, scored).bits_per_byte();
}

void check_memory(const ConfigNode& node, const RunRanks& ranks) {
  const Recipe recipe = read_recipe(node);
  if (!recipe.run.on_cpu() || recipe.data.corpus.empty()) return;  // train_run() reports these
  const int processes = processes_of(recipe);
  naming_origins(node, [&] {
    check_training_memory(with_vocabulary(recipe, Corpus::open(recipe.data.corpus)),
                          ranks.memory > 0 ? ranks.memory : available_memory_bytes() / ranks.here,
                          {.all = processes, .here = std::min(processes, ranks.here)});
  });
}

void check_layout(const Recipe& recipe, int most) {
  const int processes = processes_of(recipe);
  PENSTOCK_CHECK(processes <= most, "[parallel] divides this run over ", processes,
                 " processes, and the study has ", most, "; start the study in ", processes,
                 " processes or a multiple of that");
  layout_of(recipe, processes);
}

TrainControl control_of(const RunRanks& ranks, bool force, std::FILE* progress) {
  return {.resume = true,
          .quiet = !progress,
          .force = force,
          .progress = progress,
          .processes_here = ranks.here,
          .memory = ranks.memory};
}

/// Keys of a message from a group's first rank to the other ranks. It names a run to train; an
/// empty message says that there are no more runs.
constexpr const char *kRecipe = "recipe", *kDirectory = "directory";

/// Trains a run on each rank of a group. The run's own connections have its parallel.timeout.
bool train_on(const dist::ProcessGroup& group, const ConfigNode& resolved,
              const std::string& directory, TrainControl control) {
  const std::chrono::seconds timeout(read_recipe(resolved).parallel.timeout);
  control.group = group.split("run", 0, timeout);
  return train_run(resolved, directory, control) == RunOutcome::finished;
}

/// Called on the first rank: sends the run to the other ranks and trains it with them.
bool train_together(const dist::ProcessGroup& group, const ConfigNode& resolved,
                    const std::string& directory, const TrainControl& control) {
  group.broadcast_bytes(nlohmann::json{{kRecipe, to_toml(resolved)},
                                       {kDirectory, std::filesystem::absolute(directory).string()}}
                            .dump());
  return train_on(group, resolved, directory, control);
}

}  // namespace

void train_as_ordered(const RunRanks& ranks, bool force) {
  while (true) {
    const auto order = nlohmann::json::parse(ranks.group.broadcast_bytes(""));
    if (order.empty()) return;
    try {
      train_on(ranks.group, parse_toml(order.at(kRecipe).get<std::string>(), "the study's recipe"),
               order.at(kDirectory).get<std::string>(), control_of(ranks, force, nullptr));
    } catch (const ReportedByRankZero&) {  // rank 0 reports the error
    } catch (const DivergedError&) {
    }
  }
}

void dismiss(const dist::ProcessGroup& group) {
  group.broadcast_bytes(nlohmann::json::object().dump());
}

StudyHooks training_hooks(std::FILE* progress, bool force, const RunRanks& ranks) {
  const TrainControl control = control_of(ranks, force, progress);
  TrainControl alone = control;  // measurements run in one process
  alone.processes_here = 1;
  alone.memory = 0;
  return {
      .resolve =
          [](const ConfigNode& node) {
            const Recipe recipe = read_recipe(node);
            return write_config(naming_origins(node, [&] { return with_initial_hash(recipe); }));
          },
      .model = [](const ConfigNode& resolved) { return read_recipe(resolved).model; },
      .processes = [](const ConfigNode& node) { return processes_of(read_recipe(node)); },
      .check_fits =
          [force, ranks](const ConfigNode& recipe) {
            naming_origins(recipe, [&] { check_layout(read_recipe(recipe), ranks.most); });
            if (!force) check_memory(recipe, ranks);
          },
      .corpus_hash =
          [](const ConfigNode& resolved) {
            const DataConfig data = read_recipe(resolved).data;
            return data.corpus.empty() ? std::string()
                                       : open_text(data, /*verify=*/false).content_hash();
          },
      .flops_per_step = flops_per_step,
      .ngram_baseline = ngram_bits_per_byte,
      .begin =
          [force, progress](const std::string& model, const ConfigNode& upcycle,
                            const ConfigNode& resolved, const std::string& directory) {
            // `directory` is OUT/runs/RUN/start. All runs of a study share the folder
            // OUT/mean-keys.
            const std::filesystem::path runs =
                std::filesystem::path(directory).parent_path().parent_path();
            begin_with(model, upcycle, resolved, directory, runs.parent_path() / "mean-keys", force,
                       progress);
          },
      .model_hash =
          [hashes = ContentHashes()](const std::string& path) mutable { return hashes.of(path); },
      .text_hash = [hashes = ContentHashes(text_content_hash)](
                       const std::string& path) mutable { return hashes.of(path); },
      .train =
          [control, group = ranks.group](const ConfigNode& resolved,
                                         const std::string& run_directory) {
            return train_together(group, resolved, run_directory, control);
          },
      .check = [](const Measurement& one) { one.check(); },
      .measure = [alone](const Measurement& one, const FinishedRun& run,
                         const Work& work) { return one.measure(run, work, alone); }};
}

}  // namespace penstock::study
