#include "penstock/finetune/score.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/eval/passes.h"
#include "penstock/finetune/text_order.h"
#include "penstock/models/evaluation_mode.h"

namespace penstock {
namespace {

/// The most texts and tokens of a pass in evaluation. They do not change results.
constexpr std::int64_t kMostTexts = 64, kMostTokens = 4096;

void count(const at::Tensor& logits, const EncodedSet& set, std::span<const std::size_t> texts,
           ClassificationScore& out) {
  const at::Tensor z = logits.to(at::kCPU, at::kDouble).contiguous();  // [B, C]
  const auto classes = static_cast<std::size_t>(z.size(1));
  const auto* values = z.data_ptr<double>();
  for (std::size_t row = 0; row < texts.size(); ++row, values += classes) {
    const auto label = static_cast<std::size_t>(set.labels[texts[row]]);
    const auto best = static_cast<std::size_t>(std::max_element(values, values + classes) - values);
    double sum = 0;
    for (std::size_t c = 0; c < classes; ++c) sum += std::exp(values[c] - values[best]);
    out.nats += values[best] + std::log(sum) - values[label];
    ++out.confusion[label][best];
    ++out.texts;
  }
}

}  // namespace

at::Tensor stack_texts(const EncodedSet& set, std::span<const std::size_t> texts) {
  const auto length = static_cast<std::int64_t>(set.texts[texts.front()].size());
  at::Tensor out = torch::empty({std::ssize(texts), length}, torch::kLong);
  auto* to = out.data_ptr<std::int64_t>();
  for (const std::size_t i : texts) {
    PENSTOCK_ASSERT(std::ssize(set.texts[i]) == length, "texts of a pass have one length");
    to = std::ranges::copy(set.texts[i], to).out;
  }
  return out;
}

std::int64_t ClassificationScore::correct() const {
  std::int64_t out = 0;
  for (std::size_t c = 0; c < confusion.size(); ++c) out += confusion[c][c];
  return out;
}
double ClassificationScore::accuracy() const {
  return texts > 0 ? static_cast<double>(correct()) / static_cast<double>(texts) : 0;
}
double ClassificationScore::loss() const {
  return texts > 0 ? nats / static_cast<double>(texts) : 0;
}
double ClassificationScore::macro_f1() const {
  double sum = 0;
  int seen = 0;
  for (std::size_t c = 0; c < confusion.size(); ++c) {
    std::int64_t truly = 0, predicted = 0;
    for (std::size_t other = 0; other < confusion.size(); ++other) {
      truly += confusion[c][other];
      predicted += confusion[other][c];
    }
    if (truly + predicted == 0) continue;
    sum += 2 * static_cast<double>(confusion[c][c]) / static_cast<double>(truly + predicted);
    ++seen;
  }
  return seen > 0 ? sum / seen : 0;
}

ClassificationScore score(Classifier& classifier, const EncodedSet& set,
                          const ScoreOptions& options) {
  const EvaluationMode measuring(classifier);
  ClassificationScore out;
  const auto classes = static_cast<std::size_t>(classifier.classes());
  out.confusion.assign(classes, std::vector<std::int64_t>(classes));
  TextIndices all(set.texts.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<TextIndices> passes;
  const auto rows = static_cast<std::size_t>(options.carried_rows);
  if (rows > 0) {
    for (std::size_t i = 0; i < all.size() / rows * rows; ++i) passes.push_back({i});
  } else {
    const bool alone = reads_across_texts(classifier.body().config());
    passes = groups_of_equal_length(set.lengths(), all, alone ? 1 : kMostTexts, kMostTokens);
  }
  std::vector<ModelMemory> memory(rows);
  for (std::size_t pass = 0; pass < passes.size(); ++pass) {
    ClassifierInput input{.tokens = stack_texts(set, passes[pass]),
                          .memory_length = options.memory_length};
    if (rows > 0) input.memory = std::move(memory[pass % rows]);
    ClassifierOutput result = classifier.forward(input, {.k = options.k});
    if (rows > 0) memory[pass % rows] = std::move(result.memory);
    count(result.logits, set, passes[pass], out);
    if (options.progress)
      options.progress(static_cast<double>(pass + 1) / static_cast<double>(passes.size()), out);
  }
  return out;
}

}  // namespace penstock
