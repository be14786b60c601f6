#include "penstock/serve/corpus_json.h"

#include <algorithm>

#include "penstock/base/json_text.h"
#include "penstock/serve/reply_json.h"

namespace penstock::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 12;        // tokens shown for an expert
constexpr std::size_t kFrequent = 300;    // frequent tokens shown with their experts
constexpr std::size_t kShownExperts = 4;  // experts shown for a frequent token

Json tokens_json(const std::vector<analysis::ListedToken>& tokens) {
  Json out = Json::array();
  for (const analysis::ListedToken& one : tokens)
    if (one.value > 0)
      out.push_back(
          {{"id", one.id}, {"text", one.text}, {"count", one.count}, {"share", one.value}});
  return out;
}

/// For each layer, the experts with the largest shares of a token's places.
Json places_json(const analysis::TokenExperts& counted, std::size_t layers, std::size_t id) {
  Json out = Json::array();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::vector<ExpertShare> shares;
    for (std::int64_t e = 0; e < counted.experts; ++e)
      if (const double got = counted.by_expert(layer, static_cast<std::size_t>(e), id); got > 0)
        shares.push_back({.expert = e, .weight = static_cast<float>(got / counted.count[id])});
    std::ranges::stable_sort(shares, std::ranges::greater(), &ExpertShare::weight);
    if (shares.size() > kShownExperts) shares.resize(kShownExperts);
    out.push_back(shares_json(shares));
  }
  return out;
}

/// The most frequent tokens, each with its experts.
Json frequent_json(const analysis::TokenExperts& counted, const Tokenizer& tokenizer,
                   std::size_t layers) {
  std::vector<std::size_t> ids;
  for (std::size_t id = 0; id < counted.count.size(); ++id)
    if (counted.count[id] > 0) ids.push_back(id);
  Json out = Json::array();
  for (const analysis::ListedToken& one :
       listed_tokens(counted, tokenizer, std::move(ids), kFrequent,
                     [&](std::size_t id) { return counted.count[id]; }))
    out.push_back({{"id", one.id},
                   {"text", one.text},
                   {"count", one.count},
                   {"layers", places_json(counted, layers, static_cast<std::size_t>(one.id))}});
  return out;
}

Json domain_json(const analysis::DomainRouting& domain) {
  return {{"name", domain.name},
          {"tokens", domain.tokens},
          {"loss", domain.loss},
          {"active", domain.active},
          {"load", domain.load}};
}

}  // namespace

std::string corpus_json(const analysis::CorpusExperts& counted, const Tokenizer& tokenizer,
                        const std::string& corpus, const std::string& split) {
  const analysis::TokenExperts& tokens = counted.tokens;
  Json out{{"object", "corpus"}, {"corpus", corpus}, {"split", split}, {"tokens", tokens.tokens}};
  out["experts"] = tokens.experts;
  out["occurs_often"] = analysis::kOccursOften;
  const std::size_t layers = counted.domains.empty() ? 0 : counted.domains[0].load.size();
  out["layers"] = Json::array();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    Json experts = Json::array();
    for (std::size_t e = 0; e < static_cast<std::size_t>(tokens.experts); ++e)
      experts.push_back(
          {{"surest", tokens_json(surest_tokens(tokens, tokenizer, layer, e, kShown))},
           {"commonest", tokens_json(commonest_tokens(tokens, tokenizer, layer, e, kShown))}});
    out["layers"].push_back(std::move(experts));
  }
  out["frequent"] = frequent_json(tokens, tokenizer, layers);
  out["divergence"] = analysis::domain_divergence(counted.domains);
  out["domains"] = Json::array();
  for (const analysis::DomainRouting& domain : counted.domains)
    out["domains"].push_back(domain_json(domain));
  return json_text(out);
}

}  // namespace penstock::serve
