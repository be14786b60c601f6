#include "penstock/study/config/chosen_pairs.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/study/config/named_tables.h"

namespace penstock::study {
namespace {

/// `"a", "b"`.
std::string quoted(const VariantGroup& group) {
  std::string out;
  for (const std::string& name : group.names) out += (out.empty() ? "\"" : ", \"") + name + '"';
  return out;
}

/// As in the file, without the label.
std::string quoted(const ChosenPair& pair) {
  if (pair.first.names.size() == 1 && pair.second.names.size() == 1)
    return "[" + quoted(pair.first) + ", " + quoted(pair.second) + "]";
  return "{first = [" + quoted(pair.first) + "], second = [" + quoted(pair.second) + "]}";
}

/// @param where  begins the messages of errors
ChosenPair read_list(const ConfigNode::Array& names, const std::string& where) {
  PENSTOCK_CHECK(names.size() == 2, where, " has a list of ", names.size(),
                 names.size() == 1 ? " name" : " names",
                 "; write a pair as [\"FIRST\", \"SECOND\"]");
  const auto name_of = [&](const ConfigNode& node) {
    const auto* name = std::get_if<std::string>(&node.value());
    PENSTOCK_CHECK(name, where, ": expected a string, found ", node.type_name(),
                   "; write groups as {first = [...], second = [...]}");
    return *name;
  };
  return {.first = name_of(names[0]), .second = name_of(names[1])};
}

ChosenPair read_table(const ConfigNode& table, const std::string& where) {
  PairFields fields = read_config<PairFields>(table, "pairs");
  ChosenPair out;
  if (!fields.label.empty()) out.label = std::move(fields.label);
  out.first.names = std::move(fields.first);
  out.second.names = std::move(fields.second);
  PENSTOCK_CHECK(!out.first.names.empty(), where, ".first has no variants; name at least one");
  PENSTOCK_CHECK(!out.second.names.empty(), where, ".second has no variants; name at least one");
  return out;
}

ChosenPair read_pair(const ConfigNode& node, const std::string& where) {
  if (node.is_table()) return read_table(node, where);
  const auto* names = std::get_if<ConfigNode::Array>(&node.value());
  PENSTOCK_CHECK(names, where, ": expected an array or a table, found ", node.type_name());
  return read_list(*names, where);
}

/// Refuses unknown variants, and variants that stand twice.
void check_names(const ChosenPair& pair, const std::vector<std::string>& variants,
                 const std::string& where) {
  std::vector<std::string> seen;
  for (const VariantGroup* group : {&pair.first, &pair.second})
    for (const std::string& name : group->names) {
      check_is_variant(name, variants, where);
      PENSTOCK_CHECK(std::ranges::find(seen, name) == seen.end(), where, " has ", quoted(pair),
                     ", with '", name, "' twice; name a variant once");
      seen.push_back(name);
    }
}

bool same_variants(const VariantGroup& a, const VariantGroup& b) {
  return std::ranges::is_permutation(a.names, b.names);
}

/// Whether both compare the same variants, in the same or the other order.
bool is_same_pair(const ChosenPair& a, const ChosenPair& b) {
  return (same_variants(a.first, b.first) && same_variants(a.second, b.second)) ||
         (same_variants(a.first, b.second) && same_variants(a.second, b.first));
}

}  // namespace

std::vector<ChosenPair> read_pairs(const ConfigNode::Array& pairs,
                                   const std::vector<std::string>& variants) {
  std::vector<ChosenPair> out;
  for (const ConfigNode& node : pairs) {
    const std::string where = node.origin() + ": pairs";
    const ChosenPair pair = read_pair(node, where);
    check_names(pair, variants, where);
    for (const ChosenPair& earlier : out)
      PENSTOCK_CHECK(!is_same_pair(pair, earlier), where, " has ", quoted(pair), " after ",
                     quoted(earlier), ", which is the same pair; leave one of the two out");
    out.push_back(pair);
  }
  return out;
}

}  // namespace penstock::study
