// `penstock data fetch`: a public data set, downloaded and checked.
#pragma once

namespace CLI {
class App;
}

namespace penstock {

/// Adds `fetch` to `penstock data`.
void add_data_fetch_command(CLI::App& data);

}  // namespace penstock
