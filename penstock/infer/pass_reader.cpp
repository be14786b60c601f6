#include "penstock/infer/pass_reader.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/infer/prefix_slots.h"
#include "penstock/infer/session.h"
#include "penstock/models/generation_check.h"
#include "penstock/ops/rows_alone.h"

namespace penstock {
namespace {

class CacheReader : public PassReader {
 public:
  CacheReader(std::shared_ptr<LanguageModel> model, const PassReaderOptions& options)
      : model_(std::move(model)),
        sequences_(options.sequences),
        slots_(options.sequences + options.kept),
        cache_(model_->config(), options.sequences + options.kept, options.capacity,
               model_->parameters().front().options()),
        device_(model_->parameters().front().device()) {}

  std::int64_t sequences() const override { return sequences_; }
  bool divides_prompts() const override { return true; }

  std::optional<Begun> begin(std::span<const TokenId> prompt, std::int64_t,
                             const RoutingChoice& choice, std::uint64_t,
                             std::int64_t likeliest) override {
    if (slots_.in_use() >= sequences_) return std::nullopt;
    const auto taken = slots_.take(prompt, choice, likeliest);
    if (!taken) return std::nullopt;
    const c10::InferenceMode inference;
    if (taken->from == taken->slot)
      cache_.cut(taken->slot, taken->reused);
    else
      cache_.copy(taken->from, taken->slot, taken->reused);
    Begun begun{.slot = taken->slot, .reused = taken->reused};
    const auto scores = slots_.scores(taken->slot);
    if (likeliest >= 0) begun.scores.assign(scores.begin(), scores.end());
    return begun;
  }

  void add_scores(std::int64_t slot, std::span<const TokenScore> scores) override {
    slots_.add_scores(slot, scores);
  }

  at::Tensor read(std::span<const PassPart> parts, const RoutingChoice& choice,
                  const RoutingTap& tap) override {
    const c10::InferenceMode inference;  // also avoids bookkeeping for views
    const ops::RowsAlone alone;
    std::vector<CachePart> where;
    std::vector<std::int64_t> tokens, asking;
    for (const PassPart& part : parts) {
      where.push_back({.row = part.slot, .count = std::ssize(part.tokens)});
      tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
      if (part.asks) asking.push_back(std::ssize(tokens) - 1);
    }
    const at::Tensor ids = torch::tensor(tokens, torch::kLong).to(device_);
    const at::Tensor hidden =
        model_->extend_parts(ids, cache_, where, context_of(choice), tap).hidden;
    std::int64_t first = 0;
    for (const PassPart& part : parts) {
      slots_.add(part.slot, part.tokens);
      const std::int64_t count = std::ssize(part.tokens);
      if (part.each) show_logits(*model_, hidden.narrow(0, first, count), part.each);
      first += count;
    }
    if (asking.empty()) return {};
    const at::Tensor rows = hidden.index_select(0, torch::tensor(asking, torch::kLong).to(device_));
    return model_->logits(rows).to(torch::kCPU, torch::kFloat).contiguous();
  }

  void end(std::int64_t slot) override { slots_.release(slot); }
  std::int64_t kept_tokens() const override { return slots_.kept_tokens(); }

 private:
  std::shared_ptr<LanguageModel> model_;
  std::int64_t sequences_;
  PrefixSlots slots_;
  DecoderCache cache_;
  at::Device device_;
};

/// Reads one sequence at a time.
class SessionReader : public PassReader {
 public:
  explicit SessionReader(std::shared_ptr<LanguageModel> model) : model_(std::move(model)) {}

  std::int64_t sequences() const override { return 1; }
  bool divides_prompts() const override { return false; }

  std::optional<Begun> begin(std::span<const TokenId>, std::int64_t most,
                             const RoutingChoice& choice, std::uint64_t seed,
                             std::int64_t) override {
    if (session_) return std::nullopt;
    session_ =
        make_session(model_, {.sequences = 1, .capacity = most, .seed = seed, .choice = choice});
    begun_ = false;
    return Begun{};
  }

  at::Tensor read(std::span<const PassPart> parts, const RoutingChoice&,
                  const RoutingTap& tap) override {
    PENSTOCK_ASSERT(parts.size() == 1 && session_);
    const std::int64_t row = 0;
    if (std::exchange(begun_, true)) return session_->next({&row, 1}, parts[0].tokens, tap);
    return session_->begin(row, parts[0].tokens, tap, parts[0].each).unsqueeze(0);
  }

  void end(std::int64_t) override { session_.reset(); }

 private:
  std::shared_ptr<LanguageModel> model_;
  std::unique_ptr<Session> session_;
  bool begun_ = false;
};

}  // namespace

std::string one_at_a_time(const LanguageModel& model) {
  if (!model.caches()) return "the model keeps a memory in place of keys and values";
  if (!rows_stand_alone(model.config()))
    return "tokens of one pass change each other's experts (capacity, order or random draws)";
  return {};
}

std::unique_ptr<PassReader> make_pass_reader(std::shared_ptr<LanguageModel> model,
                                             const PassReaderOptions& options) {
  check_generates(model->config().router.method, model->config().traits());
  if (!one_at_a_time(*model).empty()) return std::make_unique<SessionReader>(std::move(model));
  return std::make_unique<CacheReader>(std::move(model), options);
}

}  // namespace penstock
