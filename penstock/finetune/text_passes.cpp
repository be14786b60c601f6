#include "penstock/finetune/text_passes.h"

#include <torch/types.h>

#include "penstock/base/random.h"
#include "penstock/eval/passes.h"
#include "penstock/finetune/score.h"

namespace penstock {
namespace {

// The most tokens of a pass in training. Balancing statistics are counted by pass, so the limit
// must not depend on memory.
constexpr std::int64_t kPassTokens = std::int64_t{1} << 20;

}  // namespace

TextPasses::TextPasses(Classifier& classifier, const EncodedSet& texts, const TextIndices& batch,
                       const FinetuneConfig& config, std::uint64_t draw_seed)
    : classifier_(classifier),
      texts_(texts),
      config_(config),
      draw_seed_(draw_seed),
      batch_(static_cast<double>(batch.size())) {
  if (config.train_memory > 0)
    for (const std::size_t text : batch) passes_.push_back({text});
  else
    passes_ = groups_of_equal_length(texts.lengths(), batch, config.batch, kPassTokens);
}

PartShare TextPasses::share(std::size_t part) const {
  return {.weight = static_cast<double>(passes_[part].size()) / batch_};
}

ClassifierInput TextPasses::input(const PartInput& part) const {
  return {.tokens = stack_texts(texts_, passes_[part.index]),
          .memory = part.memory,
          .memory_length = config_.train_memory,
          .dropout_seed = static_cast<std::int64_t>(random_bits(draw_seed_, 1, part.index) >> 1)};
}

PartOutcome TextPasses::forward(const PartInput& part, StepReport& report) {
  const TextIndices& texts = passes_[part.index];
  ClassifierInput given = input(part);
  given.watch = part.watch;
  ClassifierOutput found = classifier_.forward(given, part.context, part.tap);
  std::vector<std::int64_t> labels;
  for (const std::size_t i : texts) labels.push_back(texts_.labels[i]);
  const at::Tensor targets = torch::tensor(labels, torch::kLong);  // [B]
  const at::Tensor loss = at::cross_entropy_loss(found.logits, targets);
  report.accuracy +=
      static_cast<double>(found.logits.argmax(1).eq(targets).sum().item<std::int64_t>()) / batch_;
  report.texts += std::ssize(texts);
  report.tokens += given.tokens.numel();
  PartOutcome out{.objective = loss, .loss = loss.item<double>()};
  if (config_.auxiliary_losses && found.auxiliary_loss.defined())
    out.objective = loss + found.auxiliary_loss;
  if (config_.train_memory > 0) out.memory = std::move(found.memory);
  return out;
}

void TextPasses::replay(const PartInput& part, const HiddenTap& tap) {
  classifier_.forward(input(part), part.context, {}, tap);
}

}  // namespace penstock
