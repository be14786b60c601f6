// A study's hooks onto the trainer, the model's FLOPs and the corpus.
#include <filesystem>
#include <tuple>

#include "penstock/base/config_origin.h"
#include "penstock/base/memory.h"
#include "penstock/data/corpus.h"
#include "penstock/eval/ngram.h"
#include "penstock/models/census.h"
#include "penstock/models/content_hash.h"
#include "penstock/study/run_folder.h"
#include "penstock/study/start_model.h"
#include "penstock/study/study_hooks.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/recipe.h"
#include "penstock/train/run.h"
#include "penstock/train/run_text.h"
#include "penstock/train/trainer.h"

namespace penstock::study {
namespace {

double nominal_flops_per_step(const ConfigNode& resolved) {
  Recipe recipe = read_recipe(resolved);
  if (recipe.model.vocab == 0) recipe.model.vocab = Corpus::open(recipe.data.corpus).vocab_size();
  return nominal_training_flops(recipe.model, recipe.train.batch_sequences,
                                recipe.train.sequence_length);
}

double ngram_bits_per_byte(const ConfigNode& resolved, int order) {
  const std::string path = read_recipe(resolved).data.corpus;
  if (path.empty() || !std::filesystem::exists(path)) return 0;
  const Corpus corpus = Corpus::open(path);
  return ngram_baseline(corpus, order, measured_split(corpus)).bits_per_byte();
}

void check_memory(const ConfigNode& node) {
  const Recipe recipe = read_recipe(node);
  if (recipe.run.device != "cpu" || recipe.data.corpus.empty()) return;  // train_run() says of it
  naming_origins(node, [&] {
    check_training_memory(with_vocabulary(recipe, Corpus::open(recipe.data.corpus)),
                          available_memory_bytes());
  });
}

/// Every run of a study is one process.
void check_one_process(const Recipe& recipe) {
  const ParallelConfig& parallel = recipe.parallel;
  for (const auto& [key, value, usual] : {std::tuple{"data", parallel.data, 0},
                                          {"tensor", parallel.tensor, 1},
                                          {"pipeline", parallel.pipeline, 1},
                                          {"expert", parallel.expert, 1}})
    PENSTOCK_CHECK(value <= 1, "parallel.", key, " = ", value,
                   ": one process trains each run of a study; set it to ", usual,
                   ", and train runs side by side with `penstock study FILE --jobs N`");
}

}  // namespace

StudyHooks training_hooks(std::FILE* progress, bool force) {
  const TrainControl control{
      .resume = true, .quiet = !progress, .force = force, .progress = progress};
  return {.resolve =
              [](const ConfigNode& node) {
                const Recipe recipe = read_recipe(node);
                naming_origins(node, [&] { check_one_process(recipe); });
                return write_config(recipe);
              },
          .model = [](const ConfigNode& resolved) { return read_recipe(resolved).model; },
          .check_memory =
              [force](const ConfigNode& recipe) {
                if (!force) check_memory(recipe);
              },
          .corpus_hash =
              [](const ConfigNode& resolved) {
                const DataConfig data = read_recipe(resolved).data;
                return data.corpus.empty() ? std::string()
                                           : open_text(data, /*verify=*/false).content_hash();
              },
          .flops_per_step = nominal_flops_per_step,
          .ngram_baseline = ngram_bits_per_byte,
          .begin =
              [progress](const std::string& model, const ConfigNode& upcycle,
                         const ConfigNode& resolved, const std::string& directory) {
                begin_with(model, upcycle, resolved, directory, progress);
              },
          .model_hash = model_content_hash,
          .train =
              [control](const ConfigNode& resolved, const std::string& run_directory) {
                return train_run(resolved, run_directory, control) == RunOutcome::finished;
              },
          .check = [](const Measurement& one) { one.check(); },
          .measure = [control](const Measurement& one, const FinishedRun& run,
                               const Work& work) { return one.measure(run, work, control); }};
}

}  // namespace penstock::study
