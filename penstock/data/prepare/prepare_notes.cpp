#include "penstock/data/prepare/prepare_notes.h"

#include <fmt/format.h>

#include <algorithm>

#include "penstock/data/corpus/split.h"

namespace penstock {

std::string cut_documents_note(const std::string& domain,
                               std::span<const Document* const> documents, bool joined) {
  const bool blank_lines =
      joined && std::ranges::any_of(documents, [](const Document* document) {
        return std::string_view(document->text).find("\n\n") != std::string_view::npos;
      });
  return fmt::format(
      "domain {} has too few documents ({}) to give whole ones to every split: its text was cut "
      "instead, so validation and test are its last parts{}",
      domain, documents.size(),
      blank_lines ? "; if blank lines separate documents, `penstock data prepare "
                    "--document-separator blank-lines` draws whole ones from everywhere"
                  : "");
}

std::vector<std::string> empty_split_notes(const std::array<double, 3>& shares,
                                           const std::array<std::int64_t, 3>& tokens) {
  std::vector<std::string> out;
  for (std::size_t s = 0; s < shares.size(); ++s)
    if (shares[s] > 0 && tokens[s] == 0)
      out.push_back(fmt::format("the {} split is empty: the text is too short for its share of {}",
                                split_name(static_cast<Split>(s)), shares[s]));
  return out;
}

}  // namespace penstock
