// `penstock trace`: every router's input, logits and gates, as safetensors.
#pragma once

namespace CLI {
class App;
}

namespace penstock {

void add_trace_command(CLI::App& app);

}  // namespace penstock
