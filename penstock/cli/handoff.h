// `penstock handoff`: turns a ReLU-routed model into a model with k experts per token.
#pragma once

namespace CLI {
class App;
}

namespace penstock {

void add_handoff_command(CLI::App& app);

}  // namespace penstock
