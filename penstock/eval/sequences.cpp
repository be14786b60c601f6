#include "penstock/eval/sequences.h"

#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/eval/passes.h"
#include "penstock/models/evaluation_mode.h"

namespace penstock {
namespace {

constexpr std::int64_t kMostRows = 64;

/// The inputs [B, T], which are all ids of each sequence but the last, and the targets [B·T], which
/// are all ids but the first.
std::pair<at::Tensor, at::Tensor> inputs_and_targets(std::span<const TokenSequence> sequences,
                                                     std::span<const std::size_t> chosen) {
  std::vector<std::int64_t> inputs, targets;
  for (const std::size_t i : chosen) {
    const auto& ids = sequences[i].ids;
    inputs.insert(inputs.end(), ids.begin(), ids.end() - 1);
    targets.insert(targets.end(), ids.begin() + 1, ids.end());
  }
  return {torch::tensor(inputs, torch::kLong).view({std::ssize(chosen), -1}),
          torch::tensor(targets, torch::kLong)};
}

}  // namespace

void check_ids(std::span<const TokenId> ids, std::int64_t vocab) {
  for (const TokenId id : ids)
    PENSTOCK_CHECK(id >= 0 && id < vocab, "the tokenizer gives the id ", id,
                   ", and the model's vocabulary has ", vocab,
                   " entries: it is another model's tokenizer");
}

std::vector<std::vector<double>> score_sequences(LanguageModel& model,
                                                 std::span<const TokenSequence> sequences,
                                                 const SequenceOptions& options) {
  std::vector<std::size_t> lengths, all(sequences.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const TokenSequence& sequence : sequences) {
    PENSTOCK_ASSERT(sequence.ids.size() >= 2 && sequence.first_scored >= 1,
                    "a token is scored after another");
    check_ids(sequence.ids, model.config().vocab);
    lengths.push_back(sequence.ids.size() - 1);
  }
  const auto groups = groups_of_equal_length(
      lengths, all, reads_across_texts(model.config()) ? 1 : kMostRows, options.most_tokens);
  const std::size_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  const std::int64_t whole = whole_segments(model.config(), static_cast<std::int64_t>(longest));
  const EvaluationMode measuring(model);
  const at::Device device = model.parameters().front().device();
  std::vector<std::vector<double>> out(sequences.size());
  LossTotals totals;
  for (std::size_t pass = 0; pass < groups.size(); ++pass) {
    const auto [inputs, targets] = inputs_and_targets(sequences, groups[pass]);
    const at::Tensor nats = score_pass(model, {.tokens = inputs.to(device)}, targets.to(device),
                                       whole, {.k = options.k})
                                .nats;
    const auto* row = nats.data_ptr<double>();
    for (const std::size_t i : groups[pass]) {
      for (auto t = static_cast<std::size_t>(sequences[i].first_scored); t <= lengths[i]; ++t) {
        out[i].push_back(-row[t - 1]);
        totals.nats += row[t - 1];
      }
      totals.tokens += std::ssize(out[i]);
      row += lengths[i];
    }
    if (options.progress)
      options.progress(static_cast<double>(pass + 1) / static_cast<double>(groups.size()), totals);
  }
  return out;
}

}  // namespace penstock
