#include "penstock/study/runs/run_row.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "penstock/models/model_config.h"
#include "penstock/routers/logged_states.h"
#include "penstock/study/statistics.h"

namespace penstock::study {

bool steered(const std::map<std::string, Curve>& curves) {
  return std::ranges::any_of(curves,
                             [](const auto& curve) { return steers_sparsity(curve.first); });
}

double imbalance(const Matrix& load) {
  double sum = 0, layers = 0;
  for (const auto& layer : load)
    if (const Spread s = spread(layer); s.mean > 0 && s.sd) {
      sum += *s.sd / s.mean;
      ++layers;
    }
  return layers > 0 ? sum / layers : NAN;
}

std::optional<std::string> auxiliary_loss(const std::string& curve) {
  if (!curve.starts_with(kAuxiliaryLosses)) return std::nullopt;
  return curve.substr(kAuxiliaryLosses.size());
}

double RunRow::tokens_per_step() const {
  double tokens = 1;
  for (const char* key : {"train.batch_sequences", "train.sequence_length"}) {
    const auto it = settings.find(key);
    tokens *= it == settings.end() ? 0 : std::atof(it->second.c_str());
  }
  return tokens;
}

std::int64_t RunRow::model_layer(std::size_t l) const {
  MoeConfig moe;
  for (const auto& [key, value] : {std::pair("model.moe.dense_layers", &moe.dense_layers),
                                   std::pair("model.moe.every", &moe.every)})
    if (const auto it = settings.find(key); it != settings.end())
      *value = std::atoll(it->second.c_str());
  return moe.layer_of(static_cast<std::int64_t>(l));
}

std::optional<double> Evaluation::active_experts() const {
  if (active_by_layer.empty()) return std::nullopt;
  return std::accumulate(active_by_layer.begin(), active_by_layer.end(), 0.0) /
         static_cast<double>(active_by_layer.size());
}

}  // namespace penstock::study
