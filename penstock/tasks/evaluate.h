// A model's results on tasks: rows to items to tokens to scores, and the records of every item.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/models/language_model.h"
#include "penstock/tasks/answer_log.h"
#include "penstock/tasks/results.h"

namespace penstock::tasks {

/// A task and its items, read before any model is run, so that mistakes are said at once.
struct LoadedTask {
  Task task;
  Items items;
  std::vector<std::string> files = {};  ///< that they were read from
};

struct LoadOptions {
  std::string directory;  ///< where the task's files are looked for by their names
  std::string file = {};  ///< its data, whatever its name
  std::size_t limit = 0;  ///< the first so many items; 0: all
  Shots shots = {};       ///< few-shot examples
};

/// Reads the task's data, and where there are to be few-shot examples their rows.
LoadedTask load_task(Task task, const LoadOptions& options);

struct EvaluateTaskOptions {
  std::int64_t sequence_length = 0;  ///< tokens that the model reads at once; 0: usual_window
  ScoringOptions scoring;
  AnswerLog* log = nullptr;  ///< takes and keeps answers, where there is one
  std::size_t place = 0;     ///< of the task in it
};

/// Of each item the tokens of its requests, or of the prompt that an answer is to follow.
using TaskTokens = std::vector<std::vector<TokenRequest>>;

/// The task's tokens for a model. Throws Error for a request that leaves nothing to score or does
/// not fit the window, and for answers that the model cannot generate with these options.
TaskTokens encode_task(const ModelConfig& model, const Tokenizer& tokenizer,
                       const LoadedTask& loaded, const EvaluateTaskOptions& options);

/// What the log must know of a task that a model is asked.
Asked asked_of(const LoadedTask& loaded, const TaskTokens& requests, std::string model);

/// One task's result, with what was asked and answered.
struct EvaluatedTask {
  TaskResult result;
  TaskTokens requests;
  std::vector<std::vector<RequestScore>> scores;
};

/// The task's result. Answers that are generated are what the model says greedily. With a log the
/// items are answered in pieces of some thousand tokens, shortest items first; each piece is kept
/// before the next begins. Throws Error as score_items and generate_from_tokens do.
EvaluatedTask evaluate_task(const std::shared_ptr<LanguageModel>& model, const Tokenizer& tokenizer,
                            const LoadedTask& loaded, TaskTokens requests,
                            const EvaluateTaskOptions& options);

/// {"acc", "acc_stderr", "acc_norm", "acc_norm_stderr", "perplexity", "exact_match", "n",
/// "protocol", "version", "guess", ...}, without the items.
nlohmann::ordered_json to_json(const TaskResult& result);

/// A JSON object a line for each item: "task", "doc", "requests", "chosen", "gold", "right", and
/// where answers are generated "generated" and "answers".
std::string item_lines(const LoadedTask& loaded, const EvaluatedTask& evaluated);

}  // namespace penstock::tasks
