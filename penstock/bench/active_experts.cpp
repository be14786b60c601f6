#include "penstock/bench/active_experts.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"

namespace penstock::bench {

double shift_for(const at::Tensor& logits, double target) {
  const at::Tensor flat = logits.detach().to(at::kCPU, at::kFloat).flatten().contiguous();
  std::vector<float> values(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
  if (values.empty()) return 0;
  const auto count = std::clamp<std::int64_t>(
      std::llround(target * static_cast<double>(logits.size(0))), 0, flat.numel());
  const auto middle = values.begin() + count;  // in descending order
  if (count == 0) return -1.0 - *std::ranges::max_element(values);
  if (count == flat.numel()) return 1.0 - *std::ranges::min_element(values);
  std::nth_element(values.begin(), middle, values.end(), std::greater());
  const double smallest_on = *std::min_element(values.begin(), middle);
  return -(smallest_on + static_cast<double>(*middle)) / 2;
}

struct ActiveExperts::Shifts {
  double target = 0;
  bool finding = true;
  std::vector<double> found;
  std::size_t next = 0;  // index in `found`, for repeat()

  double of(const at::Tensor& logits) {
    if (finding) return found.emplace_back(shift_for(logits, target));
    PENSTOCK_ASSERT(!found.empty(), "shifts are found before they are repeated");
    return found[next++ % found.size()];
  }
};

/// A scorer with a constant added to all its logits.
class ActiveExperts::ShiftedScorer : public Scorer {
 public:
  ShiftedScorer(std::shared_ptr<Scorer> scorer, std::shared_ptr<Shifts> shifts)
      : scorer_(register_module("scorer", std::move(scorer))), shifts_(std::move(shifts)) {}

  Scores score(const at::Tensor& hidden, const RoutingContext& context) override {
    Scores scores = scorer_->score(hidden, context);
    scores.logits = scores.logits + shifts_->of(scores.logits.detach());
    return scores;
  }
  void initialize(double std, const InitialDraws& draws) override {
    scorer_->initialize(std, draws);
  }
  std::int64_t multiply_adds_per_token() const override {
    return scorer_->multiply_adds_per_token();
  }

 private:
  std::shared_ptr<Scorer> scorer_;
  std::shared_ptr<Shifts> shifts_;
};

ActiveExperts::ActiveExperts(double target, const std::vector<MoeLayer*>& layers)
    : shifts_(std::make_shared<Shifts>(Shifts{.target = target})) {
  for (MoeLayer* const layer : layers)
    layer->router().wrap_scorer([this](std::shared_ptr<Scorer> scorer) {
      return std::make_shared<ShiftedScorer>(std::move(scorer), shifts_);
    });
}

void ActiveExperts::find() {
  shifts_->finding = true;
  shifts_->found.clear();
}

void ActiveExperts::repeat() {
  shifts_->finding = false;
  shifts_->next = 0;
}

}  // namespace penstock::bench
