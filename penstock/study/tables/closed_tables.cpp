#include "penstock/study/tables/closed_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "penstock/study/config/config_hash.h"
#include "penstock/study/measurement.h"
#include "penstock/study/tables/settings_table.h"

namespace penstock::study {
namespace {

Table recipe_settings(const StudyConfig& study,
                      const std::function<ConfigNode(const ConfigNode&)>& resolve) {
  SettingsTable out("Settings", "corpus", recipe_columns());
  const auto& published = study.comparison.published;
  for (const auto& variant : study.variants) {
    const auto settings = flatten(resolve(variant.recipe));
    const auto paper = published.find(variant.name);
    out.add(variant.label, plain_setting(settings, "data.corpus"), settings, "train.",
            paper == published.end() ? std::map<std::string, double>() : paper->second);
  }
  return out.table();
}

std::string agreement(const ClosedFigure& figure) {
  if (!figure.published) return "";
  if (figure.agrees) return "agrees";
  return figure.remark.empty() ? "differs" : "differs: " + figure.remark;
}

}  // namespace

Table closed_form_table(const ClosedForm& form, std::span<const ClosedFigure> figures) {
  const auto differs = [](const auto& figure) { return figure.useful != figure.computed; };
  const bool useful = std::ranges::any_of(figures, differs);
  const bool published =
      std::ranges::any_of(figures, [](const auto& figure) { return figure.published.has_value(); });
  const auto digits = static_cast<int>(form.digits);
  const auto as_printed = fixed(digits), more_digits = fixed(digits + (useful ? 2 : 0));
  Table out{.title = fmt::format("{}{}{} ({})", form.of, form.of.empty() ? "" : ": ", form.title,
                                 form.unit),
            .note = form.note,
            .columns = {"", "method"}};
  if (published) out.columns.emplace_back("published");
  out.columns.emplace_back("closed form");
  if (useful) out.columns.emplace_back("useful");
  if (published) out.columns.emplace_back("remark");
  for (const ClosedFigure& figure : figures) {
    auto& cells = out.rows.emplace_back().cells;
    cells = {figure.row, figure.column};
    if (published) cells.emplace_back(figure.published ? as_printed(*figure.published) : "–");
    cells.emplace_back(more_digits(figure.computed));
    if (useful) cells.emplace_back(more_digits(figure.useful));
    if (published) cells.emplace_back(agreement(figure));
  }
  return out;
}

std::vector<Table> closed_tables(const StudyConfig& study,
                                 const std::function<ConfigNode(const ConfigNode&)>& resolve) {
  std::vector<Table> out;
  for (const auto& what : study.report) {
    if (what == kClosedForms)
      for (const ClosedForm& form : study.closed_forms)
        out.push_back(closed_form_table(form, closed_figures(form, study.variants)));
    if (what != "settings") continue;
    if (!study.variants.empty()) out.push_back(recipe_settings(study, resolve));
    for (const auto& one : study.measurements)
      if (auto table = one->settings_table()) out.push_back(std::move(*table));
  }
  return out;
}

}  // namespace penstock::study
