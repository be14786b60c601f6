#include "penstock/study/config/closed_form.h"

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/study/config/named_tables.h"

namespace penstock::study {
namespace {

void check_closed_cell(const ClosedCell& cell, ClosedCount count,
                       const std::vector<std::string>& variants) {
  if (count != ClosedCount::parameters) {
    PENSTOCK_CHECK(!cell.part, cell.where,
                   ".part: FLOPs have no parts; give k, or count = \"parameters\" in the table");
  } else {
    PENSTOCK_CHECK(!cell.k, cell.where,
                   ".k: parameters do not depend on k; give part, or count = \"flops\" in the "
                   "table");
    PENSTOCK_CHECK(cell.part, cell.where, ": say as part which parameters are counted");
  }
  for (const std::string& name : cell.variants)
    check_is_variant(name, variants, cell.where + ".variants");
}

ClosedForm read_closed_form(const std::string& name, const ConfigNode& node,
                            const std::vector<std::string>& variants) {
  const std::string path = "closed_form." + name;
  ClosedForm form = read_config<ClosedForm>(node, path);
  form.name = name;
  if (form.title.empty()) form.title = name;
  const bool flops = form.count != ClosedCount::parameters;
  if (form.unit.empty()) form.unit = flops ? "FLOPs" : "parameters";
  const ConfigNode* const work = node.find("work");
  PENSTOCK_CHECK(
      flops || !work, work->origin(), ": ", path,
      ".work: parameters do not depend on work; leave it out, or give count = \"flops\"");
  PENSTOCK_CHECK(form.count != ClosedCount::training_flops ||
                     (form.work.memory == 0 && !form.work.queries_of_memory),
                 work->origin(), ": ", path,
                 ".work: the formula of training-flops has no memory; leave it out");
  PENSTOCK_CHECK(!form.cells.empty(), node.origin(), ": ", path,
                 ": has no cells; give at least one");
  const auto& nodes = std::get<ConfigNode::Array>(node.find("cells")->value());
  for (std::size_t i = 0; i < form.cells.size(); ++i) {
    form.cells[i].where = nodes[i].origin() + ": " + path + ".cells";
    check_closed_cell(form.cells[i], form.count, variants);
  }
  return form;
}

}  // namespace

std::vector<ClosedForm> read_closed_forms(const ConfigNode& tables,
                                          const std::vector<std::string>& variants) {
  std::vector<ClosedForm> out;
  for (const std::string& name : names_in_order(tables, "closed_form"))
    out.push_back(read_closed_form(name, *tables.find(name), variants));
  PENSTOCK_CHECK(out.empty() || !variants.empty(), tables.find(out.front().name)->origin(),
                 ": closed_form.", out.front().name,
                 ": its figures are of the study's variants; give it [variants.NAME] tables");
  return out;
}

}  // namespace penstock::study
