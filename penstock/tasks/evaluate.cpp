#include "penstock/tasks/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/infer/generate.h"
#include "penstock/models/evaluation_mode.h"
#include "penstock/tasks/fewshot.h"
#include "penstock/tasks/requests.h"

namespace penstock::tasks {
namespace {

void add_accuracy(Row& out, const std::string& name, const Accuracy& accuracy) {
  out[name] = accuracy.mean;
  out[name + "_stderr"] = accuracy.stderr_of_mean ? Row(*accuracy.stderr_of_mean) : Row(nullptr);
  out[name + "_interval"] = {accuracy.low, accuracy.high};
}

/// The text that the model generates after each prompt.
std::vector<Answer> generated_answers(const std::shared_ptr<LanguageModel>& model,
                                      const Tokenizer& tokenizer, const Task& task,
                                      const TaskTokens& requests, const ScoringOptions& options) {
  std::vector<std::vector<TokenId>> prompts;
  for (const auto& item : requests) prompts.push_back(item.front().ids);
  const EvaluationMode measuring(*model);
  double done = 0;
  const auto count = [&](const Completion&) {
    if (options.progress) options.progress(++done / static_cast<double>(requests.size()));
  };
  const Generation generation =
      generate_from_tokens(model, tokenizer, prompts,
                           {.max_tokens = task.max_tokens, .stop = task.until}, {.done = count});
  std::vector<Answer> out;
  for (const Completion& completion : generation.completions)
    out.push_back({.generated = completion.text});
  return out;
}

std::vector<Answer> answers_of(const std::shared_ptr<LanguageModel>& model,
                               const Tokenizer& tokenizer, const Task& task,
                               const TaskTokens& requests, const ScoringOptions& options) {
  if (task.kind == Kind::kGeneration)
    return generated_answers(model, tokenizer, task, requests, options);
  std::vector<Answer> out;
  for (auto& scores : score_items(*model, requests, options))
    out.push_back({.scores = std::move(scores)});
  return out;
}

constexpr std::size_t kPieceTokens = 16384;

/// Groups of items whose answers are logged together. Items of a group have similar lengths and
/// share passes.
std::vector<std::vector<std::size_t>> pieces_of(const std::vector<std::size_t>& tokens) {
  std::vector<std::size_t> order(tokens.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return tokens[i]; });
  std::vector<std::vector<std::size_t>> out;
  std::size_t room = 0;
  for (const std::size_t i : order) {
    if (room < tokens[i] || out.empty()) {
      out.emplace_back();
      room = kPieceTokens;
    }
    out.back().push_back(i);
    room -= std::min(room, tokens[i]);
  }
  return out;
}

std::vector<std::size_t> tokens_by_item(const Task& task, const TaskTokens& requests) {
  std::vector<std::size_t> out;
  for (const auto& item : requests) {
    out.push_back(task.kind == Kind::kGeneration ? static_cast<std::size_t>(task.max_tokens) : 0);
    for (const TokenRequest& request : item) out.back() += request.ids.size();
  }
  return out;
}

/// Returns the answers that the log has, and computes the others. The log gets the new answers
/// piece by piece.
std::vector<Answer> logged_answers(const std::shared_ptr<LanguageModel>& model,
                                   const Tokenizer& tokenizer, const Task& task,
                                   const TaskTokens& requests, const EvaluateTaskOptions& options) {
  const std::vector<std::size_t> tokens = tokens_by_item(task, requests);
  const auto total = static_cast<double>(std::reduce(tokens.begin(), tokens.end()));
  double done = 0;
  std::vector<Answer> out(requests.size());
  for (const auto& piece : pieces_of(tokens)) {
    std::vector<std::size_t> missing;
    TaskTokens asked;
    double more = 0;
    for (const std::size_t i : piece) {
      more += static_cast<double>(tokens[i]);
      if (const Answer* known = options.log->find(options.place, i)) {
        const std::size_t scored = task.kind == Kind::kGeneration ? 0 : requests[i].size();
        PENSTOCK_CHECK(known->scores.size() == scored, "task ", task.name, ": ",
                       known->scores.size(), " scores are kept of an item with ", scored,
                       "; remove the kept answers to begin anew");
        out[i] = *known;
        continue;
      }
      missing.push_back(i);
      asked.push_back(requests[i]);
    }
    ScoringOptions scoring = options.scoring;
    if (scoring.progress)
      scoring.progress = [&](double part) {
        options.scoring.progress((done + part * more) / total);
      };
    if (!missing.empty()) {
      const auto answers = answers_of(model, tokenizer, task, asked, scoring);
      for (std::size_t m = 0; m < missing.size(); ++m) {
        out[missing[m]] = answers[m];
        options.log->add(options.place, missing[m], answers[m]);
      }
      options.log->sync();
    }
    done += more;
  }
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

AskedTask asked_task(const LoadedTask& loaded, const TaskTokens& requests, std::string model) {
  Xxh64 sum;
  const auto add = [&](const auto& value) { sum.update(std::as_bytes(std::span(&value, 1))); };
  for (const std::string& end : loaded.task.until) sum.update(bytes_of(end + '\n'));
  add(loaded.task.max_tokens);
  for (const auto& item : requests) {
    add(item.size());
    for (const TokenRequest& request : item) {
      add(request.ids.size());
      add(request.scored_from);
      sum.update(std::as_bytes(std::span(request.ids)));
    }
  }
  return {.model = std::move(model),
          .task = versioned_name(loaded.task.name, loaded.task.version),
          .protocol = std::string(word(loaded.task.protocol)),
          .requests = fmt::format("{:016x}", sum.value())};
}

EvaluatedTask evaluate_task(const std::shared_ptr<LanguageModel>& model, const Tokenizer& tokenizer,
                            const LoadedTask& loaded, TaskTokens requests,
                            const EvaluateTaskOptions& options) {
  const Task& task = loaded.task;
  EvaluatedTask out{.requests = std::move(requests)};
  std::vector<Answer> answers =
      options.log ? logged_answers(model, tokenizer, task, out.requests, options)
                  : answers_of(model, tokenizer, task, out.requests, options.scoring);
  std::vector<std::string> generated;
  for (Answer& answer : answers) {
    generated.push_back(std::move(answer.generated));
    out.scores.push_back(std::move(answer.scores));
  }
  out.result = task.kind == Kind::kGeneration
                   ? summarize(task, loaded.items, std::move(generated))
                   : summarize(task, loaded.items, out.requests, out.scores);
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
  out["protocol"] = word(result.protocol);
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
      Row request{{"context", item.requests[r].context},
                  {"continuation", item.requests[r].continuation}};
      if (generates)
        request["ids"] = tokens.ids;
      else
        add_score(request, tokens, evaluated.scores[i][r]);
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
    out += json_text(line) + "\n";
  }
  return out;
}

}  // namespace penstock::tasks
