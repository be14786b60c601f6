// Which experts each token of the vocabulary is sent to, and to how many: ReMoE's Figure 7 and
// Table 12 (arXiv:2412.14711). Counting only; how it is shown is not its matter.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/analysis/domains.h"
#include "penstock/data/corpus/batches.h"
#include "penstock/eval/perplexity.h"
#include "penstock/models/language_model.h"

namespace penstock::analysis {

/// Sums by token id, over the places of a text where the token is read.
struct TokenExperts {
  std::int64_t tokens = 0;     ///< places
  std::int64_t experts = 0;    ///< E
  std::vector<double> count;   ///< [V], places with that token
  std::vector<double> active;  ///< [V], assignments over all MoE layers ÷ MoE layers
  /// [V][L·E], assignments; empty for a token that does not occur.
  std::vector<std::vector<std::uint32_t>> assigned;

  /// Assignments of that token to an expert.
  double by_expert(std::size_t layer, std::size_t expert, std::size_t id) const {
    return assigned[id].empty() ? 0
                                : assigned[id][layer * static_cast<std::size_t>(experts) + expert];
  }
};

/// One place of a text: the token that is read there.
struct TokenPlace {
  std::int64_t id = 0;
  double surprisal =
      0;  ///< −ln p of the token, by the model, after what precedes; NaN at the begin
  std::span<const double> active;  ///< [L], experts that it is sent to
};

/// Counts what an evaluation's taps show it: routed() of each layer, then scored() of the batch.
/// REQUIRES: a model whose plans do not merge.
class TokenCounter {
 public:
  /// @param place  told each place in order, where set
  explicit TokenCounter(const ModelConfig& config,
                        std::function<void(const TokenPlace&)> place = {});

  void routed(std::int64_t layer, const Plan& plan);
  /// @param nats  −ln p of the batch's targets
  void scored(const Batch& batch, std::span<const double> nats);
  const TokenExperts& counted() const { return out_; }

 private:
  struct Layer {
    std::vector<std::int64_t> token, expert;  // of each assignment
  };
  void count_layer(std::size_t layer, const Batch& batch, std::vector<double>& active);

  std::int64_t layers_;
  std::function<void(const TokenPlace&)> place_;
  std::vector<Layer> pending_;    // of the batch that is under way
  std::vector<double> row_ends_;  // −ln p of the last target of each row of the batch before
  TokenExperts out_;
};

/// What one pass over a corpus says of a model's routing.
struct CorpusExperts {
  TokenExperts tokens;
  std::vector<DomainRouting> domains;
};

/// One pass over a split, read as `reading` says, whose taps are set here.
/// Throws Error for a dense model and one that blends experts.
CorpusExperts count_token_experts(LanguageModel& model, const Corpus& corpus,
                                  EvaluateOptions reading);

/// A token of a list, with its text and what it is listed for.
struct ListedToken {
  std::int64_t id = 0;
  std::string text;  ///< a byte that cannot be printed stands as its hexadecimal escape
  double count = 0;  ///< places of the token
  double value = 0;
};

/// Places from which on a token's share says something.
inline constexpr double kOccursOften = 16;

/// The ids that occur so often, ascending.
std::vector<std::size_t> frequent_ids(const TokenExperts& counted);

/// The `most` of the ids with the highest value (the lowest, unless `descending`), that first; of
/// equal ones the more frequent.
std::vector<ListedToken> listed_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                       std::vector<std::size_t> ids, std::size_t most,
                                       const std::function<double(std::size_t id)>& value,
                                       bool descending = true);

/// Tokens that an expert gets most surely: highest share of the token's places, of those that occur
/// often. Source: ReMoE, Table 12.
std::vector<ListedToken> surest_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                       std::size_t layer, std::size_t expert, std::size_t most);

/// Tokens that make most of what an expert gets: highest share of its assignments.
std::vector<ListedToken> commonest_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                          std::size_t layer, std::size_t expert, std::size_t most);

}  // namespace penstock::analysis
