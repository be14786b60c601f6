#include "penstock/cli/analysis_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "penstock/base/progress.h"
#include "penstock/report/analysis_sections.h"
#include "penstock/report/text.h"

namespace penstock {
namespace {

using analysis::Analysis;
using analysis::JacobianSummary;
using analysis::LayerMeasures;
using analysis::Snapshot;
using Rows = std::vector<std::vector<std::string>>;

/// The number of characters of a UTF-8 text.
std::size_t characters(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Aligns columns to the right, two spaces apart. The first column and a long last column are
/// aligned to the left.
std::string aligned(const Rows& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], characters(row[i]));
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - characters(row[i]), ' ');
      const bool left = i == 0 || (i + 1 == row.size() && widths[i] > 40);
      line += (i > 0 ? "  " : "") + (left ? row[i] + space : space + row[i]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string step_name(const Analysis& a, std::size_t snapshot) {
  const auto& step = a.snapshots[snapshot].step;
  const char* const mark = snapshot == a.chosen && a.snapshots.size() > 1 ? " *" : "";
  return step ? fmt::format("step {}{}", *step, mark) : "model";
}

/// The number of the MoE layer among the model's layers.
std::string layer_number(const Analysis& a, std::size_t l) {
  return fmt::to_string(a.model_layer(l));
}

std::vector<std::string> head_of_steps(const Analysis& a) {
  std::vector<std::string> head{"layer"};
  for (std::size_t i = 0; i < a.snapshots.size(); ++i) head.push_back(step_name(a, i));
  return head;
}

template <class Cell>
std::string by_step(const Analysis& a, const Cell& cell) {
  Rows rows{head_of_steps(a)};
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l) {
    rows.push_back({layer_number(a, l)});
    for (const Snapshot& snapshot : a.snapshots)
      rows.back().push_back(cell(snapshot.measures.layers[l]));
  }
  return aligned(rows);
}

std::string not_measured(const char* what, const std::string& reason) {
  return fmt::format("\n{}: not measured: {}\n", what, reason);
}

std::string entropy_text(const Analysis& a) {
  if (!a.refused.entropy.empty()) return not_measured("Router entropy", a.refused.entropy);
  const auto experts = a.config.total_experts();
  return fmt::format("\nRouter entropy in nats (most: ln {} = {:.4f}), mean ± sd over tokens\n",
                     experts, std::log(static_cast<double>(experts))) +
         by_step(a, [](const LayerMeasures& layer) {
           return fmt::format("{:.4f} ± {:.2f}", layer.entropy->mean(), layer.entropy->sd());
         });
}

std::string load_text(const Analysis& a) {
  if (!a.refused.load.empty()) return not_measured("Expert load", a.refused.load);
  Rows rows{{"layer", "active", "variation", "idle", "share of each expert in %"}};
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l) {
    const auto& load = *a.here().measures.layers[l].load;
    std::string shares;
    const std::size_t shown = std::min<std::size_t>(load.share.size(), 16);
    for (std::size_t e = 0; e < shown; ++e) shares += fmt::format("{:5.1f}", 100 * load.share[e]);
    if (shown < load.share.size()) shares += " ..";
    rows.push_back({layer_number(a, l), fmt::format("{:.3f}", load.active),
                    fmt::format("{:.3f}", load.variation), fmt::to_string(load.idle), shares});
  }
  return "\nExpert load (variation: sd over experts ÷ mean)\n" + aligned(rows);
}

std::string similarity_text(const Analysis& a) {
  return "\nSimilarity of experts, mean over pairs: output cosine / output CKA / weight cosine\n" +
         by_step(a, [](const LayerMeasures& layer) {
           const auto& s = layer.similarity;
           return fmt::format("{:.3f} / {:.3f} / {:.3f}", s.output_cosine, s.output_cka,
                              s.weight_cosine);
         });
}

std::string between(std::int64_t least, std::int64_t most) {
  return least == most ? fmt::to_string(least) : fmt::format("{}-{}", least, most);
}

std::string k_text(std::int64_t k) { return k > 0 ? fmt::to_string(k) : "varies"; }

std::string jacobian_text(const Analysis& a) {
  if (!a.refused.jacobian.empty()) return not_measured("Jacobian", a.refused.jacobian);
  Rows rows{{"layer", "k", "rank", "bound", "all tokens", "bound", "|J2|/(|J1|+|J2|)", "error"}};
  for (std::size_t l = 0; l < a.jacobians.size(); ++l)
    for (const JacobianSummary& s : a.jacobians[l])
      rows.push_back({layer_number(a, l), k_text(s.k), between(s.least, s.most),
                      between(s.bound_least, s.bound_most), fmt::to_string(s.together),
                      fmt::to_string(s.span_bound), fmt::format("{:.3f}", s.share),
                      fmt::format("{:.0e}{}", std::max(s.closed_error, s.sum_error),
                                  s.bounds_hold ? "" : " bound broken")});
  std::string out = fmt::format(
                        "\nJacobian's second term J2 = sum of E_j x dg_j/dx, fp64, {} tokens: its "
                        "rank at a token, that of all tokens' dg/dx\n",
                        a.jacobians[0][0].tokens) +
                    aligned(rows);
  if (a.growth.empty()) return out;
  rows = {head_of_steps(a)};
  for (std::size_t l = 0; l < a.growth.size(); ++l) {
    rows.push_back({layer_number(a, l)});
    for (const auto& rank : a.growth[l].front().growth.router)
      rows.back().push_back(fmt::format("{} ({:.2f})", rank.numerical, rank.effective));
  }
  out +=
      "\nSpan of the router's rows, stacked up to a step: rank (effective rank)\n" + aligned(rows);
  rows = {{"layer", "k", "bound of one"}};
  for (std::size_t i = 0; i < a.snapshots.size(); ++i) rows[0].push_back(step_name(a, i));
  for (std::size_t l = 0; l < a.growth.size(); ++l)
    for (const auto& one : a.growth[l]) {
      rows.push_back(
          {layer_number(a, l), k_text(one.k), one.k > 0 ? fmt::to_string(one.bound) : "-"});
      for (std::size_t i = 0; i < a.snapshots.size(); ++i)
        rows.back().push_back(fmt::format("{:.1f} ({:.2f})", one.growth.token_rank[i],
                                          one.growth.token_effective[i]));
    }
  return out + "\nSpan of dg/dx at one token, stacked up to a step: rank (effective rank)\n" +
         aligned(rows);
}

/// Replaces control characters and bytes outside ASCII by dots; they would break the columns.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c < 127 ? c : '.';
  return out;
}

std::string samples_text(const Analysis& a) {
  if (!a.refused.samples.empty()) return not_measured("Sample tokens", a.refused.samples);
  std::string out = "\nDistributions at sample tokens (probabilities in %, highest first)\n";
  Rows rows{{"token", "layer", "expert: probability"}};
  for (const auto& sample : a.samples)
    for (std::size_t l = 0; l < sample.probabilities.size(); ++l) {
      const auto& p = sample.probabilities[l];
      std::vector<std::size_t> order(p.size());
      for (std::size_t e = 0; e < p.size(); ++e) order[e] = e;
      std::ranges::sort(order, [&](std::size_t i, std::size_t j) { return p[i] > p[j]; });
      std::string list;
      for (std::size_t e = 0; e < std::min<std::size_t>(order.size(), 8); ++e)
        list += fmt::format("{:>4}:{:5.1f}", order[e], 100 * p[order[e]]);
      rows.push_back({l == 0 ? fmt::format("{} '{}'", sample.token, printable(sample.context)) : "",
                      layer_number(a, l), list + (order.size() > 8 ? "  .." : "")});
    }
  return out + aligned(rows);
}

/// The sections without folded tables and maps, which only the page and --json show.
std::string sections_text(std::vector<study::Section> sections) {
  std::string out;
  for (study::Section& section : sections) {
    std::erase_if(section.tables, [](const study::Table& table) { return table.folded; });
    section.maps.clear();  // --json has the numbers
    out += "\n" + section.title + "\n";
    out += section.tables.empty() ? section.remarks.front().text + "\n"
                                  : report::section_text(section);
  }
  return out;
}

}  // namespace

std::string analysis_text(const Analysis& a) {
  const auto& here = a.here();
  std::string out =
      fmt::format("{}{}, {} split, {} tokens, loss {:.4f}\nmethod {}, {} experts, {:g} active{}\n",
                  a.model, here.step ? fmt::format(" (step {})", *here.step) : "", a.split,
                  grouped(here.measures.tokens), here.measures.loss, a.config.router.method,
                  a.config.total_experts(), a.config.active_experts(),
                  a.snapshots.size() > 1 ? "; * is the checkpoint that the rest is of" : "");
  return out + entropy_text(a) + load_text(a) + sections_text(report::routing_sections(a)) +
         similarity_text(a) + sections_text({report::gradient_section(a)}) + jacobian_text(a) +
         samples_text(a);
}

}  // namespace penstock
