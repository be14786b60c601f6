#include "penstock/train/layouts/rank_traffic.h"

#include <algorithm>
#include <cmath>

namespace penstock::rank_traffic {

double share_elsewhere(int ranks, int stride, const MachineSpeeds& speeds) {
  if (ranks == 1) return 0;
  const int here = std::clamp(speeds.node_ranks / stride, 1, ranks);
  return static_cast<double>(ranks - here) / (ranks - 1);
}

double seconds_of_memory(double bytes, const MachineSpeeds& speeds) {
  return speeds.memory_bandwidth > 0 ? bytes / speeds.memory_bandwidth : 0;
}

void Sent::add(double more, double share, double more_messages, double touched) {
  bytes += more;
  elsewhere += more * share;
  messages += more_messages;
  memory += more * touched;
}

double Sent::seconds(const MachineSpeeds& speeds) const {
  const double here = speeds.node_bandwidth > 0 ? speeds.node_bandwidth : speeds.bandwidth;
  return (bytes - elsewhere) / here + elsewhere / speeds.bandwidth + messages * speeds.latency +
         seconds_of_memory(memory, speeds);
}

double Sent::processor_seconds(const MachineSpeeds& speeds) const {
  if (speeds.exchange_cost == 0) return 0;
  return bytes * speeds.exchange_cost + seconds_of_memory(memory, speeds);
}

Sent of_tensor(double sums, double numbers, const dist::Layout& layout,
               const MachineSpeeds& speeds) {
  Sent out{"tensor"};
  const double t = layout.tensor;
  if (layout.tensor > 1)
    out.add(2 * (t - 1) / t * numbers * kBytes, share_elsewhere(layout.tensor, 1, speeds),
            sums * 2 * (t - 1));
  return out;
}

Sent of_stages(double messages, double numbers, const dist::Layout& layout,
               const MachineSpeeds& speeds) {
  Sent out{"stages"};
  if (layout.pipeline > 1)
    out.add(messages * numbers * kBytes, layout.ranks() > speeds.node_ranks ? 1 : 0, messages);
  return out;
}

Sent of_tokens(double exchanges, double rows, double k, const dist::Layout& layout,
               const MachineSpeeds& speeds) {
  Sent out{"tokens"};
  const double e = layout.expert;
  // A rank's own rows are not sent, but have the same memory traffic, hence e / (e − 1). Two of
  // four exchanges pack, two add up.
  const double touched = (2 * kPacked + 2 * kAddedUp) / 4 * e / std::max(1.0, e - 1);
  if (layout.expert > 1)
    out.add(exchanges * (e - 1) * (1 - std::pow(1 - 1 / e, k)) * rows * kBytes * speeds.rank_load,
            share_elsewhere(layout.expert, layout.expert_stride(), speeds), exchanges * 2 * (e - 1),
            touched);
  return out;
}

Sent of_records(double record, double norms, double barriers, const dist::Layout& layout,
                const MachineSpeeds& speeds) {
  Sent out{"records"};
  const int ranks = layout.ranks();
  if (ranks == 1) return out;
  constexpr double kWord = 8;  // bytes of an order, of a text's length and of a number of the norm
  const double others = ranks - 1, levels = std::ceil(std::log2(ranks));
  const double share = share_elsewhere(ranks, 1, speeds);
  out.add(others * (kWord + record), share, others);
  out.add(others * kWord * norms, share, norms > 0 ? others : 0);
  out.add(kWord * (levels + barriers), share, levels + barriers);
  return out;
}

}  // namespace penstock::rank_traffic
