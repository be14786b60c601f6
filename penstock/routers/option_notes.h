// What to know of routers' options that change nothing, or less than they say, in a run. They are
// no mistakes: variants of a study read different options of one base.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/base/registry.h"
#include "penstock/routers/router.h"

namespace penstock {

struct OptionNote {
  std::string key;   ///< below the part's: "schedule.start"
  std::string text;  ///< a sentence with the whole key
};

/// That sentence for settings that nothing reads.
std::string nothing_reads(const std::string& settings, const std::string& reason);

/// The notes of all parts in use, over a run of so many steps, on the options that `config` itself
/// gives; a method's own are not said.
std::vector<std::string> option_notes(const RouterConfig& config, const RouterShape& shape,
                                      std::int64_t steps);

/// Of a part's options, over a run of so many steps.
using NotesOfPart = std::function<std::vector<OptionNote>(const RouterShape&, std::int64_t steps,
                                                          const ConfigNode& options)>;
Registry<NotesOfPart>& option_notes_registry();

/// For a part that has some: `static const RegisterOptionNotes<Config> notes{"topk"};` beside its
/// own registration. The config has `notes(const RouterShape&, std::int64_t steps) const`, which
/// speaks of options at other values than their defaults.
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
