#include "penstock/study/config/published_names.h"

#include <algorithm>

namespace penstock::study {

const std::vector<ShownSetting>& recipe_columns() {
  static const std::vector<ShownSetting> columns = {
      {"layers", "layers", "model.layers"},
      {"d_model", "width", "model.d_model"},
      {"heads", "heads", "model.heads"},
      {"kv_heads", "key heads", "model.kv_heads"},
      {"d_ffn", "FFN width", "model.d_ffn"},
      {"experts", "experts", "model.moe.experts"},
      {"sequence_length", "input length", "train.sequence_length"},
      {"batch_sequences", "batch size", "train.batch_sequences"},
      {"lr", "lr", "train.lr"},
      {"steps", "iterations", "train.steps"},
  };
  return columns;
}

bool is_shown_setting(const std::string& name) {
  const auto& columns = recipe_columns();
  return std::ranges::find(columns, name, &ShownSetting::name) != columns.end();
}

bool is_published_figure(const std::string& name) {
  return std::ranges::find(kPublishedLosses, name) != kPublishedLosses.end() ||
         std::ranges::find(kPublishedHours, name) != kPublishedHours.end();
}

std::string published_figure_names() {
  return "loss (validation), settled (step), hours-1, hours-2, hours-3, hours (of the stages)";
}

}  // namespace penstock::study
