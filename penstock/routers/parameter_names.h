// Names of routers' parameters that other code makes or reads: their prefix, and the names that
// follow from a scorer's traits.
#pragma once

namespace penstock {

/// The layer's module that has all parameters of its router. Routers of several layers may share
/// parameters (Scorer::share); the first layer then has them.
constexpr const char *kRouterModule = "router";

/// The parameters of a scorer that is one matrix (one_matrix): [E, d], and [E] for a bias.
constexpr const char *kScorerWeight = "weight", *kScorerBias = "bias";

/// The parameters of a scorer of query maps and keys (of_heads): [m, d', d], [keys, d'], and
/// [m, d'] for biases of the maps.
constexpr const char *kHeadQueries = "queries", *kHeadKeys = "keys", *kHeadQueryBias = "query_bias";

}  // namespace penstock
