// A task as its file describes it: where the fields of a row are, the texts that a model is asked
// about, how the answers are scored. Reading of rows is rows.h, what is asked is items.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/tasks/answers.h"
#include "penstock/tasks/template.h"

namespace penstock::tasks {

/// Whose requests a task makes.
enum class TaskProtocol { kLmEval, kOpenCompass };
constexpr std::array<std::string_view, 2> words(TaskProtocol) { return {"lm-eval", "opencompass"}; }
inline constexpr std::array kTaskProtocols = {TaskProtocol::kLmEval, TaskProtocol::kOpenCompass};

enum class Kind {
  kMultipleChoice,   ///< one context, several continuations: the likeliest is the answer
  kMultipleContext,  ///< several contexts, one continuation
  kContinuation,     ///< one context and its continuation: is it what the model would say?
  kGeneration,       ///< one context: is what the model says one of the known answers?
};
constexpr std::array<std::string_view, 4> words(Kind) {
  return {"multiple-choice", "multiple-context", "continuation", "generation"};
}

/// What of a request is summed, and by what it is divided, before the largest is chosen.
enum class Score {
  kContinuation,  ///< lm-eval: Σ ln p over the continuation
  kWholeText,     ///< OpenCompass PPL: Σ ln p over all tokens but the first, ÷ their number
  kRest,          ///< OpenCompass LL, causal-LM wrapper: Σ ln p behind the context's tokens
  kRestByCount,   ///< OpenCompass LL, base-model wrapper: behind as many tokens as the rest has,
                  ///< ÷ the tokens that are left
};
constexpr std::array<std::string_view, 4> words(Score) {
  return {"continuation", "whole-text", "rest", "rest-by-count"};
}

/// What results say of a task.
enum class Metric { acc, acc_norm, acc_bytes, perplexity, exact_match };
constexpr std::array<std::string_view, 5> words(Metric) {
  return {"acc", "acc_norm", "acc_bytes", "perplexity", "exact_match"};
}

/// How rows of one form become items; a task knows a form for each way its data is published.
struct Form {
  std::string name;
  std::vector<std::string> has;  ///< paths that rows of this form have
  std::string prepare;           ///< a preparation (prepare.h), or ""
  std::vector<Template> where;   ///< rows for which one of them is not true are left out
  /// Fields that are added to the row before the other templates see it.
  std::vector<std::pair<std::string, Template>> compute;
  std::vector<Template> contexts;
  std::vector<Template> choices;  ///< each gives a text or a list of texts
  std::vector<Template> answers;  ///< each gives a text or a list of texts
  Template continuation, gold;
};

/// Where few-shot examples come from (lm-eval).
struct Fewshot {
  std::vector<std::string> files;  ///< names that their rows go by; none: the task's own rows
  std::string separator;           ///< behind each example
  bool without_itself = false;     ///< one more is drawn, and the asked row dropped from among them
  bool first = false;              ///< the first ones of the file, in place of random ones
};

struct Task {
  std::string name, version, source, note;
  TaskProtocol protocol = TaskProtocol::kLmEval;
  Kind kind = Kind::kMultipleChoice;
  Score score = Score::kContinuation;
  std::string delimiter;    ///< between context and continuation
  std::string description;  ///< opens every context, before few-shot examples
  std::optional<Fewshot> fewshot;
  std::vector<Metric> metrics;
  std::vector<std::string> files;  ///< names that its data goes by, the first found is read
  std::string labels;  ///< of a file beside the data with a label a line, "{stem}" for its name
  std::vector<std::string> data_sets;  ///< that `penstock data fetch` gets its files by
  std::vector<Form> forms;
  std::string origin;  ///< its own file
  // For generated answers:
  std::vector<std::string> until;  ///< a text ends before the first of these
  std::int64_t max_tokens = 0;     ///< or after so many tokens
  AnswerRule answer_rule = AnswerRule::kExact;

  bool has_metric(Metric metric) const;
};

/// Reads the description. Throws Error with file and line for a key that is unknown, missing or
/// contradicts the kind.
Task parse_task(const ConfigNode& root, const std::string& file);
/// The same of a TOML file.
Task read_task(const std::string& path);

}  // namespace penstock::tasks
