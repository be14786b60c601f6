#include "penstock/serve/metrics.h"

#include <fmt/format.h>

namespace penstock::serve {
namespace {

std::string headed(const std::string& name, const std::string& type, const std::string& help) {
  return fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

std::string single(const std::string& name, const std::string& type, const std::string& help,
                   std::int64_t value) {
  return headed(name, type, help) + fmt::format("{} {}\n", name, value);
}

}  // namespace

void SecondsHistogram::add(double seconds) {
  for (std::size_t i = 0; i < kBounds.size(); ++i) below_[i] += seconds <= kBounds[i];
  ++count_;
  sum_ += seconds;
}

std::string SecondsHistogram::text(const std::string& name, const std::string& help) const {
  std::string out = headed(name, "histogram", help);
  for (std::size_t i = 0; i < kBounds.size(); ++i)
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], below_[i]);
  return out + fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name,
                           count_, sum_);
}

void Metrics::answered(const std::string& path, int status) {
  const std::scoped_lock lock(mutex_);
  ++answered_[{path, status}];
}

void Metrics::first_token_after(double seconds) {
  const std::scoped_lock lock(mutex_);
  first_token_.add(seconds);
}

void Metrics::whole_after(double seconds) {
  const std::scoped_lock lock(mutex_);
  whole_.add(seconds);
}

void Metrics::left() {
  const std::scoped_lock lock(mutex_);
  ++left_;
}

std::string Metrics::text(const ServiceState& state) const {
  const std::scoped_lock lock(mutex_);
  std::string out = headed("penstock_requests_total", "counter", "Requests answered.");
  for (const auto& [key, count] : answered_)
    out += fmt::format("penstock_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first,
                       key.second, count);
  out += single("penstock_clients_left_total", "counter",
                "Clients that disconnected before their answer was complete.", left_);
  out += single("penstock_texts_running", "gauge", "Texts being generated.", state.running);
  out += single("penstock_texts_waiting", "gauge", "Texts waiting in the queue.", state.waiting);
  out += single("penstock_kept_tokens", "gauge", "Tokens kept for prompts with the same beginning.",
                state.kept_tokens);
  out += single("penstock_steps_total", "counter", "Passes through the model.", state.counts.steps);
  out += single("penstock_prompt_tokens_total", "counter", "Prompt tokens processed.",
                state.counts.prompt_tokens);
  out += single("penstock_reused_tokens_total", "counter",
                "Prompt tokens reused from earlier texts.", state.counts.reused_tokens);
  out += single("penstock_written_tokens_total", "counter", "Tokens generated.",
                state.counts.written_tokens);
  out += first_token_.text("penstock_first_token_seconds",
                           "Seconds from a request to its first token.");
  return out +
         whole_.text("penstock_answer_seconds", "Seconds from a request to the end of its answer.");
}

}  // namespace penstock::serve
