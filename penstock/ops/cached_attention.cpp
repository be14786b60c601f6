// Attention with a cache: checks, implementations, dispatcher registration.
#include "penstock/ops/cached_attention.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"

namespace penstock::ops {

std::string describe(const CachedAttention& problem) {
  return concat("qkv ", describe(problem.qkv), ", cache ", describe(problem.keys));
}

namespace {

using MaybeTensor = c10::optional<at::Tensor>;
using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                             const at::Tensor&, const at::Tensor&, double, const MaybeTensor&,
                             bool);

/// Two products for each pair of positions that attend. Keys and values are read once for each
/// sequence.
Cost attention_cost(const CachedAttention& p) {
  const double n = static_cast<double>(p.fresh());
  double pairs = 0, read = 0;
  for (std::int64_t r = 0; r < p.count(); ++r) {
    const auto held = static_cast<double>(p.length(r));
    pairs += n * held + n * (n + 1) / 2;
    read += 2 * held * static_cast<double>(p.kv_heads() * p.head_dim());
  }
  const auto width = static_cast<double>(p.heads() * p.head_dim());
  const auto element = static_cast<double>(p.qkv.element_size());
  return {
      .flops = 4 * pairs * width,
      .bytes = element * (read + n * static_cast<double>(p.count()) * width) + 2 * bytes_of(p.qkv)};
}

const Implementations<at::Tensor(const CachedAttention&)>& implementations() {
  static const Implementations<at::Tensor(const CachedAttention&)> list(
      "cached_attention",
      {{"prompt", cpu::declines_prompt_attention, cpu::prompt_attention},
       {"block", cpu::declines_block_attention, cpu::block_attention},
       {"step", cpu::declines_step_attention, cpu::step_attention},
       {"reference", nullptr, reference::cached_attention}},
      attention_cost);
  return list;
}

void check_cache(const CachedAttention& p) {
  PENSTOCK_CHECK(p.keys.dim() == 4 && p.keys.sizes() == p.values.sizes() && p.kv_heads() > 0 &&
                     p.head_dim() > 0,
                 "[cached_attention] keys ", p.keys.sizes(), " and values ", p.values.sizes(),
                 " must both be [B, C, G, hd]");
  PENSTOCK_CHECK(
      p.keys.is_contiguous() && p.values.is_contiguous(),
      "[cached_attention] keys and values are written in place: they must be contiguous");
  PENSTOCK_CHECK(p.qkv.dim() == 3 && p.qkv.size(2) % p.head_dim() == 0 && p.heads() > 0 &&
                     p.heads() % p.kv_heads() == 0,
                 "[cached_attention] qkv ", p.qkv.sizes(), " must be [R, n, (H+2G)·hd] for keys ",
                 p.keys.sizes(), ", H a multiple of G");
  check_same_kind({p.qkv, p.keys, p.values, p.rotation}, "cached_attention");
  PENSTOCK_CHECK(
      !p.rotation.defined() || (p.rotation.dim() == 2 && p.rotation.size(0) >= p.capacity() &&
                                p.rotation.size(1) == p.head_dim() && p.head_dim() % 2 == 0),
      "[cached_attention] rotation ", p.rotation.sizes(),
      " must be [C or more, hd] with hd even, for keys ", p.keys.sizes());
}

void check_rows(const CachedAttention& p) {
  for (const at::Tensor* tensor : {&p.rows, &p.lengths})
    PENSTOCK_CHECK(tensor->scalar_type() == at::kLong && tensor->is_cpu() &&
                       tensor->is_contiguous() && tensor->dim() == 1 &&
                       tensor->size(0) == p.count(),
                   "[cached_attention] rows and lengths must be i64 [", p.count(),
                   "] on the CPU, not ", describe(*tensor));
  check_index_range(p.rows, p.keys.size(0), "cached_attention", "row");
  for (std::int64_t r = 0; r < p.count(); ++r) {
    PENSTOCK_CHECK(p.length(r) >= 0 && p.length(r) <= p.capacity() - p.fresh(),
                   "[cached_attention] ", p.fresh(), " positions after ", p.length(r),
                   " are more than the ", p.capacity(), " of the cache");
    for (std::int64_t other = 0; other < r; ++other)
      PENSTOCK_CHECK(p.row(other) != p.row(r), "[cached_attention] row ", p.row(r),
                     " is named twice");
  }
}

at::Tensor kernel(const at::Tensor& qkv, const at::Tensor& keys, const at::Tensor& values,
                  const at::Tensor& rows, const at::Tensor& lengths, double scale,
                  const MaybeTensor& rotation, bool rope_adjacent) {
  const CachedAttention problem{.qkv = qkv,
                                .keys = keys,
                                .values = values,
                                .rows = rows,
                                .lengths = lengths,
                                .scale = scale,
                                .rotation = rotation ? *rotation : at::Tensor(),
                                .rope_adjacent = rope_adjacent};
  check_cache(problem);
  check_rows(problem);
  return implementations().run(problem);
}

at::Tensor autograd_kernel(const at::Tensor& qkv, const at::Tensor& keys, const at::Tensor& values,
                           const at::Tensor& rows, const at::Tensor& lengths, double scale,
                           const MaybeTensor& rotation, bool rope_adjacent) {
  PENSTOCK_CHECK(!needs_gradient(qkv, keys, values),
                 "[cached_attention] has no gradient: generate under torch::NoGradGuard");
  const at::AutoDispatchBelowADInplaceOrView below;
  return kernel(qkv, keys, values, rows, lengths, scale, rotation, rope_adjacent);
}

}  // namespace

at::Tensor cached_attention(const at::Tensor& qkv, const at::Tensor& keys, const at::Tensor& values,
                            const at::Tensor& rows, const at::Tensor& lengths, double scale,
                            const std::optional<at::Tensor>& rotation, bool rope_adjacent) {
  static const auto handle = dispatcher_handle<Signature>("cached_attention");
  return handle.call(qkv, keys, values, rows, lengths, scale, to_dispatcher(rotation),
                     rope_adjacent);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("cached_attention", penstock::ops::kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("cached_attention", penstock::ops::kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) {
  m.impl("cached_attention", penstock::ops::autograd_kernel);
}
