#include "penstock/train/step/pipeline_link.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <numeric>

#include "penstock/base/error.h"

namespace penstock {
namespace {

std::int64_t elements(const StreamForm& form) {
  return std::accumulate(form.sizes.begin(), form.sizes.end(), std::int64_t{1},
                         std::multiplies<>());
}

/// An uninitialised message: the tensors of all passes, then the sender's state.
at::Tensor empty_message(const StreamForm& form) {
  return torch::empty({form.passes * elements(form) + 1}, form.options.device(at::kCPU));
}

at::Tensor place_of(const at::Tensor& message, const StreamForm& form, std::int64_t pass) {
  return message.narrow(0, pass * elements(form), elements(form)).view(form.sizes);
}

}  // namespace

int PipelineLink::before(int chunk) const {
  return chunk == 0 && stage() == 0 ? -1 : (stage() + stages() - 1) % stages();
}

int PipelineLink::after(int chunk, int chunks) const {
  const bool last = chunk + 1 == chunks && stage() + 1 == stages();
  return last ? -1 : (stage() + 1) % stages();
}

void PipelineLink::send(const std::vector<at::Tensor>& tensors, const StreamForm& form,
                        StageState state, int to) {
  const torch::NoGradGuard no_grad;
  const at::Tensor message = empty_message(form);
  message[-1].fill_(static_cast<double>(state));
  if (state == StageState::computing) {
    PENSTOCK_ASSERT(std::ssize(tensors) == form.passes);
    for (std::int64_t pass = 0; pass < form.passes; ++pass)
      place_of(message, form, pass).copy_(tensors[static_cast<std::size_t>(pass)]);
  } else {
    message.narrow(0, 0, message.numel() - 1).zero_();
  }
  sending_.push_back(stages_.start_send(message, to));
}

PipelineLink::Message PipelineLink::receive(const StreamForm& form, int from) {
  const at::Tensor message = empty_message(form);
  stages_.receive(message, from);
  Message out{.state = static_cast<StageState>(message[-1].item<double>())};
  for (std::int64_t pass = 0; pass < form.passes; ++pass)
    out.tensors.push_back(place_of(message, form, pass).to(form.options.device()));
  return out;
}

void PipelineLink::finish() {
  for (const auto& sent : sending_) sent();
  sending_.clear();
}

}  // namespace penstock
