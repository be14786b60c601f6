// Scorers and balancers written in Python. A script registers them at run time, and recipes and
// layers then find them by name. They are slow, because Python runs for each layer and micro-batch.
// They exist only in a process that has run their script.
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "penstock/routers/methods.h"
#include "penstock/routers/registry.h"
#include "python/bindings.h"

namespace penstock::python {
namespace {

/// The class, options and traits under a part's name. A notebook's cell that runs again replaces
/// the class.
struct Registered {
  Kept factory;
  ConfigNode defaults, traits;
};

std::map<std::string, std::shared_ptr<Registered>>& own_parts() {
  static auto* const parts = new std::map<std::string, std::shared_ptr<Registered>>();
  return *parts;
}

/// An empty module. The tensor "a.b.weight" needs one for `a` and one for `b`.
class Branch : public torch::nn::Module {};

/// Registers `tensor` under a dotted name.
void adopt(torch::nn::Module& into, const std::string& name, const at::Tensor& tensor,
           bool parameter) {
  if (const auto dot = name.find('.'); dot != std::string::npos) {
    const std::string first = name.substr(0, dot);
    const auto children = into.named_children();
    const auto* const known = children.find(first);
    const auto branch = known ? *known
                              : std::shared_ptr<torch::nn::Module>(
                                    into.register_module(first, std::make_shared<Branch>()));
    adopt(*branch, name.substr(dot + 1), tensor, parameter);
  } else if (parameter) {
    into.register_parameter(name, tensor, tensor.requires_grad());
  } else {
    into.register_buffer(name, tensor);
  }
}

/// Registers a torch.nn.Module's parameters and buffers in the C++ module. They are the same
/// tensors.
void adopt_all(torch::nn::Module& into, const py::object& part) {
  if (py::hasattr(part, "named_parameters"))
    for (const py::handle& item : part.attr("named_parameters")()) {
      const auto pair = py::cast<std::pair<std::string, at::Tensor>>(item);
      adopt(into, pair.first, pair.second, /*parameter=*/true);
    }
  if (py::hasattr(part, "named_buffers"))
    for (const py::handle& item : part.attr("named_buffers")()) {
      const auto pair = py::cast<std::pair<std::string, at::Tensor>>(item);
      adopt(into, pair.first, pair.second, /*parameter=*/false);
    }
}

std::string kind_of(const py::handle& value) {
  return py::cast<std::string>(py::type::of(value).attr("__name__"));
}

/// The tensor that a part's function returned. Throws Error if it returned another type.
at::Tensor said_tensor(const py::object& part, const char* function, const py::handle& said) {
  PENSTOCK_CHECK(THPVariable_Check(said.ptr()), kind_of(part), ".", function,
                 "() must return a tensor, and returned: ", kind_of(said));
  return py::cast<at::Tensor>(said);
}

/// Throws Error unless the tensor that a part's function returned has these sizes.
void check_sizes(const py::object& part, const char* function, const at::Tensor& said,
                 at::IntArrayRef sizes) {
  PENSTOCK_CHECK(said.sizes() == sizes, kind_of(part), ".", function, "() must return a tensor of ",
                 sizes, ", and returned ", said.scalar_type(), " ", said.sizes());
}

/// What a part's function returned, as T. Throws Error that says what is `wanted`.
template <class T>
T said_as(const py::object& part, const char* function, const py::handle& said,
          const char* wanted) {
  try {
    return py::cast<T>(said);
  } catch (const py::cast_error&) {
    fail(kind_of(part), ".", function, "() must return ", wanted,
         ", and returned: ", py::cast<std::string>(py::repr(said)));
  }
}

/// A balancer's loss as a tensor; undefined for None.
/// @param said  None, a number, or a tensor with one value
at::Tensor said_loss(const py::object& part, const py::handle& said) {
  if (said.is_none()) return {};
  if (py::isinstance<py::float_>(said) || py::isinstance<py::int_>(said))
    return at::full({}, py::cast<double>(said), at::kFloat);
  const at::Tensor loss = said_tensor(part, "balance", said);
  PENSTOCK_CHECK(loss.numel() == 1 && loss.is_floating_point(), kind_of(part),
                 ".balance() must return a loss of one number, and returned ", loss.scalar_type(),
                 " ", loss.sizes());
  return loss;
}

class PythonScorer : public Scorer {
 public:
  PythonScorer(const py::object& part, std::int64_t experts)
      : part_(keep(part)), experts_(experts) {
    adopt_all(*this, part);
  }

  Scores score(const at::Tensor& hidden, const RoutingContext& context) override {
    const WithGil gil;
    const py::object said = call_python(part_->attr("score"), hidden, context);
    const at::Tensor logits = said_tensor(*part_, "score", said);
    check_sizes(*part_, "score", logits, {hidden.size(0), experts_});
    PENSTOCK_CHECK(logits.scalar_type() == hidden.scalar_type(), kind_of(*part_),
                   ".score() must return logits of its rows' type, ", hidden.scalar_type(),
                   ", and returned ", logits.scalar_type());
    return {.logits = logits};
  }
  void initialize(double std, const InitialDraws& draws) override {
    const at::NoGradGuard no_grad;
    for (const auto& item : named_parameters())
      if (item.value().dim() > 1)
        draws.normal(item.key(), item.value(), std);
      else
        item.value().zero_();
  }
  std::int64_t multiply_adds_per_token() const override {
    std::int64_t out = 0;
    for (const at::Tensor& parameter : parameters()) out += parameter.numel();
    return out;
  }

 private:
  Kept part_;
  std::int64_t experts_;
};

class PythonBalancer : public Balancer {
 public:
  PythonBalancer(const py::object& part, std::int64_t experts, bool biases)
      : part_(keep(part)), experts_(experts), biases_(biases) {
    adopt_all(*this, part);
  }

  BalancerOutput balance(const Scores& scores, const Plan& plan,
                         const RoutingContext& context) override {
    const WithGil gil;
    const py::object said = call_python(part_->attr("balance"), scores, plan, context);
    if (!py::isinstance<py::tuple>(said)) return {.loss = said_loss(*part_, said)};
    const auto [loss, statistics] = said_as<std::pair<py::object, RoutingStatistics>>(
        *part_, "balance", said, "a loss, or a pair of a loss and a dict of tensors");
    return {.loss = said_loss(*part_, loss), .statistics = statistics};
  }
  at::Tensor choice_bias(std::int64_t layer) const override {
    if (!biases_) return {};
    const WithGil gil;
    const py::object said = call_python(part_->attr("choice_bias"), layer);
    if (said.is_none()) return {};
    const at::Tensor bias = said_tensor(*part_, "choice_bias", said);
    check_sizes(*part_, "choice_bias", bias, {experts_});
    return bias;
  }
  void after_step(const StepStatistics& statistics) override {
    const WithGil gil;
    if (py::hasattr(*part_, "after_step")) call_python(part_->attr("after_step"), statistics);
  }
  std::map<std::string, double> state() const override {
    const WithGil gil;
    if (!py::hasattr(*part_, "state")) return {};
    return said_as<std::map<std::string, double>>(
        *part_, "state", call_python(part_->attr("state")), "a dict of numbers");
  }

 private:
  Kept part_;
  std::int64_t experts_;
  bool biases_;
};

std::shared_ptr<Scorer> wrapped(const py::object& part, const RouterShape& shape,
                                const ScorerTraits&) {
  return std::make_shared<PythonScorer>(part, shape.experts);
}
std::shared_ptr<Balancer> wrapped(const py::object& part, const RouterShape& shape,
                                  const BalancerTraits& traits) {
  return std::make_shared<PythonBalancer>(part, shape.experts, traits.biases_choice);
}

const char* type_word(const ConfigNode& value) {
  if (std::holds_alternative<bool>(value.value())) return "bool";
  if (std::holds_alternative<std::int64_t>(value.value())) return "int";
  if (std::holds_alternative<double>(value.value())) return "float";
  return std::holds_alternative<std::string>(value.value()) ? "string" : "table";
}

/// Converts a given value to the type of the option's default `value`. A whole number is accepted
/// for a float.
ConfigNode as_default(const std::string& key, const ConfigNode& given, const ConfigNode& value) {
  if (given.value().index() == value.value().index()) return given;
  if (const auto* const whole = std::get_if<std::int64_t>(&given.value());
      whole && std::holds_alternative<double>(value.value()))
    return ConfigNode(static_cast<double>(*whole), given.origin());
  fail(given.origin().empty() ? "" : given.origin() + ": ", key, ": expected ", value.type_name(),
       ", got ", given.type_name());
}

/// The options of a part with the defaults filled in.
ConfigNode completed(const std::string& part, const ConfigNode& defaults, const ConfigNode& given) {
  ConfigNode out = defaults;
  std::vector<std::string> known;
  for (const auto& [key, value] : defaults.table()) known.push_back(key);
  for (const auto& [key, value] : given.table()) {
    const ConfigNode* const usual = defaults.find(key);
    const std::string nearest = nearest_name(key, known);
    PENSTOCK_CHECK(usual, value.origin().empty() ? "" : value.origin() + ": ", "model.router.",
                   part, ".", key, ": unknown key",
                   nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
    out.set(key, as_default("model.router." + part + "." + key, value, *usual));
  }
  return out;
}

template <class Part>
PartEntry<Part> entry(const std::string& name, const std::string& summary,
                      const std::string& source, const std::shared_ptr<Registered>& registered) {
  PartEntry<Part> out{.summary = summary, .source = source};
  out.traits = read_config<typename Part::Traits>(registered->traits, name + " traits");
  for (const auto& [key, value] : registered->defaults.table())
    out.fields.push_back(
        {.path = key,
         .type = type_word(value),
         .default_value = value.is_table() ? "" : toml_text(value, "options." + key)});
  const auto traits = out.traits;
  out.check = [](const RouterShape&, const ConfigNode&) {};  // the Python class checks its values
  out.make = [registered, traits](const RouterShape& shape, const ConfigNode& options) {
    const WithGil gil;
    return wrapped((*registered->factory)(shape, **py::dict(to_python(options))), shape, traits);
  };
  out.complete = [name, registered](const ConfigNode& options) {
    return completed(name, registered->defaults, options);
  };
  out.traits_under = [traits](const ConfigNode&) { return traits; };
  return out;
}

/// A part's name is a key of recipes, and stands in names of tensors.
void check_name(const std::string& name) {
  const bool fits = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  PENSTOCK_CHECK(fits && !name.empty(), "'", name,
                 "' is no name of a part; take lower-case letters, digits, '-' and '_'");
}

template <class Part>
void register_part(Registry<PartEntry<Part>>& registry, const std::string& name,
                   const py::object& factory, const py::dict& options, const py::dict& traits,
                   const std::string& summary, const std::string& source) {
  check_name(name);
  Registered part{keep(factory), ConfigNode(ConfigNode::Table{}), ConfigNode(ConfigNode::Table{})};
  part.defaults.merge(to_config(options, "", "options"));
  part.traits.merge(to_config(traits, "", "traits"));
  if (const auto known = own_parts().find(name); known != own_parts().end()) {
    const Registered& before = *known->second;
    PENSTOCK_CHECK(registry.contains(name) && to_toml(before.defaults) == to_toml(part.defaults) &&
                       to_toml(before.traits) == to_toml(part.traits),
                   "'", name,
                   "' is registered with other options or traits; these stay for as long "
                   "as Python runs: choose another name, or start it again");
    known->second->factory = part.factory;
    return;
  }
  PENSTOCK_CHECK(!known_part(name) && !method_registry().contains(name), "'", name,
                 "' is the name of a part or method of Penstock; "
                 "choose another");
  const auto registered = std::make_shared<Registered>(std::move(part));
  registry.add(name, entry<Part>(name, summary, source, registered));
  own_parts().emplace(name, registered);
}

}  // namespace

void add_parts(py::module_& module) {
  module.def(
      "register_scorer",
      [](const std::string& name, const py::object& factory, const py::dict& options,
         const py::dict& traits, const std::string& summary, const std::string& source) {
        register_part(scorer_registry(), name, factory, options, traits, summary, source);
      },
      py::arg("name"), py::arg("factory"), py::arg("options"), py::arg("traits"),
      py::arg("summary"), py::arg("source"));
  module.def(
      "register_balancer",
      [](const std::string& name, const py::object& factory, const py::dict& options,
         const py::dict& traits, const std::string& summary, const std::string& source) {
        register_part(balancer_registry(), name, factory, options, traits, summary, source);
      },
      py::arg("name"), py::arg("factory"), py::arg("options"), py::arg("traits"),
      py::arg("summary"), py::arg("source"));
}

}  // namespace penstock::python
