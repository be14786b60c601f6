// Settings for measuring a model's loss on a corpus. They come from the caller, from the recipe of
// the model's run, or from defaults. evaluate() does the measuring (eval/perplexity.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/eval/perplexity.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// Options of the evaluation at a run's end, whose figures are in finished.json: windows or
/// streams, memory, sequences per pass (a pass decides which tokens fill an expert's capacity), and
/// train.final_eval_tokens tokens of the split. The caller sets `context`.
EvaluateOptions final_evaluation(const Recipe& run, Split split);

/// Settings that replace those of final_evaluation().
struct EvaluationOverrides {
  Split split = Split::kValidation;
  std::optional<std::int64_t> max_tokens;
  EvaluationKeys keys;
  bool isolate_documents = false;  ///< true: isolate them even if the run does not

  template <class V>
  void visit(V& v) {
    const std::string run = "as the run was evaluated, or ";
    v("split", split, {.help = "split of the corpus: train, validation or test"});
    v("max_tokens", max_tokens,
      {.help = "number of tokens to evaluate, in evenly spaced windows; 0: all; not given: the "
               "run's number at its end, or all",
       .min = 0});
    keys.visit_keys(v, "",
                    {.sequence_length = run + "the model's context",
                     .streams = run + usual_streams_text(),
                     .memory = run + "the model's"});
    v("isolate_documents", isolate_documents,
      {.help = "attention does not cross document borders"});
  }
};

/// Options for evaluating a model. A setting that `overrides` leaves open comes from
/// final_evaluation(run). Settings that the run leaves open too, or all of them without a run, have
/// defaults: the whole split, windows of the model's context and, for a model with a memory,
/// usual_streams() streams. If `overrides` gives the window length, or no run gives
/// train.micro_batch, a pass has about 4096 tokens. `run` may be null.
/// Throws Error if no window length is known, or if `overrides` asks for a memory that no streams
/// would carry.
EvaluateOptions evaluation_settings(const ModelConfig& model, const Recipe* run,
                                    const EvaluationOverrides& overrides);

}  // namespace penstock
