// How a model's loss on a corpus is measured: as its run's recipe says, as is usual for a model
// without a run, or as one asks. Measuring is evaluate()'s (eval/perplexity.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/eval/perplexity.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// The evaluation of a run's end, whose figures finished.json has: windows or streams, memory, the
/// rows of a pass (experts with a capacity are filled pass by pass), and train.final_eval_tokens of
/// the split. `context` is the caller's.
EvaluateOptions final_evaluation(const Recipe& run, Split split);

/// What may be asked for in place of that.
struct EvaluationWish {
  Split split = Split::kValidation;
  std::optional<std::int64_t> max_tokens;
  EvaluationKeys keys;
  bool isolate_documents = false;  ///< also where the run does not

  template <class V>
  void visit(V& v) {
    const std::string run = "as the run was evaluated, or ";
    v("split", split, {.help = "of the corpus: train, validation or test"});
    v("max_tokens", max_tokens,
      {.help = "evenly spaced windows up to this many tokens; 0: all; not given: as the run was "
               "evaluated at its end, or all",
       .min = 0});
    keys.visit_keys(v, "",
                    {.sequence_length = run + "the model's context",
                     .streams = run + usual_streams_text(),
                     .memory = run + "the model's"});
    v("isolate_documents", isolate_documents,
      {.help = "attention does not cross document borders"});
  }
};

/// The evaluation of a model: what is asked for; what is not, as final_evaluation(run) has it. A
/// model without a run, or one whose run left it open, is measured on the whole split, in windows
/// of its context or, where it has a memory, along usual_streams. Windows of a length that is asked
/// for have about 4096 tokens a pass. `run` may be null.
/// Throws Error where no length is known, or a memory is asked for that nothing would carry.
EvaluateOptions evaluation_settings(const ModelConfig& model, const Recipe* run,
                                    const EvaluationWish& wish);

}  // namespace penstock
