// The certificate of an export: how the file, read back, agrees with the model on the same tokens,
// and the export's verdict.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// A model's logits and chosen experts over windows of tokens.
struct Observed {
  at::Tensor logits;               ///< [T, V] f32
  std::vector<at::Tensor> chosen;  ///< by MoE layer, [T, E] bool
  std::vector<at::Tensor> router;  ///< by MoE layer, the router's logits [T, E]
};

/// Runs the model over rows [B, T] i64 in evaluation mode.
Observed observe(LanguageModel& model, const at::Tensor& tokens);

/// The agreement of two models.
struct Agreement {
  std::int64_t tokens = 0;
  double largest_logit = 0;         ///< max |logit| of the first
  double max_logit_difference = 0;  ///< over tokens and vocabulary
  /// share of tokens whose highest logit is at the same vocabulary entry
  double same_top_token = 1;
  double same_experts = 1;  ///< share of (layer, token) with the same experts; 1 if dense
  /// Tokens whose experts differ without a tie, counted in the first layer with different experts.
  /// It is not a tie if the first model's router logits around rank k differ by more than 1e-4 of
  /// the largest. Later layers are not counted, because a different expert changes their inputs.
  std::int64_t differ_beyond_ties = 0;
};

/// REQUIRES: the same tokens, vocabulary, layers and experts (asserted).
Agreement compare(const Observed& ours, const Observed& theirs);

enum class ExportVerdict {
  exact,   ///< the file computes the same function
  fitted,  ///< the same except for routers' biases, which are fitted into the matrices on a text
};
constexpr std::array<std::string_view, 2> words(ExportVerdict) { return {"exact", "fitted"}; }

struct Certificate {
  ExportFormat format = ExportFormat::kHuggingFace;
  std::string architecture, path;
  ExportDtype dtype = ExportDtype::kF32;
  std::optional<ExportDtype> asked_dtype;  ///< the requested type, if the file has another
  ExportVerdict verdict = ExportVerdict::exact;
  std::string routers;   ///< how the routers were converted
  bool rounded = false;  ///< some weights are stored with fewer bits than before
  std::vector<std::string> notes;
  std::string tokens;   ///< a description of the measured tokens
  Agreement agreement;  ///< with tokens = 0 if nothing was measured
};

nlohmann::ordered_json to_json(const Certificate& certificate);

}  // namespace penstock
