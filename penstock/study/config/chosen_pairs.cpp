#include "penstock/study/config/chosen_pairs.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/study/config/named_tables.h"

namespace penstock::study {
namespace {

std::string quoted(const ChosenPair& pair) {
  return concat("[\"", pair.first, "\", \"", pair.second, "\"]");
}

/// @param where  begins the messages of errors
ChosenPair checked_pair(const std::vector<std::string>& names,
                        const std::vector<std::string>& variants, const std::string& where) {
  PENSTOCK_CHECK(names.size() == 2, where, " has a list of ", names.size(),
                 names.size() == 1 ? " name" : " names",
                 "; write a pair as [\"FIRST\", \"SECOND\"]");
  for (const std::string& name : names) check_is_variant(name, variants, where);
  const ChosenPair pair{.first = names[0], .second = names[1]};
  PENSTOCK_CHECK(pair.first != pair.second, where, " has ", quoted(pair),
                 ", the same variant twice; name two variants");
  return pair;
}

}  // namespace

std::vector<ChosenPair> read_pairs(const std::vector<std::vector<std::string>>& pairs,
                                   const ConfigNode* node,
                                   const std::vector<std::string>& variants) {
  std::vector<ChosenPair> out;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const std::string where = std::get<ConfigNode::Array>(node->value())[i].origin() + ": pairs";
    const ChosenPair pair = checked_pair(pairs[i], variants, where);
    for (const ChosenPair& earlier : {pair, ChosenPair{pair.second, pair.first}})
      PENSTOCK_CHECK(std::ranges::find(out, earlier) == out.end(), where, " has ", quoted(pair),
                     " after ", quoted(earlier),
                     ", which is the same pair; leave one of the two out");
    out.push_back(pair);
  }
  return out;
}

}  // namespace penstock::study
