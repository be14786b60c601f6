#include "penstock/train/step/step_parts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/nonfinite.h"
#include "penstock/base/random.h"
#include "penstock/ops/profile/profile_clock.h"
#include "penstock/train/ranks/gradient_tree.h"

namespace penstock {
namespace {

bool finite(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (!tensor.isfinite().all().item<bool>()) return false;
  return true;
}

/// @param streams  gradients of the streams that the part sent to the next stage
void run_backward(const PartOutcome& part, const PartShare& share,
                  const std::vector<at::Tensor>& streams) {
  std::vector<at::Tensor> roots, gradients;
  if (part.objective.defined() && part.objective.requires_grad()) {
    roots.push_back(part.objective);
    gradients.push_back(at::full_like(part.objective.detach(), share.of(1)));
  }
  const auto add = [&](const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& of) {
    roots.insert(roots.end(), tensors.begin(), tensors.end());
    gradients.insert(gradients.end(), of.begin(), of.end());
  };
  add(part.streams, streams);
  add(part.roots, part.gradients);
  torch::autograd::backward(roots, gradients);
}

/// The tensor's gradient; zeros if it has none.
at::Tensor gradient_of(const at::Tensor& tensor) {
  return tensor.grad().defined() ? tensor.grad() : torch::zeros_like(tensor);
}

/// The form of the message with tied embeddings.
StreamForm form_of_ties(const LanguageModel& model) {
  return {.sizes = {model.config().vocab, model.config().d_model},
          .options = model.parameters().front().options().requires_grad(false)};
}

}  // namespace

at::Generator generator_of_part(std::uint64_t draw_seed, std::size_t part) {
  return at::detail::createCPUGenerator(mix64(draw_seed + part));
}

StepParts::StepParts(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                     std::vector<ModelMemory>& memory, const StepWatch& watch,
                     const PartSharing& sharing)
    : work_(work),
      context_(context),
      draw_seed_(draw_seed),
      memory_(memory),
      watch_(watch),
      sharing_(sharing),
      link_(sharing.stages),
      chunks_(work.model().place().part.layers) {
  if (chunks_.size() < 2) chunks_.assign(1, {});
  for (const dist::ProcessGroup& group : sharing.peers)
    if (group.size() > 1) peers_.push_back(group);
}

template <class Action>
void StepParts::guarded(const Action& action) {
  try {
    action();
  } catch (const dist::LostRank&) {
    throw;
  } catch (const std::exception& error) {
    if (!peers_.empty()) throw dist::FailedRank(peers_.front().name(), error);
    thrown_ = std::current_exception();
    hear(StageState::gave_up);
  }
}

template <class Action>
void StepParts::attempt(const Action& action) {
  if (state_ == StageState::computing) guarded(action);
}

void StepParts::agree() {
  if (peers_.empty()) return;
  if (thrown_) hear(StageState::gave_up);
  const at::Tensor worst = torch::full({1}, static_cast<std::int64_t>(state_), at::kLong);
  for (const dist::ProcessGroup& group : peers_) group.all_reduce(worst, dist::Reduction::max);
  hear(static_cast<StageState>(worst.item<std::int64_t>()));
}

LayerWatch StepParts::watch_of(std::size_t part) {
  const LayerWatch watch =
      watch_of_part(watch_, part, work_.parts(), work_.model().config().layers);
  if (!watch || peers_.empty()) return watch;
  return [this, watch](PassDirection direction, std::int64_t layer) {
    try {
      watch(direction, layer);
    } catch (const dist::LostRank&) {
      throw;
    } catch (...) {
      if (!thrown_) thrown_ = std::current_exception();
    }
  };
}

double StepParts::seconds_of_others() const {
  double out = sharing_.waited ? sharing_.waited() : 0;
  for (const dist::ProcessGroup& group : peers_) out += group.own_seconds();
  return out;
}

void StepParts::count(double start, double waited_before, double& seconds) {
  seconds += ops::profile_seconds() - start;
  waited_ += seconds_of_others() - waited_before;
}

void StepParts::run() {
  const PartRange parts = parts_of_rank(work_.parts(), sharing_.data.rank(), sharing_.data.size());
  const auto& after_part = sharing_.after_part;
  lend_ties();
  const auto actions =
      stage_actions(parts.size(), link_.stage(), link_.stages(), static_cast<int>(chunks_.size()));
  for (const StageAction& action : actions) {
    const std::size_t part = parts.first + action.part;
    if (action.direction == PassDirection::forward) {
      forward(action, part);
      continue;
    }
    backward(action, part);
    const bool complete = action.chunk == 0;
    if (chunks_.size() > 1 && after_part) attempt([&] { keep_apart(part, complete); });
    if (&action == &actions.back()) return_ties(work_.model().tied());
    if (complete && after_part) attempt(after_part);
  }
  link_.finish();
}

void StepParts::lend_ties() {
  LanguageModel& model = work_.model();
  if (link_.stages() == 1 || !model.config().tie_embeddings) return;
  const int last = link_.stages() - 1;
  if (model.holds_first()) {
    link_.send({model.tied()}, form_of_ties(model), state_, last);
  } else if (model.holds_last()) {
    model.tie(link_.receive(form_of_ties(model), 0).tensors[0].requires_grad_());
  }
}

void StepParts::return_ties(const at::Tensor& tied) {
  if (!tied.defined()) return;
  LanguageModel& model = work_.model();
  const StreamForm form = form_of_ties(model);
  if (model.holds_last()) {
    link_.send({gradient_of(tied)}, form, state_, 0);
    return;
  }
  const PipelineLink::Message of_head = link_.receive(form, link_.stages() - 1);
  hear(of_head.state);
  attempt([&] { tied.mutable_grad() = gradient_of(tied).add_(of_head.tensors[0]); });
}

void StepParts::keep_apart(std::size_t part, bool complete) {
  const std::vector<at::Tensor> parameters = work_.model().parameters();
  std::vector<at::Tensor>& kept = gradients_[part];
  kept.resize(parameters.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    at::Tensor& gradient = parameters[i].mutable_grad();
    if (gradient.defined()) kept[i] = std::move(gradient);  // only one chunk has the parameter
    gradient = complete ? kept[i] : at::Tensor();
  }
  if (complete) gradients_.erase(part);
}

void StepParts::forward(const StageAction& action, std::size_t part) {
  Held& held = held_[{action.chunk, part}];
  held.input.index = part;
  held.input.layers = chunks_[static_cast<std::size_t>(action.chunk)];
  const int before = link_.before(action.chunk);
  const int after = link_.after(action.chunk, static_cast<int>(chunks_.size()));
  if (before >= 0) {
    PipelineLink::Message rows = link_.receive(work_.stream_form(part), before);
    hear(rows.state);
    for (at::Tensor& stream : rows.tensors) held.input.streams.push_back(stream.requires_grad_());
  }
  attempt([&] { compute(held); });
  agree();
  if (state_ == StageState::not_finite && held.computed)
    guarded([&] { note_not_finite_layer(held); });
  if (after >= 0) link_.send(held.out.streams, work_.stream_form(part), state_, after);
}

void StepParts::compute(Held& held) {
  const double start = ops::profile_seconds(), waited = seconds_of_others();
  PartInput& input = held.input;
  const std::size_t p = input.index;
  input.share = work_.share(p);
  input.context = context_;
  input.context.generator = generator_of_part(draw_seed_, p);
  input.memory = memory_[p];
  input.watch = watch_of(p);
  PartRecord& record = record_.parts.emplace_back();
  passes_.emplace_back();
  record.part = p;
  record.weight = input.share.weight;
  input.tap = [&](std::int64_t layer, const RoutingResult& result) {
    passes_.back().push_back(routing_pass(layer, result));
  };
  held.out = work_.forward(input, record.seen);
  held.computed = true;
  input.tap = {};
  count(start, waited, forward_seconds_);
  const at::Tensor& objective = held.out.objective;
  const double total = (objective.defined() ? objective.item<double>() : 0) + held.out.besides;
  record.seen.loss = input.share.of(held.out.loss);
  record.seen.total_loss = input.share.of(total);
  if (!std::isfinite(total)) {
    record_.not_finite = NotFinite{.part = p, .value = nonfinite_text(total)};
    hear(StageState::not_finite);
    return;
  }
  memory_[p] = std::move(held.out.memory);
}

void StepParts::backward(const StageAction& action, std::size_t part) {
  const auto place = held_.find({action.chunk, part});
  const Held& held = place->second;
  const int before = link_.before(action.chunk);
  const int after = link_.after(action.chunk, static_cast<int>(chunks_.size()));
  std::vector<at::Tensor> gradients;
  if (after >= 0) {
    PipelineLink::Message message = link_.receive(work_.stream_form(part), after);
    hear(message.state);
    // A later stage may have sent not_finite for a later part, so each part is checked.
    if (message.state == StageState::not_finite && held.computed)
      guarded([&] { note_not_finite_layer(held); });
    gradients = std::move(message.tensors);
  }
  std::vector<at::Tensor> streams;
  attempt([&] {
    const double start = ops::profile_seconds(), waited = seconds_of_others();
    const bool with_head = held.out.streams.empty();
    if (held.input.watch && with_head)
      held.input.watch(PassDirection::backward, work_.model().config().layers);
    run_backward(held.out, held.input.share, gradients);
    for (const at::Tensor& stream : held.input.streams) streams.push_back(gradient_of(stream));
    count(start, waited, backward_seconds_);
  });
  agree();
  if (before >= 0) link_.send(streams, work_.stream_form(part), state_, before);
  held_.erase(place);
}

void StepParts::note_not_finite_layer(const Held& held) {
  if (!sharing_.replays) return;
  torch::NoGradGuard no_grad;
  PartInput again = held.input;
  again.context.generator =
      generator_of_part(draw_seed_, again.index);  // draws the same numbers again
  bool seen = !finite(held.input.streams);         // another stage's layer is the first
  std::string culprit;
  work_.replay(again, [&](std::int64_t layer, const at::Tensor& hidden) {
    if (seen || finite({hidden})) return;
    seen = true;
    culprit = concat("layer ", layer);
  });
  std::optional<NotFinite>& note = record_.not_finite;
  if (!culprit.empty() && !note) note = NotFinite{.part = again.index};
  if (note && note->part == again.index && note->culprit.empty()) note->culprit = culprit;
}

RankRecord StepParts::record() {
  for (std::size_t p = 0; p < passes_.size(); ++p)
    for (RoutingPass& pass : passes_[p]) record_.parts[p].routing.push_back(read(std::move(pass)));
  passes_.clear();
  return std::move(record_);
}

}  // namespace penstock
