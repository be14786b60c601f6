// How the experts of a pass are chosen where somebody asks for another number of them than the
// model's own: which models take that.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace penstock {

struct ModelConfig;
struct RoutingContext;

/// How much of a token's routing is shown.
enum class RoutingShown { none, experts, logits };

struct RoutingChoice {
  std::int64_t k = 0;      ///< experts per token; 0: the model's own number
  double logit_shift = 0;  ///< added to every logit before experts are switched on by its sign
  auto operator<=>(const RoutingChoice&) const = default;
};

/// Why this model's experts per token cannot be set, without a full stop; "" where they can, that
/// is, where a token asks for the experts of its k highest logits.
std::string why_no_k(const ModelConfig& config);

/// The most experts that a token may ask for. REQUIRES: why_no_k is "".
std::int64_t most_k(const ModelConfig& config);

/// Whether a token may ask for k experts; false where why_no_k says why not.
bool takes_k(const ModelConfig& config, std::int64_t k);

/// Why no shift of this model's logits sets its experts per token, without a full stop; "" where
/// one does.
std::string why_no_shift(const ModelConfig& config);

/// Throws Error, naming `experts_per_token` or `logit_shift`, for what the model does not take.
void check_choice(const ModelConfig& config, const RoutingChoice& choice);

/// A pass outside training with that choice.
RoutingContext context_of(const RoutingChoice& choice);

/// Whether the model's routers score tokens: some choose without logits.
bool scores_tokens(const ModelConfig& config);

}  // namespace penstock
