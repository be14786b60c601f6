#include "penstock/layers/feed_forward.h"

#include <torch/types.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"
#include "penstock/ops/slice.h"

namespace penstock {
namespace {

/// The mask of block dropout [f]: 0 for dropped neurons, 1 for the others.
at::Tensor block_mask(const BlockDropout& dropout, std::int64_t neurons, std::int64_t seed,
                      const at::TensorOptions& options) {
  std::vector<float> mask(static_cast<std::size_t>(neurons));
  constexpr std::uint64_t stream = 1;  // stream 0 is that of the dropout of single neurons
  for (std::size_t j = 0; j < mask.size(); ++j) {
    const std::uint64_t bits = random_bits(static_cast<std::uint64_t>(seed), stream,
                                           j % static_cast<std::size_t>(dropout.blocks));
    mask[j] = static_cast<double>(bits >> 11) * 0x1p-53 >= dropout.p ? 1.0f : 0.0f;
  }
  return torch::tensor(mask).to(options);
}

}  // namespace

FeedForward::FeedForward(std::int64_t d_model, std::int64_t d_ffn, FfnForm form,
                         BlockDropout block_dropout, RankRows rows)
    : form_(form), block_dropout_(block_dropout), rows_(std::move(rows)) {
  const dist::ProcessGroup& ranks = rows_.ranks();
  PENSTOCK_ASSERT(ranks.size() == 1 || (!form.bias && form.dropout == 0 && block_dropout.p == 0));
  d_ffn = equal_part(d_ffn, ranks.rank(), ranks.size()).size();
  const std::string in = form.input_name();
  const std::int64_t width = form.inputs() * d_ffn;
  gate_up_ = register_parameter(in, torch::empty({width, d_model}));
  if (form.bias) in_bias_ = register_parameter(in + "_bias", torch::zeros({width}));
  down_ = register_parameter("down", torch::empty({d_model, d_ffn}));
  if (form.bias) out_bias_ = register_parameter("down_bias", torch::zeros({d_model}));
}

void FeedForward::describe(std::int64_t d_model, std::int64_t d_ffn, const FfnForm& form,
                           TensorRole role, const LayerTensors& at) {
  form.describe(d_model, d_ffn, role, at);
}

void FeedForward::initialize(double std, double output_std, const InitialDraws& draws) {
  draws.normal(form_.input_name(), gate_up_, std);
  draws.normal("down", down_, output_std);
}

at::Tensor FeedForward::dropped(at::Tensor inner, std::int64_t seed) const {
  if (block_dropout_.p > 0)
    inner = inner * block_mask(block_dropout_, down_.size(1), seed, inner.options());
  return form_.dropout > 0 ? ops::dropout(inner, form_.dropout, seed) : inner;
}

at::Tensor FeedForward::forward(const at::Tensor& x, std::optional<std::int64_t> dropout_seed) {
  return outer(inner(x, dropout_seed));
}

at::Tensor FeedForward::inner(const at::Tensor& x, std::optional<std::int64_t> dropout_seed) {
  const at::Tensor out =
      activate(form_, ops::linear(rows_.enter(x), gate_up_, stored_in_, ops::if_defined(in_bias_)));
  return dropout_seed ? dropped(out, *dropout_seed) : out;
}

at::Tensor FeedForward::outer(const at::Tensor& inner) {
  return rows_.leave(ops::linear(inner, down_, stored_out_, ops::if_defined(out_bias_)));
}

bool FeedForward::read_from(const std::string& parameter, const ops::StoredMatrix& matrix) {
  const bool in = parameter == form_.input_name();
  if (!in && parameter != "down") return false;
  give_up(in ? gate_up_ : down_, matrix);
  (in ? stored_in_ : stored_out_) = matrix;
  return true;
}

}  // namespace penstock
