#include "penstock/infer/session.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/models/generation_check.h"

namespace penstock {
namespace {

at::Tensor token_tensor(std::span<const TokenId> tokens, std::int64_t rows, at::Device device) {
  at::Tensor out =
      torch::empty({rows, std::ssize(tokens) / std::max<std::int64_t>(1, rows)}, torch::kLong);
  std::ranges::copy(tokens, out.data_ptr<std::int64_t>());
  return out.to(device);
}

/// The model's device. Sessions call this only once: listing a model's parameters takes as long as
/// some layers.
at::Device device_of(const LanguageModel& model) { return model.parameters().front().device(); }

at::Tensor on_cpu(const at::Tensor& logits) {
  return logits.to(torch::kCPU, torch::kFloat).contiguous();
}

RoutingContext context_for(const SessionOptions& options) {
  RoutingContext context = context_of(options.choice);
  context.generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  return context;
}

class CacheSession : public RewindableSession {
 public:
  CacheSession(std::shared_ptr<LanguageModel> model, const SessionOptions& options)
      : model_(std::move(model)),
        cache_(model_->config(), options.sequences, options.capacity,
               model_->parameters().front().options()),
        context_(context_for(options)),
        device_(device_of(*model_)) {}

  at::Tensor begin(std::int64_t row, std::span<const TokenId> tokens, const RoutingTap& tap,
                   const LogitsTap& each) override {
    PENSTOCK_CHECK(!tokens.empty(), "a sequence begins with one token or more");
    const c10::InferenceMode inference;  // also avoids bookkeeping for views
    cache_.clear(row);
    const at::Tensor hidden = extended({&row, 1}, tokens, tap);
    if (each) show_logits(*model_, hidden, each);
    return on_cpu(model_->logits(hidden.narrow(0, std::ssize(tokens) - 1, 1))[0]);
  }

  at::Tensor next(std::span<const std::int64_t> rows, std::span<const TokenId> tokens,
                  const RoutingTap& tap) override {
    PENSTOCK_CHECK(rows.size() == tokens.size(), tokens.size(), " tokens for ", rows.size(),
                   " sequences");
    const c10::InferenceMode inference;  // also avoids bookkeeping for views
    return on_cpu(model_->logits(extended(rows, tokens, tap)));
  }

  at::Tensor read(std::int64_t row, std::span<const TokenId> tokens) override {
    PENSTOCK_CHECK(!tokens.empty(), "a pass reads one token or more");
    const c10::InferenceMode inference;  // also avoids bookkeeping for views
    return on_cpu(model_->logits(extended({&row, 1}, tokens, {})));
  }

  void rewind(std::int64_t row, std::int64_t length) override { cache_.cut(row, length); }

 private:
  /// The head's input rows for the same number of further tokens of each of these sequences.
  at::Tensor extended(std::span<const std::int64_t> rows, std::span<const TokenId> tokens,
                      const RoutingTap& tap) {
    return model_
        ->extend(token_tensor(tokens, std::ssize(rows), device_), cache_, rows, context_, tap)
        .hidden;
  }

  std::shared_ptr<LanguageModel> model_;
  DecoderCache cache_;
  RoutingContext context_;
  at::Device device_;
};

/// Reads sequences one by one, because their memories have different lengths.
class MemorySession : public Session {
 public:
  MemorySession(std::shared_ptr<LanguageModel> model, const SessionOptions& options)
      : model_(std::move(model)),
        memories_(static_cast<std::size_t>(options.sequences)),
        context_(context_for(options)),
        device_(device_of(*model_)) {}

  at::Tensor begin(std::int64_t row, std::span<const TokenId> tokens, const RoutingTap& tap,
                   const LogitsTap& each) override {
    PENSTOCK_CHECK(!tokens.empty(), "a sequence begins with one token or more");
    memory(row).clear();
    const auto segment = static_cast<std::size_t>(std::max<std::int64_t>(
        1, model_->config().context > 0 ? model_->config().context : std::ssize(tokens)));
    for (; tokens.size() > segment; tokens = tokens.subspan(segment))
      read(row, tokens.first(segment), {}, each);
    return read(row, tokens, tap, each);
  }

  at::Tensor next(std::span<const std::int64_t> rows, std::span<const TokenId> tokens,
                  const RoutingTap& tap) override {
    PENSTOCK_CHECK(rows.size() == tokens.size(), tokens.size(), " tokens for ", rows.size(),
                   " sequences");
    std::vector<at::Tensor> logits;
    for (std::size_t i = 0; i < rows.size(); ++i)
      logits.push_back(read(rows[i], tokens.subspan(i, 1), tap, {}));
    return torch::stack(logits);
  }

 private:
  ModelMemory& memory(std::int64_t row) { return memories_.at(static_cast<std::size_t>(row)); }

  /// The logits after the last token.
  at::Tensor read(std::int64_t row, std::span<const TokenId> tokens, const RoutingTap& tap,
                  const LogitsTap& each) {
    const c10::InferenceMode inference;  // also avoids bookkeeping for views
    ModelOutput out = model_->forward(
        {.tokens = token_tensor(tokens, 1, device_), .memory = std::move(memory(row))}, context_,
        tap);
    memory(row) = std::move(out.memory);
    if (each) show_logits(*model_, out.hidden, each);
    return on_cpu(model_->logits(out.hidden.narrow(0, std::ssize(tokens) - 1, 1))[0]);
  }

  std::shared_ptr<LanguageModel> model_;
  std::vector<ModelMemory> memories_;
  RoutingContext context_;
  at::Device device_;
};

}  // namespace

std::unique_ptr<Session> make_session(std::shared_ptr<LanguageModel> model,
                                      const SessionOptions& options) {
  check_generates(model->config().router.method, model->config().traits());
  if (model->caches()) return std::make_unique<CacheSession>(std::move(model), options);
  return std::make_unique<MemorySession>(std::move(model), options);
}

std::unique_ptr<RewindableSession> make_rewindable_session(std::shared_ptr<LanguageModel> model,
                                                           const SessionOptions& options) {
  check_generates(model->config().router.method, model->config().traits());
  PENSTOCK_CHECK(model->caches(), "Transformer-XL's memory cannot take back what it has read");
  return std::make_unique<CacheSession>(std::move(model), options);
}

bool rows_stand_alone(const ModelConfig& config) {
  if (config.moe_layers() == 0) return true;
  const RouterTraits traits = config.traits();
  return !traits.drops && !traits.order_matters && !traits.stochastic;
}

}  // namespace penstock
