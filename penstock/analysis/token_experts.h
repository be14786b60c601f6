// Counts the experts that each token of the vocabulary is sent to, and their number: ReMoE's Figure
// 7 and Table 12 (arXiv:2412.14711). It does not format the counts.
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

/// Sums by token id over the positions of a text.
struct TokenExperts {
  std::int64_t tokens = 0;     ///< number of positions
  std::int64_t experts = 0;    ///< E
  std::vector<double> count;   ///< [V], number of positions with the token
  std::vector<double> active;  ///< [V], assignments over all MoE layers ÷ MoE layers
  /// [V][L·E], number of assignments; empty for a token that does not occur.
  std::vector<std::vector<std::uint32_t>> assigned;

  /// The number of assignments of the token `id` to an expert.
  double by_expert(std::size_t layer, std::size_t expert, std::size_t id) const {
    return assigned[id].empty() ? 0
                                : assigned[id][layer * static_cast<std::size_t>(experts) + expert];
  }
};

/// One position of a text, and the token that is read there.
struct TokenPlace {
  std::int64_t id = 0;
  /// −ln p of the token by the model, given the text before it; NaN without text before it.
  double surprisal = 0;
  std::span<const double> active;  ///< [L], number of experts for the token
};

/// Counts experts from the taps of an evaluation. For each batch, routed() is called for every
/// layer and then scored() once. REQUIRES: the model's plans do not merge.
class TokenCounter {
 public:
  /// @param place  called for each position in order; may be empty
  explicit TokenCounter(const ModelConfig& config,
                        std::function<void(const TokenPlace&)> place = {});

  void routed(std::int64_t layer, const Plan& plan);
  /// @param nats  −ln p of the batch's targets
  void scored(const Batch& batch, std::span<const double> nats);
  const TokenExperts& counted() const { return out_; }

 private:
  struct Layer {
    std::vector<std::int64_t> token, expert;  // of each assignment in the batch
  };
  void count_layer(std::size_t layer, const Batch& batch, std::vector<double>& active);

  std::int64_t layers_;
  std::function<void(const TokenPlace&)> place_;
  std::vector<Layer> pending_;    // by layer, for the current batch
  std::vector<double> row_ends_;  // −ln p of each row's last target in the previous batch
  TokenExperts out_;
};

/// Counts of a model's routing from one pass over a corpus.
struct CorpusExperts {
  TokenExperts tokens;
  std::vector<DomainRouting> domains;
};

/// Evaluates a split with the settings in `reading`, and replaces its taps.
/// Throws Error for a dense model and for a model that blends experts.
CorpusExperts count_token_experts(LanguageModel& model, const Corpus& corpus,
                                  EvaluateOptions reading);

/// A token of a list, with its text and the value that the list is sorted by.
struct ListedToken {
  std::int64_t id = 0;
  std::string text;  ///< bytes that cannot be printed are hexadecimal escapes
  double count = 0;  ///< number of positions with the token
  double value = 0;
};

/// The fewest positions of a token in lists that are sorted by a share, because shares of rarer
/// tokens are unreliable.
inline constexpr double kOccursOften = 16;

/// The ids of tokens with at least kOccursOften positions, ascending.
std::vector<std::size_t> frequent_ids(const TokenExperts& counted);

/// At most `most` of the ids, sorted by value: highest first, or lowest first if not `descending`.
/// Of two equal values the more frequent token comes first.
std::vector<ListedToken> listed_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                       std::vector<std::size_t> ids, std::size_t most,
                                       const std::function<double(std::size_t id)>& value,
                                       bool descending = true);

/// The frequent tokens that most reliably go to an expert, sorted by the share of the token's
/// positions that the expert gets. Only frequent_ids() are listed. Source: ReMoE, Table 12.
std::vector<ListedToken> surest_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                       std::size_t layer, std::size_t expert, std::size_t most);

/// The tokens that an expert gets most often, sorted by their share of the expert's assignments.
std::vector<ListedToken> commonest_tokens(const TokenExperts& counted, const Tokenizer& tokenizer,
                                          std::size_t layer, std::size_t expert, std::size_t most);

}  // namespace penstock::analysis
