#include "penstock/tasks/scoring.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/eval/passes.h"
#include "penstock/eval/sequences.h"
#include "penstock/models/decoder_cache.h"
#include "penstock/models/evaluation_mode.h"
#include "penstock/tasks/bundles.h"

namespace penstock::tasks {
namespace {

constexpr std::int64_t kMostRows = 64;
constexpr std::int64_t kMostLogits = std::int64_t{1} << 22;      ///< in one product with the head
constexpr std::int64_t kMostCacheBytes = std::int64_t{1} << 29;  ///< keys and values of one cache

/// A target and the row of a pass that scores it.
struct RowTarget {
  std::int64_t row = 0;
  const Target* target = nullptr;
  std::size_t item = 0;
};

class Scorer {
 public:
  Scorer(LanguageModel& model, std::span<const std::vector<TokenRequest>> items,
         const ScoringOptions& options)
      : model_(model),
        options_(options),
        device_(model.parameters().front().device()),
        context_{.k = options.k},
        apart_(reads_across_texts(model.config())) {
    scores_.resize(items.size());
    const bool share = options.share_prefixes && can_share_prefixes(model);
    for (std::size_t i = 0; i < items.size(); ++i) {
      scores_[i].resize(items[i].size());
      for (const TokenRequest& request : items[i]) check_ids(request.ids, model.config().vocab);
      for (Bundle& bundle : make_bundles(i, items[i], share)) bundles_.push_back(std::move(bundle));
    }
    for (const Bundle& bundle : bundles_) total_ += static_cast<double>(bundle.tokens());
  }

  std::vector<std::vector<RequestScore>> run() {
    std::vector<std::size_t> plain, branched;
    for (std::size_t b = 0; b < bundles_.size(); ++b)
      (bundles_[b].branches.empty() ? plain : branched).push_back(b);
    read_plain(plain);
    read_branched(branched);
    return std::move(scores_);
  }

 private:
  /// Reads bundles without branches as whole sequences. Sequences of equal length share a pass.
  void read_plain(std::span<const std::size_t> chosen) {
    std::vector<std::size_t> lengths;
    for (const Bundle& bundle : bundles_) lengths.push_back(bundle.beginning.size());
    for (const auto& group :
         groups_of_equal_length(lengths, chosen, apart_ ? 1 : kMostRows, options_.most_tokens)) {
      const auto length = static_cast<std::int64_t>(lengths[group.front()]);
      std::vector<const std::vector<TokenId>*> rows;
      std::vector<RowTarget> targets;
      for (const std::size_t b : group) {
        add_targets(bundles_[b].targets, bundles_[b].item, std::ssize(rows) * length, 0, targets);
        rows.push_back(&bundles_[b].beginning);
      }
      const ModelOutput output = hidden_pass(model_, {.tokens = tensor_of(rows)},
                                             whole_segments(model_.config(), length), context_);
      take_scores(output.hidden, targets);
      tell(std::ssize(rows) * length);
    }
  }

  /// Reads bundles with branches, shortest first. A round takes as many bundles as the cache can
  /// hold.
  void read_branched(std::vector<std::size_t>& chosen) {
    std::ranges::stable_sort(chosen, {}, [&](std::size_t b) {
      return std::pair(bundles_[b].beginning.size(), bundles_[b].longest());
    });
    const ModelConfig& config = model_.config();
    const std::int64_t token_bytes =
        std::max<std::int64_t>(1, 2 * 4 * config.layers * config.kv_heads * config.head_dim);
    for (std::size_t begin = 0; begin < chosen.size();) {
      std::int64_t rows = 0, capacity = 0;
      std::size_t end = begin;
      for (; end < chosen.size(); ++end) {
        const Bundle& next = bundles_[chosen[end]];
        const std::int64_t more = rows + std::ssize(next.branches);
        const auto longest = std::max(capacity, static_cast<std::int64_t>(next.longest()));
        if (end > begin && more * longest * token_bytes > kMostCacheBytes) break;
        rows = more;
        capacity = longest;
      }
      read_batch(std::span(chosen).subspan(begin, end - begin), rows, capacity);
      begin = end;
    }
  }

  void read_batch(std::span<const std::size_t> batch, std::int64_t rows, std::int64_t capacity) {
    DecoderCache cache(model_.config(), rows, capacity, model_.parameters().front().options());
    std::vector<std::int64_t> first_row;
    std::int64_t next_row = 0;
    for (const std::size_t b : batch) {
      first_row.push_back(next_row);
      next_row += std::ssize(bundles_[b].branches);
    }
    std::vector<Piece> beginnings, branches;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Bundle& bundle = bundles_[batch[i]];
      beginnings.push_back({&bundle.beginning, &bundle.targets, bundle.item, first_row[i], 0});
      for (std::size_t r = 0; r < bundle.branches.size(); ++r)
        branches.push_back({&bundle.branches[r].tokens, &bundle.branches[r].targets, bundle.item,
                            first_row[i] + static_cast<std::int64_t>(r), bundle.beginning.size()});
    }
    extend(cache, beginnings);
    for (std::size_t i = 0; i < batch.size(); ++i)
      copy_beginning(cache, first_row[i], std::ssize(bundles_[batch[i]].branches));
    extend(cache, branches);
  }

  /// Tokens to add to a row of the cache.
  struct Piece {
    const std::vector<TokenId>* tokens;
    const std::vector<Target>* targets;
    std::size_t item;
    std::int64_t row;
    std::size_t held;  ///< positions that the row holds before them
  };

  void extend(DecoderCache& cache, const std::vector<Piece>& pieces) {
    std::vector<std::size_t> lengths, all(pieces.size());
    for (const Piece& piece : pieces) lengths.push_back(piece.tokens->size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (const auto& group :
         groups_of_equal_length(lengths, all, kMostRows, options_.most_tokens)) {
      const auto length = static_cast<std::int64_t>(lengths[group.front()]);
      std::vector<const std::vector<TokenId>*> tokens;
      std::vector<std::int64_t> rows;
      std::vector<RowTarget> targets;
      for (const std::size_t p : group) {
        const Piece& piece = pieces[p];
        add_targets(*piece.targets, piece.item, std::ssize(rows) * length, piece.held, targets);
        tokens.push_back(piece.tokens);
        rows.push_back(piece.row);
      }
      const ModelOutput output = model_.extend(tensor_of(tokens), cache, rows, context_);
      take_scores(output.hidden, targets);
      tell(std::ssize(rows) * length);
    }
  }

  /// Copies the first row's keys and values to the rows after it.
  void copy_beginning(DecoderCache& cache, std::int64_t first, std::int64_t rows) const {
    if (rows < 2) return;
    const std::int64_t held = cache.length(first);
    for (std::int64_t l = 0; l < model_.config().layers; ++l)
      for (const at::Tensor& kept : {cache.layer(l).keys, cache.layer(l).values})
        kept.narrow(0, first + 1, rows - 1)
            .narrow(1, 0, held)
            .copy_(kept.narrow(0, first, 1).narrow(1, 0, held));
    for (std::int64_t row = first + 1; row < first + rows; ++row) {
      cache.clear(row);
      cache.advance({&row, 1}, held);
    }
  }

  static void add_targets(const std::vector<Target>& from, std::size_t item, std::int64_t first_row,
                          std::size_t held, std::vector<RowTarget>& to) {
    for (const Target& target : from)
      to.push_back({.row = first_row + static_cast<std::int64_t>(target.position - held),
                    .target = &target,
                    .item = item});
  }

  at::Tensor tensor_of(std::span<const std::vector<TokenId>* const> rows) const {
    std::vector<std::int64_t> ids;
    for (const auto* row : rows) ids.insert(ids.end(), row->begin(), row->end());
    return torch::tensor(ids, torch::kLong).view({std::ssize(rows), -1}).to(device_);
  }

  /// Computes the scores of targets. Only rows with targets are multiplied by the head, in groups
  /// of limited size.
  void take_scores(const at::Tensor& hidden, std::vector<RowTarget>& targets) {
    std::ranges::stable_sort(targets, {}, &RowTarget::row);
    const std::int64_t most = std::max<std::int64_t>(1, kMostLogits / model_.config().vocab);
    for (std::size_t begin = 0; begin < targets.size();) {
      std::vector<std::int64_t> rows;
      std::size_t end = begin;
      for (; end < targets.size(); ++end) {
        const bool again = !rows.empty() && rows.back() == targets[end].row;
        if (!again && std::ssize(rows) == most) break;
        if (!again) rows.push_back(targets[end].row);
      }
      score_rows(hidden, rows, std::span(targets).subspan(begin, end - begin));
      begin = end;
    }
  }

  void score_rows(const at::Tensor& hidden, const std::vector<std::int64_t>& rows,
                  std::span<const RowTarget> targets) {
    const at::Tensor chosen = hidden.index_select(0, torch::tensor(rows).to(device_));
    const at::Tensor logits = model_.logits(chosen).to(torch::kCPU, torch::kDouble).contiguous();
    const at::Tensor sums = logits.logsumexp(-1).contiguous();
    const at::Tensor likeliest = logits.argmax(-1).contiguous();
    const auto* values = logits.data_ptr<double>();
    const auto* sum = sums.data_ptr<double>();
    const auto* best = likeliest.data_ptr<std::int64_t>();
    std::size_t at = 0;
    for (const RowTarget& one : targets) {
      while (rows[at] != one.row) ++at;
      const Target& target = *one.target;
      RequestScore& score = scores_[one.item][target.request];
      score.loglikelihood +=
          values[static_cast<std::int64_t>(at) * logits.size(1) + target.id] - sum[at];
      score.greedy = score.greedy && best[at] == target.id;
    }
  }

  void tell(std::int64_t tokens) {
    done_ += static_cast<double>(tokens);
    if (options_.progress) options_.progress(done_ / total_);
  }

  LanguageModel& model_;
  const ScoringOptions& options_;
  at::Device device_;
  RoutingContext context_;
  bool apart_;
  std::vector<Bundle> bundles_;
  std::vector<std::vector<RequestScore>> scores_;
  double total_ = 0, done_ = 0;
};

}  // namespace

bool can_share_prefixes(const LanguageModel& model) {
  const ModelConfig& config = model.config();
  if (!model.caches() || reads_across_texts(config)) return false;
  return config.moe_layers() == 0 || !config.traits().merges;
}

std::vector<std::vector<RequestScore>> score_items(LanguageModel& model,
                                                   std::span<const std::vector<TokenRequest>> items,
                                                   const ScoringOptions& options) {
  const EvaluationMode measuring(model);
  auto scores = Scorer(model, items, options).run();
  for (const auto& item : scores)
    for (const RequestScore& score : item)
      PENSTOCK_CHECK(std::isfinite(score.loglikelihood),
                     "a log-likelihood is not finite: the model's activations overflow, or its "
                     "weights are damaged");
  return scores;
}

}  // namespace penstock::tasks
