// A router's inputs and decisions, as Python objects.
#include "penstock/routers/routing.h"

#include "penstock/routers/parts.h"
#include "penstock/routers/step_statistics.h"
#include "python/bindings.h"

namespace penstock::python {
namespace {

/// The plan's small values as "name=value", for repr.
std::string plan_text(const Plan& plan) {
  if (plan.merges())
    return concat("Plan(tokens=", plan.tokens, ", experts=", plan.experts,
                  ", segment_length=", plan.segment_length, ")");
  return concat("Plan(tokens=", plan.tokens, ", experts=", plan.experts,
                ", assignments=", plan.assignments(), ", k=", plan.k, ")");
}

std::string result_text(const RoutingResult& result) {
  std::string out = "Routing(" + plan_text(result.plan) + ", ";
  out += result.loss.defined() ? concat("loss=", result.loss.item<double>()) : "loss=None";
  out += ", terms=[";
  for (const auto& [name, term] : result.loss_terms)
    out += (out.back() == '[' ? "'" : ", '") + name + "'";
  return out + "])";
}

void add_plan(py::module_& module) {
  py::class_<Scores>(module, "Scores",
                     "A scorer's outputs for T rows. Outputs that the scorer lacks are None.")
      .def_readonly("logits", &Scores::logits)
      .def_readonly("clean_logits", &Scores::clean_logits)
      .def_readonly("noise_scale", &Scores::noise_scale)
      .def_readonly("penalty", &Scores::penalty)
      .def_readonly("choice_bias", &Scores::choice_bias)
      .def_readonly("thresholds", &Scores::thresholds);
  py::class_<Plan>(module, "Plan",
                   "Assigns tokens to experts with weights: A assignments sorted by expert. If "
                   "`merges`, it has the experts' merge weights per segment instead.")
      .def_readonly("tokens", &Plan::tokens)
      .def_readonly("experts", &Plan::experts)
      .def_readonly("k", &Plan::k)
      .def_readonly("token", &Plan::token)
      .def_readonly("expert", &Plan::expert)
      .def_readonly("weight", &Plan::weight)
      .def_readonly("offsets", &Plan::offsets)
      .def_readonly("demand", &Plan::demand)
      .def_readonly("overflow", &Plan::overflow)
      .def_readonly("merge_weights", &Plan::merge_weights)
      .def_readonly("segment_length", &Plan::segment_length)
      .def_property_readonly("merges", &Plan::merges)
      .def_property_readonly(
          "expert_counts",
          [](const Plan& plan) { return plan.merges() ? at::Tensor() : expert_counts(plan); })
      .def_property_readonly("sparsity", &sparsity)
      .def("__repr__", &plan_text);
}

}  // namespace

void add_routing(py::module_& module) {
  add_plan(module);
  py::class_<RoutingResult>(module, "Routing", "The results of one pass through a layer's router.")
      .def_readonly("hidden", &RoutingResult::hidden)
      .def_readonly("plan", &RoutingResult::plan)
      .def_readonly("scores", &RoutingResult::scores)
      .def_readonly("loss", &RoutingResult::loss)
      .def_readonly("loss_terms", &RoutingResult::loss_terms)
      .def_readonly("statistics", &RoutingResult::statistics)
      .def("__repr__", &result_text);
  py::class_<RoutingContext>(module, "Context",
                             "The inputs of one pass through a layer's router besides its rows.")
      .def_readonly("step", &RoutingContext::step)
      .def_readonly("total_steps", &RoutingContext::total_steps)
      .def_readonly("training", &RoutingContext::training)
      .def_readonly("k", &RoutingContext::k)
      .def_readonly("token_ids", &RoutingContext::token_ids)
      .def_readonly("sequence_length", &RoutingContext::sequence_length)
      .def_readonly("layer", &RoutingContext::layer);
  py::class_<RouterShape>(module, "Shape", "The sizes of a router and its layer.")
      .def_readonly("d_model", &RouterShape::d_model)
      .def_readonly("experts", &RouterShape::experts)
      .def_readonly("k", &RouterShape::k)
      .def_readonly("granularity", &RouterShape::granularity)
      .def_readonly("layer", &RouterShape::layer)
      .def_readonly("layers", &RouterShape::layers);
  py::class_<StepStatistics>(module, "StepStatistics",
                             "Counts of the routers' decisions in one optimizer step.")
      .def_readonly("sparsity", &StepStatistics::sparsity)
      .def_readonly("expert_tokens", &StepStatistics::expert_tokens)
      .def_readonly("tokens", &StepStatistics::tokens);
}

}  // namespace penstock::python
