// The choice of another number of experts per token than the model's own, and the checks of which
// models allow it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace penstock {

struct ModelConfig;
struct RoutingContext;

/// The part of a token's routing that is shown.
enum class RoutingShown { none, experts, logits };

struct RoutingChoice {
  std::int64_t k = 0;      ///< experts per token; 0: the model's own number
  double logit_shift = 0;  ///< added to every logit before experts are switched on by its sign
  auto operator<=>(const RoutingChoice&) const = default;
};

/// Why the experts per token of this model cannot be set, without a full stop; "" if they can. They
/// can be set if a token asks for the experts of its k highest logits.
std::string why_no_k(const ModelConfig& config);

/// The most experts that a token may ask for. REQUIRES: why_no_k is "".
std::int64_t most_k(const ModelConfig& config);

/// Whether a token may ask for k experts. False if why_no_k() gives a reason.
bool takes_k(const ModelConfig& config, std::int64_t k);

/// Why a shift of this model's logits does not set its experts per token, without a full stop; ""
/// if it does.
std::string why_no_shift(const ModelConfig& config);

/// Throws Error if the model does not take the choice; the message names `experts_per_token` or
/// `logit_shift`.
void check_choice(const ModelConfig& config, const RoutingChoice& choice);

/// The context of a pass outside training with that choice.
RoutingContext context_of(const RoutingChoice& choice);

/// Whether the model's routers compute logits of tokens; some routers choose without logits.
bool scores_tokens(const ModelConfig& config);

}  // namespace penstock
