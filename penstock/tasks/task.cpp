#include "penstock/tasks/task.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/io/toml.h"
#include "penstock/tasks/prepare.h"

namespace penstock::tasks {
namespace {

using Texts = std::vector<std::string>;

struct TaskFields {
  std::string name, version = "1.0", source, note, labels, description;
  TaskProtocol protocol = TaskProtocol::kLmEval;
  Kind kind = Kind::kMultipleChoice;
  std::optional<Score> score;
  AnswerRule answer_rule = AnswerRule::kExact;
  std::int64_t max_tokens = 256;
  std::optional<std::string> delimiter;
  std::vector<Metric> metrics;
  Texts files, data_sets, until;

  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "name in results"});
    v("protocol", protocol, {.help = "harness whose requests the task makes"});
    v("version", version, {.help = "version of the task, as numbered by the protocol's source"});
    v("source", source, {.help = "source of the prompt"});
    v("note", note, {.help = "note for readers of the scores"});
    v("kind", kind, {.help = "kind of question"});
    v("score", score,
      {.help =
           "text that is scored; not set: continuation for lm-eval, whole-text for opencompass"});
    v("delimiter", delimiter, {.help = "text between context and continuation"});
    v("description", description, {.help = "text at the start of every context"});
    v("metrics", metrics, {.help = "metrics in the results"});
    v("until", until, {.help = "texts that end a generated answer"});
    v("max_tokens", max_tokens,
      {.help = "largest number of tokens in a generated answer", .min = 1});
    v("answer_rule", answer_rule,
      {.help = "how a generated answer is compared with the known answers"});
    v("files", files, {.help = "names of the data file"});
    v("data_sets", data_sets, {.help = "public data sets with the task's rows"});
    v("labels", labels, {.help = "file of labels beside the data; {stem} is the data file's name"});
  }
};

struct FewshotFields {
  Texts files;
  std::string separator = "\n\n";
  bool first = false, without_itself = false;

  template <class V>
  void visit(V& v) {
    v("files", files,
      {.help = "names of the file with the examples' rows; none: the task's own rows"});
    v("separator", separator, {.help = "text after each example"});
    v("first", first, {.help = "take the file's first rows, without a random draw"});
    v("without_itself", without_itself,
      {.help = "draw one example more, and drop the item's own row from the examples"});
  }
};

struct FormFields {
  std::string name, prepare;
  Texts has, where, contexts, choices, answers;
  std::optional<std::string> context, continuation, gold;

  template <class V>
  void visit(V& v) {
    v("name", name, {.help = "name of the form in errors"});
    v("has", has, {.help = "fields that a row of this form has"});
    v("prepare", prepare, {.help = "preparation of the row"});
    v("where", where, {.help = "conditions on the rows that are read"});
    v("context", context, {.help = "text before the answer"});
    v("contexts", contexts, {.help = "contexts of a multiple-context task"});
    v("choices", choices, {.help = "the possible answers"});
    v("answers", answers, {.help = "known answers of a generation task"});
    v("continuation", continuation, {.help = "text after the context"});
    v("gold", gold, {.help = "number of the right choice, from 0"});
  }
};

/// Throws Error for keys that a task of this kind does not read.
void check_keys_count(const ConfigNode& top, const TaskFields& fields) {
  const bool generating = fields.kind == Kind::kGeneration;
  const auto refuse = [&](const char* key, const char* reason) {
    if (const ConfigNode* const given = top.find(key))
      fail(given->origin(), ": ", key, " has no effect: ", reason, "; leave it out",
           generating ? "" : ", or set kind = \"generation\"");
  };
  if (generating)
    refuse("score", "a generation task compares the model's own words with the known answers");
  for (const char* const key : {"until", "max_tokens", "answer_rule"})
    if (!generating) refuse(key, "only a generation task has the model write an answer");
}

Score usual_score(const TaskFields& fields) {
  return fields.protocol == TaskProtocol::kLmEval ? Score::kContinuation : Score::kWholeText;
}

/// The default delimiter between prompt and answer. lm-eval's tasks with continuations have none,
/// since their continuations are complete. OpenCompass puts a newline before a choice.
std::string usual_delimiter(const TaskFields& fields, Kind kind) {
  if (fields.protocol == TaskProtocol::kOpenCompass)
    return kind == Kind::kMultipleChoice ? "\n" : "";
  return kind == Kind::kContinuation ? "" : " ";
}

/// Makes the templates of a task's keys. Errors of a template name its file, line and key.
class TemplatesOf {
 public:
  TemplatesOf(const ConfigNode& node, std::string file) : node_(node), file_(std::move(file)) {}

  Template one(const char* key, const std::optional<std::string>& text) const {
    return text ? Template(*text, origin(key)) : Template();
  }
  std::vector<Template> all(const char* key, const Texts& texts) const {
    std::vector<Template> out;
    for (const std::string& text : texts) out.emplace_back(text, origin(key));
    return out;
  }
  std::string origin(const char* key) const {
    const ConfigNode* node = node_.find(key);
    return concat(node ? node->origin() : file_, ": ", key);
  }

 private:
  const ConfigNode& node_;
  std::string file_;
};

void check_form(const Form& form, const Task& task, const std::string& origin) {
  const bool many = task.kind == Kind::kMultipleContext;
  const bool generating = task.kind == Kind::kGeneration;
  const bool choosing = task.kind != Kind::kContinuation && !generating;
  const bool continuing = task.kind != Kind::kMultipleChoice && !generating;
  PENSTOCK_CHECK(!form.has.empty(), origin,
                 ": a form needs has = [...], the fields by which its "
                 "rows are known");
  PENSTOCK_CHECK(many ? !form.contexts.empty() : form.contexts.size() == 1, origin, ": a task of ",
                 "this kind needs ", many ? "contexts = [...]" : "context = \"...\"");
  PENSTOCK_CHECK((task.kind == Kind::kMultipleChoice) == !form.choices.empty(), origin,
                 task.kind == Kind::kMultipleChoice
                     ? ": a multiple-choice task needs choices = [...]"
                     : ": only a multiple-choice task has choices");
  PENSTOCK_CHECK(continuing == !form.continuation.empty(), origin,
                 continuing ? ": a task of this kind needs continuation = \"...\""
                            : ": a task of this kind has no continuation");
  PENSTOCK_CHECK(generating == !form.answers.empty(), origin,
                 generating ? ": a generation task needs answers = [...]"
                            : ": only a generation task has answers");
  PENSTOCK_CHECK(choosing == !form.gold.empty(), origin,
                 choosing ? ": gold = \"...\" is missing: the right choice's number, from 0"
                          : ": a task of this kind chooses nothing; it has no gold");
}

/// Removes the key from the table and returns its value.
ConfigNode taken(ConfigNode::Table& table, const std::string& key) {
  const auto found = table.find(key);
  if (found == table.end()) return {};
  ConfigNode out = std::move(found->second);
  table.erase(found);
  return out;
}

Form parse_form(const ConfigNode& node, const Task& task, const std::string& file) {
  ConfigNode::Table table = node.table();
  const ConfigNode compute = taken(table, "compute");
  const auto fields = read_config<FormFields>(ConfigNode(std::move(table), node.origin()), "form");
  const TemplatesOf templates(node, file);
  const std::string origin = node.origin().empty() ? file : node.origin();
  PENSTOCK_CHECK(!fields.context || fields.contexts.empty(), origin,
                 ": give context or contexts, not both");
  Form out{.name = fields.name,
           .has = fields.has,
           .prepare = fields.prepare,
           .where = templates.all("where", fields.where),
           .contexts = templates.all("contexts", fields.contexts),
           .choices = templates.all("choices", fields.choices),
           .answers = templates.all("answers", fields.answers),
           .continuation = templates.one("continuation", fields.continuation),
           .gold = templates.one("gold", fields.gold)};
  if (fields.context) out.contexts.push_back(templates.one("context", fields.context));
  for (const auto& [name, text] : compute.table()) {
    const auto* words = std::get_if<std::string>(&text.value());
    PENSTOCK_CHECK(words, text.origin(), ": compute.", name, " must be a text, not ",
                   text.type_name());
    out.compute.emplace_back(name, Template(*words, concat(text.origin(), ": compute.", name)));
  }
  if (!out.prepare.empty()) check_preparation(out.prepare, templates.origin("prepare"));
  check_form(out, task, origin);
  return out;
}

Fewshot parse_fewshot(const ConfigNode& node) {
  const auto fields = read_config<FewshotFields>(node, "fewshot");
  return {.files = fields.files,
          .separator = fields.separator,
          .without_itself = fields.without_itself,
          .first = fields.first};
}

void check_task(const Task& task, const std::string& file) {
  PENSTOCK_CHECK(!task.name.empty() && task.name.find_first_of(", @/") == std::string::npos, file,
                 ": name = \"", task.name, "\" must be a word without commas, spaces, '@' and '/'");
  PENSTOCK_CHECK(!task.metrics.empty(), file,
                 ": metrics = [...] is missing, for example [\"acc\"]");
  for (const Metric metric : task.metrics) {
    PENSTOCK_CHECK((metric == Metric::exact_match) == (task.kind == Kind::kGeneration), file,
                   ": exact_match is the metric of generation tasks, and their only one");
    const bool normed = metric == Metric::acc_norm || metric == Metric::acc_bytes;
    PENSTOCK_CHECK(!normed || task.kind == Kind::kMultipleChoice, file, ": ", word(metric),
                   " divides by the length of a choice, and only multiple-choice tasks have those");
    PENSTOCK_CHECK(metric != Metric::perplexity || task.kind == Kind::kContinuation, file,
                   ": perplexity is of tasks of the kind \"continuation\"");
  }
}

}  // namespace

bool Task::has_metric(Metric metric) const {
  return std::ranges::find(metrics, metric) != metrics.end();
}

Task parse_task(const ConfigNode& root, const std::string& file) {
  ConfigNode::Table top = root.table();
  const ConfigNode form_list = taken(top, "form");
  const bool has_fewshot = top.contains("fewshot");
  const ConfigNode fewshot = taken(top, "fewshot");
  const auto* forms = std::get_if<ConfigNode::Array>(&form_list.value());
  PENSTOCK_CHECK(forms && !forms->empty(), file,
                 ": a task needs at least one [[form]]: how its rows are read");
  const ConfigNode keys(std::move(top), file);
  const auto fields = read_config<TaskFields>(keys);
  check_keys_count(keys, fields);
  Task out{.name = fields.name,
           .version = fields.version,
           .source = fields.source,
           .note = fields.note,
           .protocol = fields.protocol,
           .kind = fields.kind,
           .score = fields.score.value_or(usual_score(fields)),
           .description = fields.description,
           .metrics = fields.metrics,
           .files = fields.files,
           .labels = fields.labels,
           .data_sets = fields.data_sets,
           .origin = file,
           .until = fields.until,
           .max_tokens = fields.max_tokens,
           .answer_rule = fields.answer_rule};
  out.delimiter = fields.delimiter.value_or(usual_delimiter(fields, out.kind));
  if (has_fewshot) out.fewshot = parse_fewshot(fewshot);
  check_task(out, file);
  for (const ConfigNode& form : *forms) out.forms.push_back(parse_form(form, out, file));
  return out;
}

Task read_task(const std::string& path) { return parse_task(read_toml(path), path); }

}  // namespace penstock::tasks
