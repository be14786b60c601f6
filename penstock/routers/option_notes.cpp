#include "penstock/routers/option_notes.h"

#include "penstock/base/error.h"
#include "penstock/routers/resolve.h"

namespace penstock {
namespace {

/// Whether a.b.c is set below the node.
bool sets(const ConfigNode& node, const std::string& dotted_key) {
  const auto dot = dotted_key.find('.');
  const ConfigNode* const inner = node.find(dotted_key.substr(0, dot));
  if (!inner || dot == std::string::npos) return inner;
  return inner->is_table() && sets(*inner, dotted_key.substr(dot + 1));
}

}  // namespace

std::string nothing_reads(const std::string& settings, const std::string& reason) {
  return concat(settings, ": nothing reads this, because ", reason);
}

std::vector<std::string> option_notes(const RouterConfig& config, const RouterShape& shape,
                                      std::int64_t steps) {
  std::vector<std::string> out;
  const ResolvedRouter router = resolve(config);
  for (const auto& [part, own] : config.parts) {
    const auto options = router.options.find(part);
    if (options == router.options.end() || !option_notes_registry().contains(part)) continue;
    for (OptionNote& note : option_notes_registry().at(part)(shape, steps, options->second))
      if (sets(own, note.key)) out.push_back(std::move(note.text));
  }
  return out;
}

Registry<NotesOfPart>& option_notes_registry() {
  static Registry<NotesOfPart> registry("part with notes on its options");
  return registry;
}

}  // namespace penstock
