#include "penstock/train/ranks/agreement.h"

#include <fmt/format.h>
#include <link.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "penstock/base/checksum.h"
#include "penstock/base/failure_text.h"
#include "penstock/base/fields.h"
#include "penstock/base/mapped_file.h"
#include "penstock/io/toml.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/train/recipe.h"
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

/// Throws on all ranks if a rank's text differs from the text of the first rank of the same kind.
/// @param kind     this rank's kind
/// @param explain  makes the end of the message "another WHAT than rank 0 on ..." from both texts
void check_same(const dist::ProcessGroup& group, const std::string& what, const std::string& mine,
                const std::function<std::string(const std::string&, const std::string&)>& explain,
                const std::string& kind = "") {
  const auto all = group.gather(mine), kinds = group.gather(kind);
  std::exception_ptr thrown;
  for (std::size_t rank = 1; rank < all.size() && !thrown; ++rank) {
    const auto first =
        static_cast<std::size_t>(std::ranges::find(kinds, kinds[rank]) - kinds.begin());
    if (all[rank] != all[first])
      thrown = std::make_exception_ptr(
          Error(concat(group.name(static_cast<int>(rank)), " has another ", what, " than ",
                       group.name(static_cast<int>(first)), ": ", explain(all[first], all[rank]),
                       "; all processes of a run must have the same")));
  }
  check_none_failed(group, group.rank() == 0 ? thrown : nullptr);
}

std::string both(const std::string& first, const std::string& other) {
  return concat(first, " -> ", other);
}

Recipe recipe_from(const std::string& text) {
  return read_config<Recipe>(parse_toml(text, "a rank's recipe"));
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

void check_same_weights(const dist::ProcessGroup& group,
                        const std::map<std::string, at::Tensor>& weights, const std::string& part) {
  if (group.size() == 1) return;
  Xxh64 hash;
  for (const auto& [name, value] : weights) {
    const at::Tensor whole = value.cpu().contiguous();
    hash.update({static_cast<const std::byte*>(whole.data_ptr()), whole.nbytes()});
  }
  check_same(group, "state of the weights", fmt::format("{:016x}", hash.value()), both, part);
}

}  // namespace penstock
