#include "penstock/eval/ngram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/eval/pair_table.h"

namespace penstock {
namespace {

std::size_t discount_index(std::uint32_t count) { return std::min<std::size_t>(count, 3) - 1; }

/// D1, D2, D3 of one order from its counts of counts n1..n4.
std::array<double, 3> discounts(const std::array<std::uint64_t, 4>& of) {
  constexpr std::array<double, 3> fallback = {0.5, 1.0, 1.5};
  if (std::find(of.begin(), of.end(), 0) != of.end()) return fallback;
  std::array<double, 4> n{};
  std::copy(of.begin(), of.end(), n.begin());
  const double y = n[0] / (n[0] + 2 * n[1]);
  std::array<double, 3> d{};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto count = static_cast<double>(i + 1);
    d[i] = count - (count + 1) * y * n[i + 1] / n[i];
    if (d[i] < 0 || d[i] > count) return fallback;
  }
  return d;
}

std::vector<std::uint32_t> train_split(const Corpus& corpus) {
  const TokenFile::Range range = corpus.file().range(Split::kTrain);
  std::vector<std::uint32_t> out;
  out.reserve(static_cast<std::size_t>(range.tokens));
  std::vector<std::int64_t> part;
  for (std::int64_t done = 0; done < range.tokens; done += static_cast<std::int64_t>(part.size())) {
    part.resize(static_cast<std::size_t>(std::min<std::int64_t>(1 << 20, range.tokens - done)));
    corpus.file().read(range.begin + done, part);
    for (const std::int64_t token : part) out.push_back(static_cast<std::uint32_t>(token));
  }
  return out;
}

/// Adds −ln p of the row's targets. `read` has the tokens before the window; the row's inputs are
/// appended to it.
void score_row(const NgramModel& model, const Batch& batch, std::size_t row,
               std::vector<std::uint32_t>& read, LossTotals& totals) {
  const auto length = static_cast<std::size_t>(batch.length);
  const std::size_t before = read.size();
  for (std::size_t i = row * length; i < (row + 1) * length; ++i) {
    read.push_back(static_cast<std::uint32_t>(batch.inputs[i]));
    const std::size_t start =
        batch.starts.empty() ? 0 : before + static_cast<std::size_t>(batch.starts[i]);
    totals.nats -= std::log(model.probability(std::span(read).subspan(start),
                                              static_cast<std::uint32_t>(batch.targets[i])));
  }
}

}  // namespace

/// One order of the model. Its contexts are numbered in the order of their first occurrence.
struct NgramModel::Order {
  /// For one context h: Σ_w c(hw), and the numbers of tokens w with a count of 1, 2 and more.
  struct Followers {
    std::uint64_t total = 0;
    std::array<std::uint32_t, 3> seen{};
  };
  PairTable longer;  // (context, the token before it) -> 1 + number of the longer context
  PairTable count;   // (context, the token after it) -> c
  std::vector<Followers> after;  // by context
  std::array<double, 3> discount{};

  void summarise() {
    std::array<std::uint64_t, 4> of{};
    count.for_each([&](std::uint32_t context, std::uint32_t c) {
      Followers& followers = after[context];
      followers.total += c;
      ++followers.seen[discount_index(c)];
      if (c <= of.size()) ++of[c - 1];
    });
    discount = discounts(of);
  }
};

NgramModel::~NgramModel() = default;
NgramModel::NgramModel(NgramModel&&) noexcept = default;

NgramModel::NgramModel(std::span<const std::uint32_t> text, std::int64_t vocab, int order)
    : vocab_(vocab), order_(order) {
  PENSTOCK_CHECK(order >= 1 && order <= kMostNgramOrder, "an n-gram model of order ", order,
                 " is not offered; use 1 to ", kMostNgramOrder);
  PENSTOCK_CHECK(text.size() >= static_cast<std::size_t>(order) && text.size() < 0xffffffffu,
                 "an n-gram model of order ", order, " cannot be counted from ", text.size(),
                 " tokens");
  const auto orders = static_cast<std::size_t>(order);
  orders_ = std::make_unique<Order[]>(orders);
  orders_[0].after.resize(1);
  std::array<std::uint32_t, kMostNgramOrder> context{};
  for (std::size_t i = 0; i < text.size(); ++i) {
    // Finds the contexts that end before i, shortest first. They have at most i tokens.
    const std::size_t deepest = std::min(i, orders - 1);
    for (std::size_t m = 0; m < deepest; ++m) {
      std::uint32_t& next = orders_[m].longer.at(context[m], text[i - 1 - m]);
      if (next == 0) {
        orders_[m + 1].after.emplace_back();
        next = static_cast<std::uint32_t>(orders_[m + 1].after.size());
      }
      context[m + 1] = next - 1;
    }
    // Counts the token after its longest context. If that pair is new, one more different token was
    // seen before the same pair with a shorter context, so that pair is counted too. The begin of
    // the text counts as such a token.
    for (std::size_t m = deepest;; --m) {
      if (orders_[m].count.at(context[m], text[i])++ > 0 || m == 0) break;
    }
  }
  for (std::size_t m = 0; m < orders; ++m) orders_[m].summarise();
}

double NgramModel::probability(std::span<const std::uint32_t> before, std::uint32_t token) const {
  double p = 1 / static_cast<double>(vocab_);
  std::uint32_t context = 0;
  for (std::size_t m = 0;; ++m) {
    const Order& order = orders_[m];
    const Order::Followers& followers = order.after[context];
    const auto total = static_cast<double>(followers.total);
    double kept_back = 0;
    for (std::size_t i = 0; i < 3; ++i) kept_back += order.discount[i] * followers.seen[i];
    p *= kept_back / total;
    if (const std::uint32_t c = order.count.find(context, token))
      p += (c - order.discount[discount_index(c)]) / total;
    if (m + 1 == static_cast<std::size_t>(order_) || m == before.size()) return p;
    const std::uint32_t next = order.longer.find(context, before[before.size() - 1 - m]);
    if (next == 0) return p;
    context = next - 1;
  }
}

LossTotals ngram_baseline(const Corpus& corpus, int order, const EvaluateOptions& options) {
  const NgramModel model(train_split(corpus), corpus.vocab_size(), order);
  const EvaluationBatches batches(corpus, options);
  const auto carried = static_cast<std::size_t>(
      options.memory_length < 0 ? order - 1
                                : std::min<std::int64_t>(options.memory_length, order - 1));
  LossTotals totals;
  std::vector<std::vector<std::uint32_t>> rows;  // what each row has read that its context may need
  for (std::int64_t index = 0; index < batches.size(); ++index) {
    const Batch batch = batches.at(index);
    if (batch.fresh) rows.assign(static_cast<std::size_t>(batch.sequences), {});
    for (std::size_t row = 0; row < rows.size(); ++row) {
      score_row(model, batch, row, rows[row], totals);
      const std::size_t done = rows[row].size() - std::min(carried, rows[row].size());
      rows[row].erase(rows[row].begin(), rows[row].begin() + static_cast<std::ptrdiff_t>(done));
    }
    for (const std::int64_t target : batch.targets)
      totals.bytes += corpus.token_bytes()[static_cast<std::size_t>(target)];
    totals.tokens += std::ssize(batch.targets);
  }
  return totals;
}

}  // namespace penstock
