// Names of routers' parameters that others make or read: what is before them, and those of scorers
// by what the scorers' traits say of them.
#pragma once

namespace penstock {

/// The module of a layer that has all parameters of its router. Routers of several layers may share
/// some (Scorer), which then are the first layer's.
constexpr const char *kRouterModule = "router";

/// The parameters of a scorer that is one matrix (one_matrix): [E, d], and [E] for a bias.
constexpr const char *kScorerWeight = "weight", *kScorerBias = "bias";

/// Of a scorer of query maps and keys (of_heads): [m, d', d], [keys, d'], and [m, d'] where the
/// maps have biases.
constexpr const char *kHeadQueries = "queries", *kHeadKeys = "keys", *kHeadQueryBias = "query_bias";

}  // namespace penstock
