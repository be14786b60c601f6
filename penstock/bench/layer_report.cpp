// What `penstock bench layer` prints, as JSON and for people.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "penstock/bench/layer_bench.h"
#include "penstock/bench/load_text.h"

namespace penstock::bench {

nlohmann::ordered_json sweep_json(const LayerBench& layer) {
  return {{"tokens", layer.tokens},
          {"d_model", layer.d_model},
          {"d_ffn", layer.d_ffn},
          {"experts", layer.experts},
          {"active_experts", layer.active_experts},
          {"steps", layer.steps},
          {"clock", word(layer.clock)},
          {"threads", layer.machine.threads},
          {"forward_seconds", layer.forward_seconds},
          {"backward_seconds", layer.backward_seconds},
          {"optimizer_seconds", layer.optimizer_seconds},
          {"useful_flops_per_second", layer.useful_flops_per_second},
          {"useful_flops", layer.useful_flops},
          {"share_of_peak", layer.share_of_peak()},
          {"peak_flops", layer.machine.peak_flops},
          {"memory_bandwidth", layer.machine.memory_bandwidth}};
}

nlohmann::ordered_json to_json(const LayerBench& layer) {
  nlohmann::ordered_json out = sweep_json(layer);
  out["profiled_seconds"] = layer.table.seconds;
  out["operators"] = operators_json(layer.table, layer.machine);
  out["outside_share"] = layer.table.outside_share();
  out["outside"] = outside_json(layer.table);
  if (!layer.load.empty()) out["load"] = layer.load;
  return out;
}

std::string to_text(const LayerBench& layer) {
  std::string out = sweep_text(layer, true);
  out += "\n" + table_text(layer.table, layer.machine);
  if (!layer.load.empty()) out += "\nassignments per token by expert:\n" + load_text({layer.load});
  return out;
}

std::string sweep_text(const LayerBench& layer, bool first) {
  std::string out;
  if (first)
    out = fmt::format(
        "one layer, d={}, f={}, {} thread{}, {} time, median of {} steps; \"of peak\" is of "
        "forward and backward\n"
        "{:>8} {:>8} {:>8} {:>12} {:>12} {:>14} {:>12} {:>8}\n",
        layer.d_model, layer.d_ffn, layer.machine.threads, layer.machine.threads == 1 ? "" : "s",
        word(layer.clock), layer.steps, "tokens", "experts", "active", "forward ms", "backward ms",
        "fwd+bwd ms", "optimizer ms", "of peak");
  return out +
         fmt::format("{:>8} {:>8} {:>8.3f} {:>12.3f} {:>12.3f} {:>14.3f} {:>12.3f} {:>7.1f}%\n",
                     layer.tokens, layer.experts, layer.active_experts, 1e3 * layer.forward_seconds,
                     1e3 * layer.backward_seconds,
                     1e3 * (layer.forward_seconds + layer.backward_seconds),
                     1e3 * layer.optimizer_seconds, 100 * layer.share_of_peak());
}

}  // namespace penstock::bench
