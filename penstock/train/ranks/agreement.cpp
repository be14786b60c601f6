#include "penstock/train/ranks/agreement.h"

#include <fmt/format.h>
#include <link.h>
#include <torch/types.h>

#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <sstream>
#include <type_traits>
#include <unordered_map>

#include "penstock/base/checksum.h"
#include "penstock/base/failure_text.h"
#include "penstock/base/fields.h"
#include "penstock/base/mapped_file.h"
#include "penstock/io/toml.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/train/recipe.h"
#include "penstock/train/recompute_choice.h"
#include "penstock/train/run_identity.h"

namespace penstock {
namespace {

/// The paths of Penstock's libraries that this process has loaded.
std::set<std::string> library_files() {
  std::set<std::string> out;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* files) {
        const std::string path = info->dlpi_name;
        if (path.find("libpenstock") != std::string::npos)
          static_cast<std::set<std::string>*>(files)->insert(path);
        return 0;
      },
      &out);
  return out;
}

/// The version and a hash of the libraries' content. It leaves out SentencePiece's module, which
/// not every process has loaded.
std::string build_hash() {
  Xxh64 hash;
  for (const std::string& path : library_files())
    if (path.find("sentencepiece") == std::string::npos) hash.update(MappedFile(path).bytes());
  return fmt::format("{} ({:016x})", PENSTOCK_VERSION, hash.value());
}

/// The error of a rank that has another `what` than a rank before it.
/// @param difference  what the earlier rank has and what this rank has
Error error_of_difference(const dist::ProcessGroup& group, std::size_t rank, std::size_t first,
                          const std::string& what, const std::string& difference) {
  return Error(concat(group.name(static_cast<int>(rank)), " has another ", what, " than ",
                      group.name(static_cast<int>(first)), ": ", difference,
                      "; all processes of a run must have the same"));
}

/// Makes what an error says from the texts of the earlier rank and of the other rank.
using Explain = std::function<std::string(const std::string& first, const std::string& other)>;
/// The rank with which a rank is compared.
using ComparedWith = std::function<int(int rank)>;

/// Throws on all ranks if a rank's text differs from the text of the rank with which it is
/// compared.
void check_same(
    const dist::ProcessGroup& group, const std::string& what, const std::string& mine,
    const Explain& explain, const ComparedWith& compared_with = [](int) { return 0; }) {
  const auto all = group.gather(mine);
  std::exception_ptr thrown;
  for (std::size_t rank = 1; rank < all.size() && !thrown; ++rank) {
    const auto first = static_cast<std::size_t>(compared_with(static_cast<int>(rank)));
    if (all[rank] != all[first])
      thrown = std::make_exception_ptr(
          error_of_difference(group, rank, first, what, explain(all[first], all[rank])));
  }
  check_none_failed(group, group.rank() == 0 ? thrown : nullptr);
}

std::string both(const std::string& first, const std::string& other) {
  return concat(first, " -> ", other);
}

/// The same after the keys from which the texts follow.
Explain both_of(const std::string& keys) {
  return [keys](const std::string& first, const std::string& other) {
    return concat(keys, ": ", both(first, other));
  };
}

Recipe recipe_from(const std::string& text) {
  return read_config<Recipe>(parse_toml(text, "a rank's recipe"));
}

/// What ranks tell each other about a tensor that they hold.
struct WeightHashes {
  std::uint64_t place = 0;    ///< of the tensor's name and the slice
  std::uint64_t numbers = 0;  ///< of the bytes
};

std::uint64_t hash_of_place(const std::string& name, const Slice& slice) {
  std::string text = name;
  for (const auto& axis : slice.ranges) {
    text += ';';
    for (const IndexRange& range : axis) text += concat(' ', range.first, '-', range.last);
  }
  return xxh64(std::as_bytes(std::span(text)));
}

std::uint64_t hash_of_numbers(const at::Tensor& numbers) {
  const at::Tensor whole = numbers.cpu().contiguous();
  return xxh64({static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
}

/// The lists of all ranks, by rank.
template <class Entry>
std::vector<std::vector<Entry>> gather_lists(const dist::ProcessGroup& group,
                                             const std::vector<Entry>& mine) {
  static_assert(std::is_trivially_copyable_v<Entry>);
  std::string sent(mine.size() * sizeof(Entry), '\0');
  if (!mine.empty()) std::memcpy(sent.data(), mine.data(), sent.size());
  std::vector<std::vector<Entry>> out;
  for (const std::string& theirs : group.gather(sent)) {
    auto& list = out.emplace_back(theirs.size() / sizeof(Entry));
    if (!list.empty()) std::memcpy(list.data(), theirs.data(), theirs.size());
  }
  return out;
}

/// The tensors of which another rank holds the same slice. The others have nothing to differ from,
/// so no rank reads their numbers.
std::vector<HeldWeights> held_in_common(const dist::ProcessGroup& group,
                                        const std::vector<HeldWeights>& held) {
  std::vector<std::uint64_t> places;
  for (const HeldWeights& each : held) places.push_back(hash_of_place(each.name, each.slice));
  std::unordered_map<std::uint64_t, int> holders;
  for (const auto& of_rank : gather_lists(group, places))
    for (const std::uint64_t place : of_rank) ++holders[place];
  std::vector<HeldWeights> out;
  for (std::size_t i = 0; i < held.size(); ++i)
    if (holders.at(places[i]) > 1) out.push_back(held[i]);
  return out;
}

std::vector<WeightHashes> hashes_of(const std::vector<HeldWeights>& held) {
  std::vector<WeightHashes> out;
  for (const HeldWeights& each : held)
    out.push_back({hash_of_place(each.name, each.slice), hash_of_numbers(each.numbers)});
  return out;
}

/// A rank's tensor that differs from the same slice on a rank before it.
struct DriftedWeights {
  std::size_t first = 0, rank = 0;  ///< the two ranks
  std::size_t index = 0;            ///< of the tensor, in the order of `rank`
  std::uint64_t expected = 0, found = 0;
};

std::optional<DriftedWeights> first_drifted(const std::vector<std::vector<WeightHashes>>& all) {
  struct Seen {
    std::size_t rank;
    std::uint64_t numbers;
  };
  std::unordered_map<std::uint64_t, Seen> seen;  // by place, on the first rank that has it
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (std::size_t i = 0; i < all[rank].size(); ++i) {
      const WeightHashes& hashes = all[rank][i];
      const Seen& first = seen.try_emplace(hashes.place, Seen{rank, hashes.numbers}).first->second;
      if (first.numbers != hashes.numbers)
        return DriftedWeights{first.rank, rank, i, first.numbers, hashes.numbers};
    }
  return std::nullopt;
}

}  // namespace

void throw_first_failure(const dist::ProcessGroup& group, const std::vector<std::string>& failures,
                         const std::exception_ptr& thrown) {
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (failures[rank].empty()) continue;
    group.fail_together();
    if (group.rank() > 0) throw ReportedByRankZero(failures[rank]);
    if (rank == 0) std::rethrow_exception(thrown);
    throw FailureOfRank(concat(group.name(static_cast<int>(rank)), ": ", failures[rank]));
  }
}

void check_none_failed(const dist::ProcessGroup& group, const std::exception_ptr& thrown) {
  throw_first_failure(group, group.gather(thrown ? failure_text(thrown) : ""), thrown);
}

void check_same_layout(const dist::ProcessGroup& group, const dist::Layout& layout,
                       const ParallelConfig& parallel) {
  if (group.size() == 1) return;
  const std::string mine =
      concat("data = ", layout.data, "\ntensor = ", layout.tensor, "\npipeline = ", layout.pipeline,
             "\npipeline_chunks = ", parallel.pipeline_chunks, "\nexpert = ", layout.expert,
             "\nsequence = ", layout.sequence, "\nwhole_experts = ", layout.whole_experts,
             "\nzero = ", parallel.zero, "\n");
  check_same(group, "layout", mine, [](const std::string& first, const std::string& other) {
    std::istringstream ours(first), theirs(other);
    std::string line, there;
    while (std::getline(ours, line) && std::getline(theirs, there) && line == there) continue;
    return both("parallel." + line, there.substr(there.rfind(' ') + 1));
  });
}

void check_same_beginning(const dist::ProcessGroup& group, const Recipe& recipe,
                          const std::string& corpus_hash) {
  if (group.size() == 1) return;
  check_same(group, "build of Penstock", build_hash(), both);
  check_same(group, "kind of processor", std::string(word(ops::instruction_set())), both);
  Recipe same = result_settings(recipe);
  same.data.forget_places();
  check_same(group, "recipe", to_toml(written_out(same)),
             [](const std::string& first, const std::string& other) {
               return difference(recipe_from(first), recipe_from(other));
             });
  check_same(group, "corpus", corpus_hash, both);
}

void check_same_passes(const dist::ProcessGroup& group, const dist::Layout& layout,
                       const Recomputation& recomputed, int threads) {
  // The first rank that shares the rank's layers by tensor.
  const auto by_tensor = [&](int rank) {
    const dist::Coordinates at = coordinates_of(layout, rank);
    return rank_at(layout, {.data = at.data, .pipeline = at.pipeline});
  };
  const auto by_experts = [](int) { return 0; };
  if (layout.tensor > 1 || layout.divides_experts())
    check_same(group, "choice of layers to compute again", recomputed_layers_text(recomputed),
               both_of("train.memory_budget, train.recompute_experts"),
               layout.divides_experts() ? ComparedWith(by_experts) : ComparedWith(by_tensor));
  if (layout.tensor > 1)
    check_same(group, "number of threads", std::to_string(threads), both_of("run.threads"),
               by_tensor);
}

void check_same_weights(const dist::ProcessGroup& group, const std::vector<HeldWeights>& held) {
  if (group.size() == 1) return;
  const std::vector<HeldWeights> common = held_in_common(group, held);
  const auto drifted = first_drifted(gather_lists(group, hashes_of(common)));
  if (!drifted) return;  // all ranks find the same
  const bool mine = static_cast<std::size_t>(group.rank()) == drifted->rank;
  const std::string name = group.broadcast_bytes(mine ? common[drifted->index].name : "",
                                                 static_cast<int>(drifted->rank));
  const Error error = error_of_difference(
      group, drifted->rank, drifted->first, "state of the weights",
      fmt::format("{}: {:016x} -> {:016x}", name, drifted->expected, drifted->found));
  check_none_failed(group, group.rank() == 0 ? std::make_exception_ptr(error) : nullptr);
}

}  // namespace penstock
