// Evaluates a model on tasks: makes items from rows, encodes them as tokens, and scores the tokens.
// It also writes a record of each item.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/models/language_model.h"
#include "penstock/tasks/answer_log.h"
#include "penstock/tasks/results.h"

namespace penstock::tasks {

/// A task and its items. They are read before any model runs, so that errors are reported at once.
struct LoadedTask {
  Task task;
  Items items;
  std::vector<std::string> files = {};  ///< files that the items were read from
};

struct LoadOptions {
  std::string directory;  ///< folder with the task's files under their usual names
  std::string file = {};  ///< the data file, if it has another path
  std::size_t limit = 0;  ///< number of items to read, from the first; 0: all
  Shots shots = {};       ///< few-shot examples
};

/// Reads the task's data, and the rows of its few-shot examples if there are any.
LoadedTask load_task(Task task, const LoadOptions& options);

struct EvaluateTaskOptions {
  std::int64_t sequence_length = 0;  ///< window in tokens; 0: usual_window()
  ScoringOptions scoring;
  AnswerLog* log = nullptr;  ///< supplies and stores answers; may be null
  std::size_t place = 0;     ///< the task's index in the log
};

/// For each item: the tokens of its requests, or of the prompt that the generated answer follows.
using TaskTokens = std::vector<std::vector<TokenRequest>>;

/// Encodes the task for a model. Throws Error for a request that has no token to score or does not
/// fit into the window, and if the model cannot generate answers with these options.
TaskTokens encode_task(const ModelConfig& model, const Tokenizer& tokenizer,
                       const LoadedTask& loaded, const EvaluateTaskOptions& options);

/// The description of a model and its task that the log stores.
AskedTask asked_task(const LoadedTask& loaded, const TaskTokens& requests, std::string model);

/// One task's result, with the requests and the answers.
struct EvaluatedTask {
  TaskResult result;
  TaskTokens requests;
  std::vector<std::vector<RequestScore>> scores;
};

/// Evaluates the task. Answers are generated greedily. With a log, the items are answered in
/// batches of some thousand tokens, shortest items first. Each batch is stored before the next
/// begins. Throws Error as score_items and generate_from_tokens do.
EvaluatedTask evaluate_task(const std::shared_ptr<LanguageModel>& model, const Tokenizer& tokenizer,
                            const LoadedTask& loaded, TaskTokens requests,
                            const EvaluateTaskOptions& options);

/// {"acc", "acc_stderr", "acc_norm", "acc_norm_stderr", "perplexity", "exact_match", "n",
/// "protocol", "version", "guess", ...}, without the items.
nlohmann::ordered_json to_json(const TaskResult& result);

/// A line with a JSON object for each item: "task", "doc", "requests", "chosen", "gold", "right",
/// and for generated answers also "generated" and "answers".
std::string item_lines(const LoadedTask& loaded, const EvaluatedTask& evaluated);

}  // namespace penstock::tasks
