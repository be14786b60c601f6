// `penstock handoff`: a ReLU-routed model as one of k experts per token.
#pragma once

namespace CLI {
class App;
}

namespace penstock {

void add_handoff_command(CLI::App& app);

}  // namespace penstock
