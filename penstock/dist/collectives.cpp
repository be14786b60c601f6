#include "penstock/dist/collectives.h"

#include <ATen/core/grad_mode.h>
#include <torch/types.h>

#include <functional>
#include <vector>

#include "penstock/dist/pieces.h"

namespace penstock::dist {
namespace {

/// Up to this size, latency dominates the time of an exchange, so one exchange is faster than two.
constexpr std::int64_t kSmallBytes = 16 << 10;
/// The number of bytes of a tensor that are reduced at a time. A reduction needs this much memory
/// again for the received bytes, and again for the sent bytes. Smaller pieces would cost more
/// messages.
constexpr std::int64_t kPassBytes = 32 << 20;

std::vector<Pieces> one_by_one(const std::vector<at::Tensor>& parts) {
  std::vector<Pieces> out;
  for (const at::Tensor& part : parts) out.push_back(as_bytes(Pieces{part}));
  return out;
}

/// Reduces [N, n] over N.
at::Tensor reduced(const at::Tensor& of_ranks, Reduction reduction) {
  at::Tensor out = of_ranks[0].clone();
  for (std::int64_t rank = 1; rank < of_ranks.size(0); ++rank)
    if (reduction == Reduction::sum)
      out.add_(of_ranks[rank]);
    else
      at::maximum_out(out, out, of_ranks[rank]);
  return out;
}

void reduce_parts(Transport& transport, const at::Tensor& flat, Reduction reduction,
                  RankPlace place) {
  const std::vector<at::Tensor> parts = at::tensor_split(flat, place.size);
  const at::Tensor& mine = parts[static_cast<std::size_t>(place.rank)];
  const at::Tensor of_ranks = at::empty({place.size, mine.numel()}, flat.options());
  transport.start_all_to_all(one_by_one(of_ranks.unbind()), one_by_one(parts))();
  mine.copy_(reduced(of_ranks, reduction));
  transport.all_gather(one_by_one(parts), as_bytes(Pieces{mine}));
}

}  // namespace

void all_reduce(Transport& transport, const at::Tensor& values, Reduction reduction,
                RankPlace place) {
  const at::NoGradGuard guard;
  const at::Tensor flat = values.view({-1});
  if (static_cast<std::int64_t>(flat.nbytes()) * (place.size - 1) > kSmallBytes) {
    for (const at::Tensor& pass :
         flat.split(kPassBytes / static_cast<std::int64_t>(flat.element_size())))
      reduce_parts(transport, pass, reduction, place);
    return;
  }
  const at::Tensor of_ranks = at::empty({place.size, flat.numel()}, flat.options());
  transport.all_gather(one_by_one(of_ranks.unbind()), as_bytes(Pieces{flat}));
  flat.copy_(reduced(of_ranks, reduction));
}

void broadcast(Transport& transport, const at::Tensor& bytes, int root, RankPlace place) {
  // Ranks are counted from the root. A rank receives from the rank without its highest bit, and
  // sends to the ranks with one more bit above its highest.
  const int own = (place.rank - root + place.size) % place.size;
  const auto rank_of = [&](int number) { return (number + root) % place.size; };
  int bit = 1;
  while (bit <= own) bit *= 2;
  if (own > 0) transport.receive(bytes, rank_of(own - bit / 2));
  std::vector<std::function<void()>> sent;
  for (; own + bit < place.size; bit *= 2)
    sent.push_back(transport.start_send(bytes, rank_of(own + bit)));
  for (const auto& wait : sent) wait();
}

}  // namespace penstock::dist
