#include "penstock/analysis/probe.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "penstock/data/corpus/batches.h"
#include "penstock/eval/passes.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/evaluation_mode.h"

namespace penstock::analysis {
namespace {

// The most bytes of a token's context.
constexpr std::size_t kContextBytes = 24;

/// `count` evenly spaced indices from 0 to size − 1, with the last index.
at::Tensor evenly_spaced(std::int64_t size, std::int64_t count) {
  count = std::min(count, size);
  std::vector<std::int64_t> out;
  for (std::int64_t i = 1; i <= count; ++i) out.push_back(i * size / count - 1);
  return torch::tensor(out, at::kLong);
}

/// The last bytes of the text of the tokens inputs[begin] to inputs[end].
std::string context_text(const Corpus& corpus, const std::vector<std::int64_t>& inputs,
                         std::int64_t begin, std::int64_t end) {
  std::string text;
  const auto first = std::max(begin, end - static_cast<std::int64_t>(kContextBytes));
  for (std::int64_t i = first; i <= end; ++i)
    corpus.tokenizer().decode(static_cast<TokenId>(inputs[static_cast<std::size_t>(i)]), text);
  return text.size() > kContextBytes ? text.substr(text.size() - kContextBytes) : text;
}

}  // namespace

at::Tensor dense_gates(const Plan& plan) {
  const at::Tensor gates = at::zeros({plan.tokens, plan.experts}, plan.weight.options());
  return gates.index_put({plan.token, plan.expert}, plan.weight);
}

Probe probe(LanguageModel& model, const Corpus& corpus, const ProbeOptions& options) {
  const EvaluationMode measuring(model);
  const std::int64_t length = options.sequence_length;
  const Batch batch =
      EvaluationWindows(
          corpus, options.split,
          {.sequence_length = length,
           .batch_sequences = std::max<std::int64_t>(1, (options.tokens + length - 1) / length),
           .max_tokens = options.tokens})
          .batch(0);
  const at::Tensor rows = evenly_spaced(std::ssize(batch.inputs), options.tokens);
  const at::Device device = model.parameters().front().device();
  Probe out;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const auto row = rows[i].item<std::int64_t>();
    out.tokens.push_back(batch.inputs[static_cast<std::size_t>(row)]);
    out.contexts.push_back(
        context_text(corpus, batch.inputs, row / batch.length * batch.length, row));
  }
  ModelInput input = to_tensors(batch, device).input;
  input.memory_length = 0;
  // A merging router's passes pad each sequence to whole segments.
  const std::int64_t whole = whole_segments(model.config(), batch.length);
  const at::Tensor places =
      rows.div(batch.length, "trunc").mul(whole).add(rows.remainder(batch.length));
  hidden_pass(model, std::move(input), whole, options.context,
              [&](std::int64_t, const RoutingResult& result) {
                const auto take = [&](const at::Tensor& all) {
                  return all.to(at::kCPU).index_select(0, places).contiguous();
                };
                LayerProbe& layer = out.layers.emplace_back();
                layer.hidden = take(result.hidden);
                const at::Tensor& logits = result.scores.logits;
                if (logits.defined() && logits.size(0) == result.hidden.size(0))
                  layer.logits = take(logits);
                if (!result.plan.merges()) layer.gates = take(dense_gates(result.plan));
              });
  return out;
}

at::Tensor parameter_rows(const Experts& experts) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& parameter : experts.parameters())
    out.push_back(parameter.detach().flatten(1));
  return at::cat(out, 1);
}

}  // namespace penstock::analysis
