#include "penstock/analysis/frequency.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "penstock/base/error.h"

namespace penstock::analysis {
namespace {

constexpr std::array<double, 6> kSurprisals = {0, 0.5, 1,
                                               2, 4,   8};  // lower bounds of the bins, nats
constexpr double kVaries = 1e-9;  // relative size below which a difference is rounding error

std::size_t surprisal_bin(double surprisal) {
  const auto above = std::ranges::upper_bound(kSurprisals, std::max(surprisal, 0.0));
  return static_cast<std::size_t>(above - kSurprisals.begin()) - 1;
}

std::size_t frequency_bin(double frequency) {
  return static_cast<std::size_t>(std::ilogb(frequency));
}

/// Pearson's correlation; no value if a variance is 0.
std::optional<double> pearson(double xy, double xx, double yy) {
  if (xx <= 0 || yy <= 0) return std::nullopt;
  return std::clamp(xy / std::sqrt(xx * yy), -1.0, 1.0);
}

std::optional<double> partial(double ra, double rb, double rab) {
  const double left = (1 - rab * rab) * (1 - rb * rb);
  return left > kVaries ? std::optional((ra - rab * rb) / std::sqrt(left)) : std::nullopt;
}

}  // namespace

std::vector<double> corpus_frequencies(const Corpus& corpus) {
  constexpr std::int64_t kAtOnce = 1 << 16;
  std::vector<double> out(static_cast<std::size_t>(corpus.vocab_size()));
  std::vector<std::int64_t> ids;
  const std::int64_t tokens = corpus.file().tokens();
  for (std::int64_t begin = 0; begin < tokens; begin += kAtOnce) {
    ids.resize(static_cast<std::size_t>(std::min(kAtOnce, tokens - begin)));
    corpus.file().read(begin, ids);
    for (const std::int64_t id : ids) out[static_cast<std::size_t>(id)] += 1;
  }
  return out;
}

void FrequencyCounter::Sums::add(double x_value, double s_value, double a_value) {
  n += 1;
  x += x_value, s += s_value, a += a_value;
  xx += x_value * x_value, ss += s_value * s_value, aa += a_value * a_value;
  xs += x_value * s_value, xa += x_value * a_value, sa += s_value * a_value;
}

ActiveCorrelation FrequencyCounter::Sums::correlation() const {
  if (n < 2) return {};
  const auto centred = [&](double product, double left, double right) {
    const double out = product - left * right / n;
    return std::abs(out) > kVaries * std::abs(product) ? out : 0;
  };
  const double vx = centred(xx, x, x), vs = centred(ss, s, s), va = centred(aa, a, a);
  const double cxs = centred(xs, x, s), cxa = centred(xa, x, a), csa = centred(sa, s, a);
  ActiveCorrelation out{.frequency = pearson(cxa, vx, va),
                        .surprisal = pearson(csa, vs, va),
                        .together = pearson(cxs, vx, vs)};
  if (!out.together || !out.frequency) return out;
  out.frequency_partial = partial(*out.frequency, *out.surprisal, *out.together);
  out.surprisal_partial = partial(*out.surprisal, *out.frequency, *out.together);
  const double determinant = vx * vs - cxs * cxs;
  if (determinant <= kVaries * vx * vs) return out;
  out.per_doubling = (cxa * vs - csa * cxs) / determinant;
  out.per_nat = (csa * vx - cxa * cxs) / determinant;
  return out;
}

ActiveMoments FrequencyCounter::Cell::moments() const {
  if (n == 0) return {};
  const double mean = a / n;
  return {.places = n, .mean = mean, .sd = std::sqrt(std::max(0.0, aa / n - mean * mean))};
}

FrequencyCounter::Cell& FrequencyCounter::Cell::operator+=(const Cell& other) {
  n += other.n, a += other.a, aa += other.aa;
  return *this;
}

FrequencyCounter::FrequencyCounter(std::vector<double> frequencies, std::int64_t layers)
    : frequencies_(std::move(frequencies)), sums_(static_cast<std::size_t>(layers) + 1) {}

void FrequencyCounter::add(const TokenPlace& place) {
  if (!std::isfinite(place.surprisal)) return;
  const auto id = static_cast<std::size_t>(place.id);
  PENSTOCK_ASSERT(id < frequencies_.size() && frequencies_[id] > 0, "a token of the corpus");
  const double x = std::log2(frequencies_[id]);
  const double mean = std::accumulate(place.active.begin(), place.active.end(), 0.0) /
                      static_cast<double>(place.active.size());
  for (std::size_t l = 0; l < place.active.size(); ++l)
    sums_[l].add(x, place.surprisal, place.active[l]);
  sums_.back().add(x, place.surprisal, mean);
  const std::size_t bin = frequency_bin(frequencies_[id]);
  if (cells_.size() <= bin) {
    cells_.resize(bin + 1, std::vector<Cell>(kSurprisals.size()));
    seen_.resize(bin + 1);
  }
  if (seen_[bin].empty()) seen_[bin].resize(frequencies_.size());
  seen_[bin][id] = true;
  cells_[bin][surprisal_bin(place.surprisal)] += {1, mean, mean * mean};
}

FrequencyReport FrequencyCounter::report() const {
  FrequencyReport out{.places = static_cast<std::int64_t>(sums_.back().n),
                      .whole = sums_.back().correlation()};
  for (std::size_t l = 0; l + 1 < sums_.size(); ++l) out.layers.push_back(sums_[l].correlation());
  std::vector<Cell> columns(kSurprisals.size());
  for (std::size_t f = 0; f < cells_.size(); ++f) {
    if (seen_[f].empty()) continue;
    FrequencyBin& bin = out.by_frequency.emplace_back();
    bin.least = std::exp2(static_cast<double>(f));
    bin.tokens = std::ranges::count(seen_[f], true);
    Cell row;
    for (std::size_t s = 0; s < columns.size(); ++s) {
      row += cells_[f][s];
      columns[s] += cells_[f][s];
      bin.by_surprisal.push_back(cells_[f][s].moments());
    }
    bin.active = row.moments();
  }
  for (std::size_t s = 0; s < columns.size(); ++s)
    out.by_surprisal.push_back(
        {.least = kSurprisals[s],
         .limit = s + 1 < columns.size() ? std::optional(kSurprisals[s + 1]) : std::nullopt,
         .active = columns[s].moments()});
  return out;
}

}  // namespace penstock::analysis
