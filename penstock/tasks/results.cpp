#include "penstock/tasks/results.h"

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/eval/accuracy_interval.h"

namespace penstock::tasks {
namespace {

/// The index of the largest value, each divided by its length. Among equal values the first counts.
int likeliest(const std::vector<double>& values, const std::vector<double>& lengths = {}) {
  std::size_t best = 0;
  const auto value = [&](std::size_t i) {
    return lengths.empty() ? values[i] : values[i] / lengths[i];
  };
  for (std::size_t i = 1; i < values.size(); ++i)
    if (value(i) > value(best)) best = i;
  return static_cast<int>(best);
}

ItemResult choose(const Task& task, const Item& item, const std::vector<TokenRequest>& requests,
                  const std::vector<RequestScore>& scores) {
  if (task.kind == Kind::kContinuation) return {.right = scores.front().greedy};
  std::vector<double> values;
  for (std::size_t i = 0; i < scores.size(); ++i)
    values.push_back(choice_value(task.score, requests[i], scores[i]));
  ItemResult out{.chosen = likeliest(values), .gold = item.gold};
  out.right = out.chosen == item.gold;
  if (task.has_metric(Metric::acc_norm))
    out.right_norm = likeliest(values, item.characters) == item.gold;
  if (task.has_metric(Metric::acc_bytes))
    out.right_bytes = likeliest(values, item.bytes) == item.gold;
  return out;
}

TaskResult empty_result(const Task& task, const Items& items) {
  return {.name = task.name,
          .version = task.version,
          .note = task.note,
          .protocol = task.protocol,
          .shots = items.shots,
          .n = items.items.size(),
          .left_out = items.left_out};
}

Accuracy accuracy_by(const std::vector<ItemResult>& items, bool ItemResult::*right) {
  return accuracy_of(static_cast<std::size_t>(std::ranges::count(items, true, right)),
                     items.size());
}

}  // namespace

double choice_value(Score rule, const TokenRequest& request, const RequestScore& score) {
  const auto tokens = static_cast<double>(request.ids.size());
  if (rule == Score::kWholeText) return score.loglikelihood / tokens;
  if (rule == Score::kRestByCount)
    return score.loglikelihood / (tokens - static_cast<double>(request.scored_from));
  return score.loglikelihood;
}

Accuracy accuracy_of(std::size_t right, std::size_t count) {
  PENSTOCK_ASSERT(count > 0);
  const auto n = static_cast<double>(count);
  const double p = static_cast<double>(right) / n;
  const AccuracyInterval interval = accuracy_interval(p, n);
  Accuracy out{.mean = p, .stderr_of_mean = {}, .low = interval.low, .high = interval.high};
  if (count > 1) out.stderr_of_mean = std::sqrt(p * (1 - p) / (n - 1));
  return out;
}

bool TaskResult::is_guessing() const { return guess && acc.low <= *guess && *guess <= acc.high; }

TaskResult summarize(const Task& task, const Items& items, std::vector<std::string> generated) {
  TaskResult out = empty_result(task, items);
  out.generated = true;
  for (std::size_t i = 0; i < generated.size(); ++i)
    out.items.push_back(
        {.right = is_right_answer(task.answer_rule, generated[i], items.items[i].answers),
         .generated = std::move(generated[i])});
  out.acc = accuracy_by(out.items, &ItemResult::right);
  return out;
}

TaskResult summarize(const Task& task, const Items& items,
                     const std::vector<std::vector<TokenRequest>>& requests,
                     const std::vector<std::vector<RequestScore>>& scores) {
  TaskResult out = empty_result(task, items);
  double nats = 0, guess = 0;
  for (std::size_t i = 0; i < items.items.size(); ++i) {
    out.items.push_back(choose(task, items.items[i], requests[i], scores[i]));
    nats -= scores[i].front().loglikelihood;
    guess += 1 / static_cast<double>(items.items[i].choices());
  }
  const auto n = static_cast<double>(out.n);
  out.acc = accuracy_by(out.items, &ItemResult::right);
  if (task.has_metric(Metric::acc_norm))
    out.acc_norm = accuracy_by(out.items, &ItemResult::right_norm);
  if (task.has_metric(Metric::acc_bytes))
    out.acc_bytes = accuracy_by(out.items, &ItemResult::right_bytes);
  if (task.has_metric(Metric::perplexity)) out.perplexity = std::exp(nats / n);
  if (task.kind != Kind::kContinuation) out.guess = guess / n;
  return out;
}

}  // namespace penstock::tasks
