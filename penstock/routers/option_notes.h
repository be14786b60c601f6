// Notes on routers' options that change nothing, or less than their names say, in a run. They are
// not errors: the variants of a study read different options of one base.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/base/registry.h"
#include "penstock/routers/router_config.h"
#include "penstock/routers/routing.h"

namespace penstock {

struct OptionNote {
  std::string key;   ///< relative to the part's table: "schedule.start"
  std::string text;  ///< a sentence that names the full key
};

/// The sentence for settings that nothing reads.
std::string nothing_reads(const std::string& settings, const std::string& reason);

/// The notes of all parts in use for a run of `steps` steps. They cover options that `config`
/// itself gives, not options of the method.
std::vector<std::string> option_notes(const RouterConfig& config, const RouterShape& shape,
                                      std::int64_t steps);

/// The notes on one part's options for a run of `steps` steps.
using NotesOfPart = std::function<std::vector<OptionNote>(const RouterShape&, std::int64_t steps,
                                                          const ConfigNode& options)>;
Registry<NotesOfPart>& option_notes_registry();

/// Registers a part's notes: `static const RegisterOptionNotes<Config> notes{"topk"};` beside the
/// part's own registration. The config has `notes(const RouterShape&, std::int64_t steps) const`.
/// That function returns notes on options that differ from their defaults.
template <class Config>
struct RegisterOptionNotes {
  explicit RegisterOptionNotes(const std::string& part) {
    option_notes_registry().add(
        part, [part](const RouterShape& shape, std::int64_t steps, const ConfigNode& options) {
          return read_config<Config>(options, "model.router." + part).notes(shape, steps);
        });
  }
};

}  // namespace penstock
