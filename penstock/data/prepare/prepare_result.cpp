// Writes the result of a preparation as JSON.
#include <nlohmann/json.hpp>

#include "penstock/base/json_text.h"
#include "penstock/data/prepare/prepare.h"

namespace penstock {
namespace {

nlohmann::ordered_json count_json(const TextCount& count) {
  return {{"documents", count.documents}, {"tokens", count.tokens}, {"bytes", count.bytes}};
}

}  // namespace

std::string to_json(const PrepareResult& result) {
  nlohmann::ordered_json splits, domains;
  for (std::size_t s = 0; s < kSplits; ++s) {
    TextCount total;
    for (const auto& domain : result.domains) {
      total.documents += domain.counts[s].documents;
      total.tokens += domain.counts[s].tokens;
      total.bytes += domain.counts[s].bytes;
      domains[domain.name][std::string(kSplitNames[s])] = count_json(domain.counts[s]);
    }
    splits[std::string(kSplitNames[s])] = count_json(total);
  }
  nlohmann::ordered_json json = {{"tokenizer", result.tokenizer},
                                 {"vocab_size", result.vocab_size},
                                 {"content_hash", result.content_hash},
                                 {"splits", splits},
                                 {"domains", domains}};
  if (!result.protocol.empty()) json["protocol"] = result.protocol;
  if (result.deduplicated) {
    json["paragraphs"] = result.paragraphs;
    json["removed_paragraphs"] = result.removed_paragraphs;
    json["removed_bytes"] = result.removed_bytes;
    json["removed_documents"] = result.removed_documents;
    json["validation_overlap"] = result.validation_overlap;
  }
  for (const auto& domain : result.gathered)
    json["gathered"][domain.domain] = {{"read_bytes", domain.read_bytes},
                                       {"unique_bytes", domain.unique_bytes}};
  for (const auto& package : result.packages)
    json["packages"].push_back({{"name", package.name},
                                {"version", package.version},
                                {"licence", package.licence},
                                {"documents", package.documents},
                                {"bytes", package.bytes}});
  json["notes"] = result.notes;
  // Domain names come from file names, which need not be UTF-8.
  return json_text(json, 2);
}

}  // namespace penstock
