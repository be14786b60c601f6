#include "penstock/bench/generate_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/median.h"
#include "penstock/base/random.h"
#include "penstock/bench/lap_timer.h"
#include "penstock/infer/session.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/ops/machine/precision.h"

namespace penstock::bench {
namespace {

constexpr std::int64_t kMostPrompt = 512, kMostSteps = 128;

/// Puts a length that the context has room for in place of each length that is 0.
GenerateBenchOptions with_lengths(GenerateBenchOptions options, const ModelConfig& config) {
  const bool bounded = !config.has_memory() && config.context > 0;
  const std::int64_t room = bounded ? config.context : std::numeric_limits<std::int64_t>::max();
  if (options.tokens == 0) {
    const std::int64_t rest = options.prompt > 0 ? room - options.prompt : room / 2;
    options.tokens = std::clamp<std::int64_t>(rest, 1, kMostSteps);
  }
  if (options.prompt == 0)
    options.prompt = std::clamp<std::int64_t>(room - options.tokens, 1, kMostPrompt);
  return options;
}

/// One repetition. Reads every sequence's prompt and calls after(true), then runs the steps and
/// calls after(false) after each step.
template <class After>
void repeat(Session& session, const std::vector<TokenId>& tokens,
            const GenerateBenchOptions& options, const After& after) {
  const auto prompt = static_cast<std::size_t>(options.prompt);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(options.batch));
  std::iota(rows.begin(), rows.end(), 0);
  for (const std::int64_t row : rows) session.begin(row, std::span(tokens).first(prompt));
  after(true);
  for (std::size_t t = prompt; t < tokens.size(); ++t) {
    session.next(rows, std::vector<TokenId>(rows.size(), tokens[t]));
    after(false);
  }
}

std::vector<TokenId> random_tokens(std::int64_t count, std::int64_t vocab) {
  std::vector<TokenId> tokens;
  for (std::int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<TokenId>(random_below(
        random_bits(1, 0, static_cast<std::uint64_t>(i)), static_cast<std::uint64_t>(vocab))));
  return tokens;
}

bool has_bf16_products(const OperatorTable& table) {
  return std::ranges::any_of(table.operators,
                             [](const OperatorRow& row) { return row.bf16_flops > 0; });
}

/// "541.8 GFLOP/s", or "541.8 GFLOP/s in F32 and 1010.3 in bf16" where both were measured.
std::string peak_text(const MachineLimits& machine) {
  const std::string in_f32 = fmt::format("{:.1f} GFLOP/s", machine.peak_flops / 1e9);
  if (machine.peak_flops_bf16 == 0) return in_f32;
  return in_f32 + fmt::format(" in F32 and {:.1f} in bf16", machine.peak_flops_bf16 / 1e9);
}

}  // namespace

GenerateBench measure_generate(const std::shared_ptr<LanguageModel>& model,
                               const GenerateBenchOptions& asked) {
  const ModelConfig& config = model->config();
  const GenerateBenchOptions options = with_lengths(asked, config);
  PENSTOCK_CHECK(
      options.prompt > 0 && options.tokens > 0 && options.batch > 0 && options.repetitions > 0,
      "prompt, tokens, batch and repetitions must be 1 or more");
  const std::int64_t length = options.prompt + options.tokens;
  PENSTOCK_CHECK(config.has_memory() || config.context == 0 || length <= config.context,
                 "options.prompt ", options.prompt, " and options.tokens ", options.tokens,
                 " are together more than the model's context of ", config.context, "; lower one");
  const std::vector<TokenId> tokens = random_tokens(length, config.vocab);
  GenerateBench out{.options = options};
  out.machine = {.threads = options.threads,
                 .peak_flops = ops::measure_peak_flops(options.threads),
                 .memory_bandwidth = options.memory_bandwidth > 0
                                         ? options.memory_bandwidth
                                         : ops::measure_memory_bandwidth(options.threads)};
  const auto session = make_session(model, {.sequences = options.batch, .capacity = length});
  std::vector<double> prompts, steps;
  const std::int64_t preempted = preemptions();
  LapTimer whole;
  for (std::int64_t i = -1; i < options.repetitions; ++i) {  // the first one warms up
    LapTimer watch;
    double seconds = 0;
    repeat(*session, tokens, options, [&](bool prompt) {
      const double lap = watch.lap();
      if (!prompt)
        seconds += lap;
      else if (i >= 0)
        prompts.push_back(lap);
    });
    if (i >= 0) steps.push_back(seconds);
  }
  out.preempted_per_second = static_cast<double>(preemptions() - preempted) / whole.lap();
  const auto batch = static_cast<double>(options.batch);
  out.prompt_tokens_per_second = static_cast<double>(options.prompt) * batch / median(prompts);
  out.tokens_per_second = static_cast<double>(options.tokens) * batch / median(steps);
  std::vector<ProfiledStep> profiled;
  {
    ops::Profile profile;
    LapTimer watch;
    repeat(*session, tokens, options, [&](bool prompt) {
      ProfiledStep step{watch.lap(), profile.operators(), profile.scopes()};
      if (prompt)
        out.prompt = make_table({std::move(step)});
      else
        profiled.push_back(std::move(step));
      profile.clear();
      watch.lap();
    });
  }
  out.step = make_table(std::move(profiled));
  for (const OperatorRow& row : out.step.operators) out.bytes_per_step += row.bytes;
  if (has_bf16_products(out.prompt) && ops::processor_has_bf16())
    out.machine.peak_flops_bf16 =
        ops::measure_peak_flops(options.threads, 0.2, ops::ProductPrecision::bf16);
  return out;
}

nlohmann::ordered_json to_json(const GenerateBench& bench) {
  const double peak = bench.machine.peak_flops_bf16;
  const auto bf16 = peak > 0 ? nlohmann::ordered_json(peak) : nlohmann::ordered_json();
  return {{"data", "uniform random tokens"},
          {"prompt", bench.options.prompt},
          {"tokens", bench.options.tokens},
          {"batch", bench.options.batch},
          {"repetitions", bench.options.repetitions},
          {"threads", bench.machine.threads},
          {"prompt_tokens_per_second", bench.prompt_tokens_per_second},
          {"generation_tokens_per_second", bench.tokens_per_second},
          {"tokens_per_second", bench.tokens_per_second},  // the key's former name
          {"bytes_per_step", bench.bytes_per_step},
          {"share_of_bandwidth", bench.share_of_bandwidth()},
          {"share_of_peak", bench.share_of_peak()},
          {"peak_flops", bench.machine.peak_flops},
          {"peak_flops_bf16", bf16},
          {"memory_bandwidth", bench.machine.memory_bandwidth},
          {"preempted_per_second", bench.preempted_per_second},
          {"prompt_operators", operators_json(bench.prompt, bench.machine)},
          {"step_operators", operators_json(bench.step, bench.machine)}};
}

std::string to_text(const GenerateBench& b) {
  return fmt::format(
             "{} sequence{}, prompt {} tokens, then {} steps; {} thread{}, median of {}\n"
             "  prompt      {:>9.1f} tokens/s   {:.1f} % of the peak of {}\n"
             "  generation  {:>9.1f} tokens/s   {:.1f} MB a step: {:.1f} % of the bandwidth of "
             "{:.1f} GB/s\n\nA prompt\n",
             b.options.batch, b.options.batch == 1 ? "" : "s", b.options.prompt, b.options.tokens,
             b.machine.threads, b.machine.threads == 1 ? "" : "s", b.options.repetitions,
             b.prompt_tokens_per_second, 100 * b.share_of_peak(), peak_text(b.machine),
             b.tokens_per_second, b.bytes_per_step / 1e6, 100 * b.share_of_bandwidth(),
             b.machine.memory_bandwidth / 1e9) +
         table_text(b.prompt, b.machine) + "\nA step\n" + table_text(b.step, b.machine);
}

}  // namespace penstock::bench
