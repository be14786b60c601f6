#include "penstock/train/evaluation_settings.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {
namespace {

constexpr std::int64_t kTokensOfAPass = 4096;

}  // namespace

EvaluateOptions final_evaluation(const Recipe& run, Split split) {
  return {.split = split,
          .sequence_length = run.train.evaluation.sequence_length,
          .batch_sequences = run.train.micro_batch,
          .max_tokens = run.train.final_eval_tokens,
          .isolate_documents = run.data.isolate_documents,
          .streams = run.train.evaluation.streams,
          .memory_length = run.train.evaluation.memory};
}

EvaluateOptions evaluation_settings(const ModelConfig& model, const Recipe* run,
                                    const EvaluationOverrides& overrides) {
  const bool carries = model.has_memory();
  const auto& [sequence_length, streams, memory] = overrides.keys;
  EvaluateOptions out = final_evaluation(run ? *run : Recipe{}, overrides.split);
  if (sequence_length != 0) out.sequence_length = sequence_length;
  if (out.sequence_length == 0) out.sequence_length = model.context;
  PENSTOCK_CHECK(out.sequence_length > 0,
                 "the model names no context length; give options.sequence_length");
  if (sequence_length != 0 || out.batch_sequences == 0)
    out.batch_sequences = std::max<std::int64_t>(1, kTokensOfAPass / out.sequence_length);
  out.max_tokens = overrides.max_tokens.value_or(out.max_tokens);
  out.isolate_documents |= overrides.isolate_documents;
  if (streams >= 0) out.streams = streams;
  if (out.streams < 0) out.streams = usual_streams(model);
  PENSTOCK_CHECK(memory < 0 || (carries && out.streams > 0), "options.memory = ", memory,
                 " has no effect here: memory is carried ",
                 carries ? "along streams, and options.streams is 0" : "by transformer-xl alone");
  out.memory_length = !carries ? -1 : memory >= 0 ? memory : out.memory_length;
  return out;
}

}  // namespace penstock
