// A task as its file describes it: the fields of a row, the texts of the requests, and how the
// answers are scored. rows.h reads rows; items.h makes requests.
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

/// The harness whose requests a task makes.
enum class TaskProtocol { kLmEval, kOpenCompass };
constexpr std::array<std::string_view, 2> words(TaskProtocol) { return {"lm-eval", "opencompass"}; }
inline constexpr std::array kTaskProtocols = {TaskProtocol::kLmEval, TaskProtocol::kOpenCompass};

enum class Kind {
  kMultipleChoice,   ///< one context, several continuations; the likeliest is the answer
  kMultipleContext,  ///< several contexts, one continuation
  kContinuation,     ///< one context and its continuation: would the model generate it?
  kGeneration,       ///< one context: is the generated text one of the known answers?
};
constexpr std::array<std::string_view, 4> words(Kind) {
  return {"multiple-choice", "multiple-context", "continuation", "generation"};
}

/// The part of a request whose log-likelihood is summed, and the divisor of the sum. The choice
/// with the largest value is the answer.
enum class Score {
  kContinuation,  ///< lm-eval: Σ ln p over the continuation
  kWholeText,     ///< OpenCompass PPL: Σ ln p over all tokens but the first, ÷ their number
  kRest,          ///< OpenCompass LL, causal-LM wrapper: Σ ln p after the context's tokens
  kRestByCount,   ///< OpenCompass LL, base-model wrapper: Σ ln p after as many tokens as the
                  ///< continuation has, ÷ the number of these
};
constexpr std::array<std::string_view, 4> words(Score) {
  return {"continuation", "whole-text", "rest", "rest-by-count"};
}

/// The figures that a task reports.
enum class Metric { acc, acc_norm, acc_bytes, perplexity, exact_match };
constexpr std::array<std::string_view, 5> words(Metric) {
  return {"acc", "acc_norm", "acc_bytes", "perplexity", "exact_match"};
}

/// How rows of one format become items. A task has one form for each format in which its data is
/// published.
struct Form {
  std::string name;
  std::vector<std::string> has;  ///< paths that rows of this form have
  std::string prepare;           ///< a preparation (prepare.h), or ""
  std::vector<Template> where;   ///< conditions; rows that fail one are left out
  /// Fields that are added to the row before the other templates are filled.
  std::vector<std::pair<std::string, Template>> compute;
  std::vector<Template> contexts;
  std::vector<Template> choices;  ///< each gives a text or a list of texts
  std::vector<Template> answers;  ///< each gives a text or a list of texts
  Template continuation, gold;
};

/// Where few-shot examples come from (lm-eval).
struct Fewshot {
  std::vector<std::string> files;  ///< names of their data file; empty: the task's own rows
  std::string separator;           ///< after each example
  bool without_itself = false;     ///< draws one more and drops the asked row
  bool first = false;              ///< the file's first rows instead of random ones
};

/// The name of a task with its version: "arc_easy@1.0".
inline std::string versioned_name(const std::string& task, const std::string& version) {
  return task + "@" + version;
}

struct Task {
  std::string name, version, source, note;
  TaskProtocol protocol = TaskProtocol::kLmEval;
  Kind kind = Kind::kMultipleChoice;
  Score score = Score::kContinuation;
  std::string delimiter;    ///< between context and continuation
  std::string description;  ///< starts every context, before few-shot examples
  std::optional<Fewshot> fewshot;
  std::vector<Metric> metrics;
  std::vector<std::string> files;  ///< possible names of the data file; the first found is read
  std::string labels;  ///< file with a label in each line; "{stem}" is the data file's stem
  std::vector<std::string> data_sets;  ///< names for `penstock data fetch`
  std::vector<Form> forms;
  std::string origin;  ///< the task's own file
  // For generated answers:
  std::vector<std::string> until;  ///< a text ends before the first of these strings,
  std::int64_t max_tokens = 0;     ///< or after this number of tokens
  AnswerRule answer_rule = AnswerRule::kExact;

  bool has_metric(Metric metric) const;
};

/// Reads a task's description. Throws Error with file and line for a key that is unknown, is
/// missing or contradicts the kind.
Task parse_task(const ConfigNode& root, const std::string& file);
/// The same for a TOML file.
Task read_task(const std::string& path);

}  // namespace penstock::tasks
