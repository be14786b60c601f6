#include "penstock/cli/routers.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "penstock/base/joined.h"
#include "penstock/base/json_text.h"
#include "penstock/cli/arguments/common_options.h"
#include "penstock/io/config_json.h"
#include "penstock/models/model_config.h"
#include "penstock/routers/methods.h"
#include "penstock/routers/registry.h"
#include "penstock/routers/resolve.h"
#include "penstock/train/recipe_template.h"

namespace penstock {
namespace {

struct RoutersOptions {
  std::string name;
  bool json = false, markdown = false;
};

/// The name of a method's part, or the names of several; a dash if the method has none.
std::string part(const std::string& name) { return name.empty() ? "–" : name; }

void print_causality(bool causal) {
  if (!causal) fmt::print("#   not causal: {}\n", kNotCausal);
}

/// The properties of combined parts, under default options; "" for none.
std::string properties(const RouterTraits& traits) {
  std::vector<std::string> words;
  if (traits.stochastic) words.push_back("draws random numbers");
  if (traits.noisy) words.push_back("its noise has a known scale");
  if (traits.foldable) words.push_back("folds into one matrix");
  if (traits.drops) words.push_back("may refuse a token its expert");
  if (traits.variable_active) words.push_back("any number of experts per token");
  if (traits.keeps_thresholds) words.push_back("chooses by thresholds outside training");
  if (traits.biases_choice) words.push_back("biases the choice of experts");
  if (traits.forward_passes > 1)
    words.push_back(fmt::format("meant for {} passes over a batch", traits.forward_passes));
  if (traits.distillation > 0) words.push_back("learns from a pass with all experts");
  return joined(words);
}

void print_properties(const RouterTraits& traits) {
  const std::string words = properties(traits);
  if (!words.empty()) fmt::print("#   properties: {}\n", words);
  print_causality(traits.causal);
}
void print_properties(const ScorerTraits& traits) { print_properties(combined(traits, {}, {})); }
void print_properties(const SelectorTraits& traits) { print_properties(combined({}, traits, {})); }
void print_properties(const BalancerTraits& traits) {
  print_properties(combined({}, {}, {traits}));
}

/// The meaning of each trait of that kind of part.
template <class Part>
nlohmann::ordered_json trait_help() {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& trait : describe_config<typename Part::Traits>()) out[trait.path] = trait.help;
  return out;
}

template <class Part>
nlohmann::ordered_json parts_json(const Registry<PartEntry<Part>>& registry) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& [name, entry] : registry.entries()) {
    nlohmann::ordered_json fields = nlohmann::ordered_json::array();
    for (const auto& field : entry.fields)
      fields.push_back({{"name", field.path},
                        {"type", field.type},
                        {"default", field.default_value},
                        {"help", field.help},
                        {"range", field.range}});
    out[name] = {{"summary", entry.summary},
                 {"source", entry.source},
                 {"traits", to_json(write_config(entry.traits))},
                 {"options", fields}};
  }
  return out;
}

template <class Part>
void print_parts(const char* title, const Registry<PartEntry<Part>>& registry) {
  fmt::print("\n{}\n", title);
  for (const auto& [name, entry] : registry.entries())
    fmt::print("  {:<16} {}\n", name, entry.summary);
}

/// Prints a part as a comment above its recipe.
template <class Part>
bool print_part(const char* kind, const std::string& name,
                const Registry<PartEntry<Part>>& registry) {
  if (!registry.contains(name)) return false;
  const auto& entry = registry.at(name);
  fmt::print("# {} {}\n#   {}\n#   source: {}\n", kind, name, entry.summary, entry.source);
  print_properties(entry.traits);
  return true;
}

void print_method(const std::string& name, const Method& method) {
  fmt::print("# method {}\n#   {}\n#   source: {}\n#   scorer: {}   selector: {}   balancers: {}\n",
             name, method.summary, method.source, part(method.scorer), part(method.selector),
             part(joined(method.balancers)));
  print_properties(resolve(RouterConfig{.method = name}).traits);
}

/// Prints a method's or part's description as comments, and a recipe that uses it.
void print_one(const std::string& name) {
  const RouterConfig router = example_router(name);  // throws for an unknown name
  if (method_registry().contains(name)) print_method(name, method_registry().at(name));
  print_part("scorer", name, scorer_registry());
  print_part("selector", name, selector_registry());
  print_part("balancer", name, balancer_registry());
  fmt::print("# A recipe to begin from; every other key: penstock train --template {}\n{}",
             router.scorer.empty() ? router.method : RouterConfig().method, router_recipe(router));
}

void print_markdown() {
  fmt::print(
      "| method | scorer | selector | balancers | what it is | source |\n"
      "|---|---|---|---|---|---|\n");
  for (const auto& [name, method] : method_registry().entries())
    fmt::print("| `{}` | {} | {} | {} | {} | {} |\n", name, part(method.scorer),
               part(method.selector), part(joined(method.balancers)), method.summary,
               method.source);
}

/// A method with every option of its parts, and the parts' traits under these options.
nlohmann::ordered_json method_json(const std::string& name, const Method& method) {
  const ResolvedRouter router = resolve({.method = name});
  nlohmann::ordered_json options = nlohmann::ordered_json::object();
  for (const auto& [part, node] : router.options) options[part] = to_json(node);
  return {{"summary", method.summary},
          {"source", method.source},
          {"scorer", method.scorer},
          {"selector", method.selector},
          {"balancers", method.balancers},
          {"causal", router.traits.causal},
          {"options", options},
          {"traits", to_json(write_config(router.traits))}};
}

/// The method and the parts of this name, as in routers_json().
nlohmann::ordered_json one_json(const std::string& name) {
  example_router(name);  // throws for an unknown name
  const nlohmann::ordered_json all = routers_json();
  nlohmann::ordered_json out;
  for (const char* kind : {"methods", "scorers", "selectors", "balancers"}) {
    out[kind] = nlohmann::ordered_json::object();
    if (all.at(kind).contains(name)) out[kind][name] = all.at(kind).at(name);
  }
  return out;
}

void print_routers(const RoutersOptions& options) {
  if (options.json)
    return fmt::print("{}\n",
                      json_text(options.name.empty() ? routers_json() : one_json(options.name), 2));
  if (!options.name.empty()) return print_one(options.name);
  if (options.markdown) return print_markdown();
  fmt::print("methods (model.router.method)\n");
  for (const auto& [name, method] : method_registry().entries())
    fmt::print("  {:<16} {}\n", name, method.summary);
  print_parts("scorers (model.router.scorer)", scorer_registry());
  print_parts("selectors (model.router.selector)", selector_registry());
  print_parts("balancers (model.router.balancers)", balancer_registry());
  fmt::print("\nDetails, options and a recipe: penstock routers NAME\n");
}

}  // namespace

nlohmann::ordered_json routers_json() {
  nlohmann::ordered_json methods = nlohmann::ordered_json::object();
  for (const auto& [name, method] : method_registry().entries())
    methods[name] = method_json(name, method);
  return {{"methods", methods},
          {"scorers", parts_json(scorer_registry())},
          {"selectors", parts_json(selector_registry())},
          {"balancers", parts_json(balancer_registry())},
          {"traits",
           {{"scorers", trait_help<Scorer>()},
            {"selectors", trait_help<Selector>()},
            {"balancers", trait_help<Balancer>()}}}};
}

void add_routers_command(CLI::App& app) {
  auto options = std::make_shared<RoutersOptions>();
  CLI::App* command =
      app.add_subcommand("routers", "List methods, scorers, selectors and balancers");
  command->add_option(
      "NAME", options->name,
      "method or part to describe in full, with a recipe (TOML) that trains with it");
  add_json(*command, options->json);
  command->add_flag("--markdown", options->markdown,
                    "print the table of methods, as in the README");
  command->footer(
      "Examples:\n"
      "  penstock routers\n"
      "  penstock routers remoe\n"
      "  penstock routers adaptive-l1 > recipe.toml   a recipe; train it with penstock train");
  command->callback([options] { print_routers(*options); });
}

}  // namespace penstock
