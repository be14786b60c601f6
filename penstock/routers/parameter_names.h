// Names of scorers' parameters that others make or read, by what the scorers' traits say of them.
#pragma once

namespace penstock {

/// Of a scorer that is one matrix (one_matrix): [E, d], and [E] where it has a bias.
constexpr const char *kScorerWeight = "weight", *kScorerBias = "bias";

/// Of a scorer of query maps and keys (of_heads): [m, d', d], [keys, d'], and [m, d'] where the
/// maps have biases.
constexpr const char *kHeadQueries = "queries", *kHeadKeys = "keys", *kHeadQueryBias = "query_bias";

}  // namespace penstock
