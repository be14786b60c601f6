// The registries of parts, one of each kind in the process, and how a part registers itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/base/fields.h"
#include "penstock/base/registry.h"
#include "penstock/routers/parts.h"

namespace penstock {

/// A part as the registry knows it.
template <class Part>
struct PartEntry {
  std::string summary;  ///< one sentence
  std::string source;   ///< paper and equation
  /// The traits under default options. ResolvedRouter and Router have the traits under the options
  /// in use.
  typename Part::Traits traits;
  std::vector<FieldDescription> fields;
  /// Throws Error that names the key if the options do not fit together or do not fit the shape.
  std::function<void(const RouterShape&, const ConfigNode& options)> check;
  /// Checks, and builds the part.
  std::function<std::shared_ptr<Part>(const RouterShape&, const ConfigNode& options)> make;
  /// Checks options and fills in the defaults.
  std::function<ConfigNode(const ConfigNode& options)> complete;
  /// The traits under these options.
  std::function<typename Part::Traits(const ConfigNode& options)> traits_under;
};

Registry<PartEntry<Scorer>>& scorer_registry();
Registry<PartEntry<Selector>>& selector_registry();
Registry<PartEntry<Balancer>>& balancer_registry();

/// Whether a part of any kind has the name.
bool known_part(const std::string& name);

/// Registers a part: `static const RegisterScorer<Linear, LinearConfig> registered{"linear", ...}`.
/// The class is constructed from (shape, config). The config may have two functions:
/// `void check(const RouterShape&) const` throws Error if the config does not fit the shape;
/// `void refine(ScorerTraits&) const`, with the traits of the part's kind, changes the traits that
/// depend on options.
template <class Base, Registry<PartEntry<Base>>& (*registry)(), class Class, class Config>
struct RegisterPart {
  using Traits = typename Base::Traits;
  RegisterPart(const std::string& name, const std::string& summary, const std::string& source,
               Traits traits) {
    const auto read = [name](const ConfigNode& options) {
      return read_config<Config>(options, "model.router." + name);
    };
    registry().add(name,
                   {summary, source, traits, describe_config<Config>(),
                    [read](const RouterShape& shape, const ConfigNode& options) {
                      check(read(options), shape);
                    },
                    [read](const RouterShape& shape, const ConfigNode& options) {
                      const Config config = read(options);
                      check(config, shape);
                      return std::static_pointer_cast<Base>(std::make_shared<Class>(shape, config));
                    },
                    [read](const ConfigNode& options) { return write_config(read(options)); },
                    [read, traits](const ConfigNode& options) {
                      Traits refined = traits;
                      refine(read(options), refined);
                      return refined;
                    }});
  }

 private:
  static void check(const Config& config, const RouterShape& shape) {
    if constexpr (requires { config.check(shape); }) config.check(shape);
  }
  static void refine(const Config& config, Traits& traits) {
    if constexpr (requires { config.refine(traits); }) config.refine(traits);
  }
};
template <class Class, class Config>
using RegisterScorer = RegisterPart<Scorer, scorer_registry, Class, Config>;
template <class Class, class Config>
using RegisterSelector = RegisterPart<Selector, selector_registry, Class, Config>;
template <class Class, class Config>
using RegisterBalancer = RegisterPart<Balancer, balancer_registry, Class, Config>;

}  // namespace penstock
