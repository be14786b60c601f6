#include "penstock/tasks/evaluate.h"

#include "penstock/base/error.h"
#include "penstock/infer/generate.h"
#include "penstock/models/evaluation_mode.h"
#include "penstock/tasks/fewshot.h"

namespace penstock::tasks {
namespace {

void add_accuracy(Row& out, const std::string& name, const Accuracy& accuracy) {
  out[name] = accuracy.mean;
  out[name + "_stderr"] = accuracy.stderr_of_mean ? Row(*accuracy.stderr_of_mean) : Row(nullptr);
  out[name + "_interval"] = {accuracy.low, accuracy.high};
}

/// What the model says after each prompt.
std::vector<std::string> generated_answers(const std::shared_ptr<LanguageModel>& model,
                                           const Tokenizer& tokenizer, const Task& task,
                                           const TaskTokens& requests,
                                           const EvaluateTaskOptions& options) {
  std::vector<std::vector<TokenId>> prompts;
  for (const auto& item : requests) prompts.push_back(item.front().ids);
  const EvaluationMode measuring(*model);
  double done = 0;
  const auto count = [&](const Completion&) {
    if (options.scoring.progress)
      options.scoring.progress(++done / static_cast<double>(requests.size()));
  };
  const Generation generation =
      generate_from_tokens(model, tokenizer, prompts,
                           {.max_tokens = task.max_tokens, .stop = task.until}, {.done = count});
  std::vector<std::string> out;
  for (const Completion& completion : generation.completions) out.push_back(completion.text);
  return out;
}

void check_generates(const ModelConfig& model, const Task& task,
                     const EvaluateTaskOptions& options) {
  PENSTOCK_CHECK(options.scoring.k == 0, "task ", task.name,
                 ": answers are generated with the model's own number of experts per token; leave "
                 "options.k out");
  PENSTOCK_CHECK(model.causal(), "task ", task.name, ": method '", model.router.method,
                 "' is not causal: ", kNotCausal);
  PENSTOCK_CHECK(options.sequence_length <= usual_window(model), "task ", task.name,
                 ": answers are generated within the model's window of ", usual_window(model),
                 " tokens; options.sequence_length ", options.sequence_length, " is longer");
}

}  // namespace

LoadedTask load_task(Task task, const LoadOptions& options) {
  LoadedTask out{.task = std::move(task)};
  const auto read = [&](const std::string& path, std::size_t limit) {
    const std::string labels = labels_beside(out.task, path);
    out.files.push_back(path);
    if (!labels.empty()) out.files.push_back(labels);
    return make_items(out.task, read_rows(path, labels), {.limit = limit});
  };
  const std::string data =
      options.file.empty() ? find_data(out.task, options.directory) : options.file;
  out.items = read(data, options.limit);
  if (options.shots.count == 0) return out;
  check_has_examples(out.task);
  const std::string examples = find_examples(out.task, options.directory);
  const Items pool = read(examples.empty() ? data : examples, 0);
  add_examples(out.task, pool.items, options.shots, out.items);
  return out;
}

TaskTokens encode_task(const ModelConfig& model, const Tokenizer& tokenizer,
                       const LoadedTask& loaded, const EvaluateTaskOptions& options) {
  const RequestEncoder encoder(
      tokenizer, options.sequence_length > 0 ? options.sequence_length : usual_window(model));
  const Task& task = loaded.task;
  if (task.kind == Kind::kGeneration) check_generates(model, task, options);
  TaskTokens out;
  for (const Item& item : loaded.items.items) {
    if (task.kind != Kind::kGeneration) {
      out.push_back(encoder.encode_item(item, task.score));
      continue;
    }
    TokenRequest prompt{.ids = encoder.encode_prompt(item, task.protocol, task.max_tokens)};
    prompt.scored_from = prompt.ids.size();
    out.push_back({std::move(prompt)});
  }
  return out;
}

EvaluatedTask evaluate_task(const std::shared_ptr<LanguageModel>& model, const Tokenizer& tokenizer,
                            const LoadedTask& loaded, TaskTokens requests,
                            const EvaluateTaskOptions& options) {
  const Task& task = loaded.task;
  EvaluatedTask out{.requests = std::move(requests)};
  if (task.kind == Kind::kGeneration) {
    out.scores.resize(out.requests.size(), std::vector<RequestScore>(1));
    out.result = summarize(task, loaded.items,
                           generated_answers(model, tokenizer, task, out.requests, options));
  } else {
    out.scores = score_items(*model, out.requests, options.scoring);
    out.result = summarize(task, loaded.items, out.requests, out.scores);
  }
  return out;
}

nlohmann::ordered_json to_json(const TaskResult& result) {
  Row out = Row::object();
  add_accuracy(out, "acc", result.acc);
  if (result.generated) add_accuracy(out, "exact_match", result.acc);
  if (result.acc_norm) add_accuracy(out, "acc_norm", *result.acc_norm);
  if (result.acc_bytes) add_accuracy(out, "acc_bytes", *result.acc_bytes);
  if (result.perplexity) out["perplexity"] = *result.perplexity;
  if (result.guess) out["guess"] = *result.guess;
  out["n"] = result.n;
  if (result.shots.count > 0) {
    out["fewshot"] = result.shots.count;
    out["fewshot_seed"] = result.shots.seed;
  }
  if (result.left_out > 0) out["left_out"] = result.left_out;
  out["protocol"] = result.protocol;
  out["version"] = result.version;
  if (!result.note.empty()) out["note"] = result.note;
  return out;
}

std::string item_lines(const LoadedTask& loaded, const EvaluatedTask& evaluated) {
  const bool generates = loaded.task.kind == Kind::kGeneration;
  std::string out;
  for (std::size_t i = 0; i < loaded.items.items.size(); ++i) {
    const Item& item = loaded.items.items[i];
    Row line{{"task", loaded.task.name}, {"doc", item.doc}, {"requests", Row::array()}};
    for (std::size_t r = 0; r < item.requests.size(); ++r) {
      const TokenRequest& tokens = evaluated.requests[i][r];
      const RequestScore& score = evaluated.scores[i][r];
      Row request{{"context", item.requests[r].context},
                  {"continuation", item.requests[r].continuation},
                  {"ids", tokens.ids}};
      if (!generates) {
        request["scored_from"] = tokens.scored_from;
        request["loglikelihood"] = score.loglikelihood;
        request["greedy"] = score.greedy;
      }
      line["requests"].push_back(std::move(request));
    }
    const ItemResult& result = evaluated.result.items[i];
    line["chosen"] = result.chosen;
    line["gold"] = result.gold;
    line["right"] = result.right;
    if (generates) {
      line["generated"] = result.generated;
      line["answers"] = item.answers;
    }
    out += line.dump() + "\n";
  }
  return out;
}

}  // namespace penstock::tasks
