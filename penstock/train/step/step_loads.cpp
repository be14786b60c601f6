#include "penstock/train/step/step_loads.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <exception>

#include "penstock/routers/balancers/load_fraction.h"
#include "penstock/train/ranks/gradient_tree.h"
#include "penstock/train/step/step_parts.h"

namespace penstock {
namespace {

void count_part(StepWork& work, PartInput part, const at::Tensor& requested) {
  part.tap = [&](std::int64_t layer, const RoutingResult& result) {
    requested.select(0, layer).add_(requested_of_experts(result.plan));
  };
  work.replay(part, {});
}

}  // namespace

at::Tensor count_step(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      const std::vector<ModelMemory>& memory, const PartSharing& sharing) {
  const torch::NoGradGuard no_grad;
  const dist::ProcessGroup& data = sharing.data;
  const PartRange parts = parts_of_rank(work.parts(), data.rank(), data.size());
  const ModelConfig& config = work.model().config();
  at::Tensor requested = at::zeros({config.moe_layers(), config.total_experts() + 1}, at::kDouble);
  std::exception_ptr thrown;
  try {
    for (std::size_t p = parts.first; p < parts.last; ++p) {
      PartInput part{.index = p, .share = work.share(p), .context = context, .memory = memory[p]};
      part.context.generator = generator_of_part(draw_seed, p);
      count_part(work, std::move(part), requested);
    }
  } catch (const dist::LostRank&) {
    throw;
  } catch (const std::exception& error) {
    for (const dist::ProcessGroup& group : sharing.peers)
      if (group.size() > 1) throw dist::FailedRank(group.name(), error);
    thrown = std::current_exception();
    requested.fill_(NAN);
  }
  data.all_reduce(requested, dist::Reduction::sum);
  if (thrown) std::rethrow_exception(thrown);
  return requested;
}

}  // namespace penstock
