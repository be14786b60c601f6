// The section on the routers' gradients of the language loss at each checkpoint, with the experts'
// similarity.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "penstock/report/analysis_sections.h"

namespace penstock::report {

using namespace study;

namespace {

using analysis::Analysis;
using analysis::LayerMeasures;
using analysis::Moments;
using analysis::RouterGradient;
using analysis::Snapshot;

constexpr const char* kNote =
    "Of the mean cross-entropy alone, in training mode. Through the sum: the share of the logits' "
    "squared gradient that lies along the gradient of a token's gate sum; equal experts under "
    "unnormalised gates have 100 %. Size and direction: the gradient of the router's matrix along "
    "the matrix (above 0: descent shrinks it) and across it.";

std::string mean_and_sd(const Moments& m) {
  return fmt::format("{:.4f} ± {:.3f}", m.mean(), m.sd());
}

TableRow row_of(const Analysis& a, std::size_t layer, const Snapshot& snapshot) {
  const LayerMeasures& measures = snapshot.measures.layers[layer];
  const RouterGradient& g = *measures.gradient;
  std::optional<double> percent, size, direction;
  if (g.along_gate_sum) percent = 100 * *g.along_gate_sum;
  if (g.matrix) size = g.matrix->size, direction = g.matrix->direction;
  return {{fmt::to_string(a.model_layer(layer)), step_text(snapshot.step), mean_and_sd(g.gate_sum),
           mean_and_sd(g.log_gate_sum), number_or_dash(percent, "{:.1f}"),
           number_or_dash(size, "{:.2e}"), number_or_dash(direction, "{:.2e}"),
           fixed(3)(measures.similarity.output_cosine)}};
}

}  // namespace

Section gradient_section(const Analysis& a) {
  const std::string title = "Gate sums and the routers' gradient";
  if (!a.refused.gradient.empty()) return refusal(title, a.refused.gradient);
  Table table{.title = "By layer and checkpoint, mean ± sd over tokens",
              .note = kNote,
              .columns = {"layer", "", "gate sum", "ln gate sum", "through the sum, %", "size",
                          "direction", "experts' cosine"}};
  for (std::size_t l = 0; l < a.here().measures.layers.size(); ++l)
    for (const Snapshot& snapshot : a.snapshots) table.rows.push_back(row_of(a, l, snapshot));
  Section out{.title = title, .tables = {std::move(table)}};
  if (a.snapshots.size() == 1) return out;
  const auto gradient = [&](std::size_t l, std::size_t i) -> const RouterGradient& {
    return *a.snapshots[i].measures.layers[l].gradient;
  };
  out.charts.push_back(
      {.title = "ln gate sum over training",
       .drawn = over_steps(a, "gate-sum", "mean ln gate sum", [&](std::size_t l, std::size_t i) {
         return gradient(l, i).log_gate_sum.mean();
       })});
  if (gradient(0, 0).matrix)
    out.charts.push_back(
        {.title = "The gradient across the router's matrix",
         .caption = "What of the loss's gradient would turn the rows of the matrix, and not make "
                    "them longer or shorter.",
         .drawn = over_steps(a, "router-direction", "norm", [&](std::size_t l, std::size_t i) {
           return gradient(l, i).matrix->direction;
         })});
  return out;
}

}  // namespace penstock::report
