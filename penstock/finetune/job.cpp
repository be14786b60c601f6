#include "penstock/finetune/job.h"

#include <algorithm>
#include <map>

#include "penstock/base/error.h"
#include "penstock/base/number_text.h"
#include "penstock/finetune/k_points.h"
#include "penstock/finetune/model_encoder.h"
#include "penstock/finetune/pretrained.h"
#include "penstock/finetune/word_encoding.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/models/files/open_model.h"
#include "penstock/routers/option_changes.h"
#include "penstock/train/memory_check.h"
#include "penstock/train/step/objective.h"

namespace penstock {
namespace {

nlohmann::ordered_json point_json(const ClassificationScore& result) {
  return {{"k", nullptr},          {"accuracy", result.accuracy()}, {"correct", result.correct()},
          {"texts", result.texts}, {"macro_f1", result.macro_f1()}, {"loss", result.loss()}};
}

}  // namespace

FinetuneJob prepare_finetune_job(FinetuneRecord record) {
  FinetuneJob job;
  const FinetuneConfig& config = record.finetune;
  const ModelConfig model = read_model_config(record.model);
  k_points(model, config.test_k, 0);  // an error in test_k shows before hours of training
  job.splits = load_finetune_splits(record.data, record.task, config);
  job.encoder = config.authors() ? word_encoder({&job.splits.train, &job.splits.selection})
                                 : tokenizer_encoder(open_model_source(record.model)->tokenizer());
  PENSTOCK_CHECK(config.authors() || job.encoder->vocab_size() <= model.vocab, record.model,
                 ": its tokenizer has ", job.encoder->vocab_size(), " ids and the model ",
                 model.vocab);
  job.sequence_length = longest_text(config, model);
  PENSTOCK_CHECK(!config.authors() || std::ssize(job.splits.test.texts) >= config.batch,
                 record.data, ": its ", job.splits.test.size(), " texts fill no batch of ",
                 config.batch, ", and protocol \"authors\" leaves such out; lower batch");
  job.train = job.encoder->encode(job.splits.train, job.sequence_length);
  job.selection = job.encoder->encode(job.splits.selection, job.sequence_length);
  job.test = job.encoder->encode(job.splits.test, job.sequence_length);
  job.start = pretrained_classifier(
      record.model, config, job.splits.train.classes(),
      config.authors() ? std::optional(job.encoder->vocab_size()) : std::nullopt);
  record.task = job.splits.task;
  record.model_hash = job.start.model_hash;
  record.data_hash = job.splits.hash();
  job.record = std::move(record);
  return job;
}

TrainingMemory finetune_memory(const FinetuneJob& job) {
  const FinetuneConfig& config = job.record.finetune;
  const std::int64_t rows = config.train_memory > 0 ? 1 : config.batch;
  std::map<std::int64_t, std::int64_t> texts;  // number of texts by length
  for (const auto& text : job.train.texts) ++texts[std::ssize(text)];
  std::int64_t most_rows = 1, length = 1;
  for (const auto& [tokens, count] : texts)
    if (std::min(rows, count) * tokens > most_rows * length) {
      most_rows = std::min(rows, count);
      length = tokens;
    }
  ModelConfig model = job.start.classifier->body().config();
  if (job.start.k.train > 0)
    model.router.k =
        static_cast<double>(job.start.k.train) / static_cast<double>(model.moe.granularity);
  return training_memory(model, {.micro_batch = most_rows,
                                 .sequence_length = length,
                                 .precision = config.precision,
                                 .moment_bytes = moment_bytes(config.optimizer.moments)});
}

void check_finetune_memory(const FinetuneJob& job, double available) {
  const TrainingMemory memory = finetune_memory(job);
  const double model = static_cast<double>(memory.parameter_bytes);
  if (static_cast<double>(memory.total()) <= model + available) return;
  const FinetuneConfig& config = job.record.finetune;
  fail("batch = ", config.batch, ", sequence_length = ", job.sequence_length,
       ": fine-tuning takes ", memory_text(memory), " and this machine has ",
       size_text(model + available), " for it; lower batch or sequence_length",
       job.start.k.train > 0 ? " or train_k" : "",
       ", take a smaller model, or try it all the same with options.force");
}

ScoreOptions protocol_score_options(const FinetuneConfig& config) {
  return {.carried_rows = config.authors() ? config.batch : 0, .memory_length = config.eval_memory};
}

std::int64_t longest_text(const FinetuneConfig& config, const ModelConfig& model) {
  constexpr std::int64_t published = 512;  // Table A2
  if (config.sequence_length > 0) return config.sequence_length;
  // Transformer-XL is trained at distances up to the end of its memory, for any segment length.
  const std::int64_t seen = model.context + (model.has_memory() ? model.xl.memory : 0);
  return model.context > 0 ? std::min(published, seen) : published;
}

std::vector<std::string> protocol_notes(const FinetuneConfig& config, const ModelConfig& model) {
  std::vector<std::string> out;
  if (config.authors()) {
    out.emplace_back(
        "the test set is the selection set: its accuracy is of the best of many looks, not of "
        "unseen texts");
    out.emplace_back(
        "no padding is ever read, where the authors mask it on the left: the same within a text, "
        "but what memory holds are the last positions of earlier texts alone, and distances to "
        "them do not count padding");
  }
  if (*config.train_hypernetwork && generates_routers(model.router))
    out.emplace_back(
        "HyperRouter's network is trained too, as the authors' fine-tuning script does");
  if (config.auxiliary_losses && model.moe_layers() > 0 && model.traits().forward_passes > 1)
    out.emplace_back("one pass is made over a batch: the consistency loss of two is left out");
  if (config.auxiliary_losses && training_objective(model.traits()).distillation > 0)
    out.emplace_back("the divergence from a pass with all experts is left out");
  if (const std::string part = part_that_pools(model); config.auxiliary_losses && !part.empty())
    out.push_back(
        concat("the counts of ", part, " are taken pass by pass, although its scope is global"));
  return out;
}

nlohmann::ordered_json test_by_k(Classifier& classifier, const EncodedSet& test,
                                 const std::vector<std::int64_t>& k,
                                 const std::function<ScoreOptions(std::int64_t k)>& options) {
  auto out = nlohmann::ordered_json::array();
  for (const std::int64_t value : k.empty() ? std::vector<std::int64_t>{0} : k) {
    ScoreOptions at_k = options(value);
    at_k.k = value;
    out.push_back(point_json(score(classifier, test, at_k)));
    if (value > 0) out.back()["k"] = value;
  }
  return out;
}

}  // namespace penstock
