#include "penstock/tasks/requests.h"

#include <algorithm>
#include <limits>

#include "penstock/base/error.h"

namespace penstock::tasks {
namespace {

/// The most requests that form one item. It exceeds the number of a task item's choices. It is
/// limited because a cache allocates the rows of all requests of an item at once.
constexpr std::size_t kMostAlike = 64;

bool begin_alike(const TokenRequest& a, const TokenRequest& b) {
  const auto end = std::ranges::mismatch(a.ids, b.ids).in1;
  return 2 * static_cast<std::size_t>(end - a.ids.begin()) >= std::max(a.ids.size(), b.ids.size());
}

bool has_keys(const Row& row, const char* first, const char* second) {
  return row.size() == 2 && row.contains(first) && row.contains(second);
}

TokenRequest tokens_of(const Row& row) {
  TokenRequest out;
  const Row &ids = row.at("ids"), &from = row.at("scored_from");
  const auto is_id = [](const Row& id) {
    return id.is_number_integer() && id >= 0 && id <= std::numeric_limits<TokenId>::max();
  };
  PENSTOCK_CHECK(ids.is_array() && std::ranges::all_of(ids, is_id),
                 "'ids' is no list of token ids");
  out.ids = ids.get<std::vector<TokenId>>();
  PENSTOCK_CHECK(from.is_number_integer() && from >= 1 && from < ids.size(), "'scored_from' is ",
                 from.dump(), " and must be from 1 to ", ids.size(),
                 " - 1: a token is scored after another");
  out.scored_from = from.get<std::size_t>();
  return out;
}

std::string text_of(const Row& row, const char* key) {
  PENSTOCK_CHECK(row.at(key).is_string(), "'", key, "' is no text");
  return row.at(key).get<std::string>();
}

}  // namespace

TokenRequest read_request(const RequestEncoder& encoder, const SourceRow& source) {
  const Row& row = source.row;
  try {
    if (has_keys(row, "ids", "scored_from")) return encoder.cut(tokens_of(row));
    PENSTOCK_CHECK(has_keys(row, "context", "continuation"),
                   "a request has 'context' and 'continuation', or 'ids' and 'scored_from', and no "
                   "more");
    return encoder.encode({text_of(row, "context"), text_of(row, "continuation")},
                          Score::kContinuation);
  } catch (const Error& error) {
    fail(source.where, ": ", error.what());
  }
}

std::vector<RequestScore> score_requests(LanguageModel& model,
                                         std::span<const TokenRequest> requests,
                                         const ScoringOptions& options) {
  std::vector<std::vector<TokenRequest>> items;
  for (const TokenRequest& request : requests) {
    if (items.empty() || items.back().size() == kMostAlike ||
        !begin_alike(items.back().front(), request))
      items.emplace_back();
    items.back().push_back(request);
  }
  std::vector<RequestScore> out;
  for (const auto& item : score_items(model, items, options))
    out.insert(out.end(), item.begin(), item.end());
  return out;
}

void add_score(Row& to, const TokenRequest& request, const RequestScore& score) {
  to["ids"] = request.ids;
  to["scored_from"] = request.scored_from;
  to["loglikelihood"] = score.loglikelihood;
  to["greedy"] = score.greedy;
}

}  // namespace penstock::tasks
