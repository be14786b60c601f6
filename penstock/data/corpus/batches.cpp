// Cuts batches out of a token file.
#include "penstock/data/corpus/batches.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/data/corpus/permutation.h"

namespace penstock {
namespace {

// Streams of random draws under the data seed: one for random offsets, and one for each epoch, from
// kEpochStream on.
constexpr std::uint64_t kOffsetStream = 0;
constexpr std::uint64_t kEpochStream = 1;
// The stream for mixtures. Draw 0 is the seed of the order of corpora. Draw i is the seed of corpus
// i > 0; the first corpus keeps the data seed. Corpora of equal length are then read in different
// orders.
constexpr std::uint64_t kMixtureStream = ~std::uint64_t{0};

/// Adds the window whose first input is token `begin` to the batch.
void append_window(const TokenFile& file, std::int64_t begin, bool isolate, Batch& batch) {
  const auto length = static_cast<std::size_t>(batch.length);
  std::vector<std::int64_t> tokens(length + 1);
  file.read(begin, tokens);
  batch.inputs.insert(batch.inputs.end(), tokens.begin(), tokens.end() - 1);
  batch.targets.insert(batch.targets.end(), tokens.begin() + 1, tokens.end());
  const auto documents = file.documents();
  std::size_t document = file.document_at(begin);
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < batch.length; ++i) {
    if (isolate) batch.starts.push_back(start);
    const auto target = static_cast<std::uint64_t>(begin + i + 1);
    if (target == documents[document].begin + documents[document].tokens) {
      ++document;
      start = i + 1;
    }
    batch.domains.push_back(static_cast<std::int32_t>(documents[document].domain));
  }
}

Batch empty_batch(std::int64_t sequences, std::int64_t length, bool isolate) {
  Batch batch{.sequences = sequences, .length = length};
  const auto size = static_cast<std::size_t>(sequences * length);
  batch.inputs.reserve(size);
  batch.targets.reserve(size);
  batch.domains.reserve(size);
  if (isolate) batch.starts.reserve(size);
  return batch;
}

void check_sizes(std::int64_t sequence_length, std::int64_t batch_sequences) {
  PENSTOCK_CHECK(sequence_length > 0 && batch_sequences > 0,
                 "a batch needs at least one sequence of at least one token; got ", batch_sequences,
                 " of ", sequence_length);
}

std::vector<double> weights_of(const std::vector<WeightedCorpus>& corpora) {
  std::vector<double> out;
  for (const WeightedCorpus& one : corpora) out.push_back(one.weight);
  return out;
}

}  // namespace

Batch Batch::slice(std::int64_t first, std::int64_t count) const {
  PENSTOCK_ASSERT(first >= 0 && count >= 0 && first + count <= sequences);
  const auto rows = [&](const auto& all) {
    if (all.empty()) return all;
    return std::decay_t<decltype(all)>(all.begin() + first * length,
                                       all.begin() + (first + count) * length);
  };
  return {.sequences = count,
          .length = length,
          .fresh = fresh,
          .inputs = rows(inputs),
          .targets = rows(targets),
          .starts = rows(starts),
          .domains = rows(domains)};
}

TrainingBatches::TrainingBatches(const std::vector<WeightedCorpus>& corpora,
                                 const TrainingOptions& options)
    : options_(options), order_(weights_of(corpora), random_bits(options.seed, kMixtureStream, 0)) {
  check_sizes(options_.sequence_length, options_.batch_sequences);
  PENSTOCK_CHECK(corpora.size() == 1 || options_.sampling != Sampling::kStreams,
                 "data.sampling = \"streams\" reads one corpus in order, and data.corpora has ",
                 corpora.size(), "; choose \"shuffled\", or prepare one corpus of all the texts");
  for (std::size_t i = 0; i < corpora.size(); ++i)
    sources_.push_back(source_of(
        corpora[i].corpus, i == 0 ? options_.seed : random_bits(options_.seed, kMixtureStream, i)));
}

TrainingBatches::Source TrainingBatches::source_of(const Corpus& corpus, std::uint64_t seed) {
  const auto range = corpus.file().range(Split::kTrain);
  PENSTOCK_CHECK(range.tokens > options_.sequence_length, "the train split of '", corpus.path(),
                 "' has ", range.tokens, " tokens, too few for sequences of ",
                 options_.sequence_length, "; prepare more text or shorten train.sequence_length");
  Source out{.corpus = corpus,
             .range = range,
             .windows = (range.tokens - 1) / options_.sequence_length,
             .seed = seed,
             .domains = {}};
  for (const std::string& domain : corpus.domains()) {
    const auto known = std::find(domains_.begin(), domains_.end(), domain);
    out.domains.push_back(static_cast<std::int32_t>(known - domains_.begin()));
    if (known == domains_.end()) domains_.push_back(domain);
  }
  if (options_.sampling != Sampling::kStreams) return out;
  // Streams have equal lengths. The rest of each stream, less than a window, is not read.
  out.windows = (range.tokens - 1) / options_.batch_sequences / options_.sequence_length *
                options_.batch_sequences;
  PENSTOCK_CHECK(out.windows > 0, "the train split of '", corpus.path(), "' has ", range.tokens,
                 " tokens, too few for ", options_.batch_sequences, " streams of windows of ",
                 options_.sequence_length,
                 "; prepare more text or lower train.batch_sequences or train.sequence_length");
  return out;
}

std::int64_t TrainingBatches::windows() const {
  std::int64_t out = 0;
  for (const Source& source : sources_) out += source.windows;
  return out;
}

std::int64_t TrainingBatches::offset(const Source& source, std::int64_t sequence) const {
  const TokenFile::Range& range = source.range;
  const auto index = static_cast<std::uint64_t>(sequence);
  if (options_.sampling == Sampling::kRandom) {
    // A window from the last start still has a target for its last input.
    const auto starts = static_cast<std::uint64_t>(range.tokens - options_.sequence_length);
    const auto bits = random_bits(source.seed, kOffsetStream, index);
    return range.begin + static_cast<std::int64_t>(random_below(bits, starts));
  }
  if (options_.sampling == Sampling::kStreams) {
    const std::int64_t rows = options_.batch_sequences, row = sequence % rows;
    const std::int64_t stream = (range.tokens - 1) / rows;
    return range.begin + row * stream +
           sequence / rows % (source.windows / rows) * options_.sequence_length;
  }
  const auto windows = static_cast<std::uint64_t>(source.windows);
  const Permutation order(windows, source.seed, kEpochStream + index / windows);
  return range.begin + static_cast<std::int64_t>(order(index % windows)) * options_.sequence_length;
}

Batch TrainingBatches::batch(std::int64_t step) const {
  return batch(step, 0, options_.batch_sequences);
}

Batch TrainingBatches::batch(std::int64_t step, std::int64_t first_sequence,
                             std::int64_t sequences) const {
  PENSTOCK_ASSERT(step >= 0 && first_sequence >= 0 && sequences >= 0 &&
                  first_sequence + sequences <= options_.batch_sequences);
  Batch out = empty_batch(sequences, options_.sequence_length, options_.isolate_documents);
  if (options_.sampling == Sampling::kStreams)
    out.fresh = step % (windows() / options_.batch_sequences) == 0;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto [corpus, index] = order_(step * options_.batch_sequences + first_sequence + i);
    const Source& source = sources_[corpus];
    const std::size_t known = out.domains.size();
    append_window(source.corpus.file(), offset(source, index), options_.isolate_documents, out);
    for (std::size_t at = known; at < out.domains.size(); ++at)
      out.domains[at] = source.domains[static_cast<std::size_t>(out.domains[at])];
  }
  return out;
}

EvaluationWindows::EvaluationWindows(Corpus corpus, Split split, const EvaluationOptions& options)
    : corpus_(std::move(corpus)), options_(options), range_(corpus_.file().range(split)) {
  check_sizes(options_.sequence_length, options_.batch_sequences);
  PENSTOCK_CHECK(range_.tokens > 1, "the ", split_name(split), " split of '", corpus_.path(),
                 "' has ", range_.tokens,
                 " tokens and at least 2 are needed; prepare the corpus "
                 "with a larger share for it (`penstock data prepare --split`)");
  const std::int64_t targets = range_.tokens - 1;
  split_windows_ = targets / options_.sequence_length;
  windows_ = split_windows_;
  last_length_ = targets % options_.sequence_length;
  const std::int64_t limit = options_.max_tokens;
  if (limit > 0 && limit < targets) {
    if (split_windows_ > 0) last_length_ = 0;
    windows_ =
        std::min(split_windows_, std::max<std::int64_t>(1, limit / options_.sequence_length));
  }
  full_batches_ = (windows_ + options_.batch_sequences - 1) / options_.batch_sequences;
}

Batch EvaluationWindows::batch(std::int64_t index) const {
  PENSTOCK_ASSERT(index >= 0 && index < batches());
  const bool isolate = options_.isolate_documents;
  if (index == full_batches_) {
    Batch out = empty_batch(1, last_length_, isolate);
    append_window(corpus_.file(), range_.begin + split_windows_ * options_.sequence_length, isolate,
                  out);
    return out;
  }
  const std::int64_t first = index * options_.batch_sequences;
  Batch out = empty_batch(std::min(options_.batch_sequences, windows_ - first),
                          options_.sequence_length, isolate);
  for (std::int64_t i = first; i < first + out.sequences; ++i) {
    // Windows are evenly spaced. If every window is taken, this is the identity. The product of the
    // counts needs 128 bits.
    const auto window =
        static_cast<std::int64_t>(static_cast<__int128>(i) * split_windows_ / windows_);
    append_window(corpus_.file(), range_.begin + window * options_.sequence_length, isolate, out);
  }
  return out;
}

EvaluationStreams::EvaluationStreams(Corpus corpus, Split split, const StreamOptions& options)
    : corpus_(std::move(corpus)), options_(options), range_(corpus_.file().range(split)) {
  check_sizes(options_.sequence_length, options_.batch_sequences);
  PENSTOCK_CHECK(options_.streams > 0 && range_.tokens > options_.streams, "the ",
                 split_name(split), " split of '", corpus_.path(), "' has ", range_.tokens,
                 " tokens, too few for ", options_.streams,
                 " streams; ask for fewer, or prepare the corpus with a larger share for it "
                 "(`penstock data prepare --split`)");
  length_ = scored_ = (range_.tokens - 1) / options_.streams;
  if (options_.max_tokens > 0)
    scored_ = std::clamp<std::int64_t>(options_.max_tokens / options_.streams, 1, length_);
}

std::int64_t EvaluationStreams::windows() const {
  return (scored_ + options_.sequence_length - 1) / options_.sequence_length;
}

std::int64_t EvaluationStreams::batches() const {
  return (options_.streams + options_.batch_sequences - 1) / options_.batch_sequences * windows();
}

Batch EvaluationStreams::batch(std::int64_t index) const {
  PENSTOCK_ASSERT(index >= 0 && index < batches());
  const std::int64_t first = index / windows() * options_.batch_sequences,
                     begin = index % windows() * options_.sequence_length;
  Batch out = empty_batch(std::min(options_.batch_sequences, options_.streams - first),
                          std::min(options_.sequence_length, scored_ - begin), false);
  out.fresh = begin == 0;
  for (std::int64_t stream = first; stream < first + out.sequences; ++stream)
    append_window(corpus_.file(), range_.begin + stream * length_ + begin, false, out);
  return out;
}

}  // namespace penstock
