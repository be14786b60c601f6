// AdamW (its moments in f32 or bf16) and sums of squares in f32, over pieces of all tensors at
// once.
#include "penstock/ops/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "penstock/ops/check.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {
namespace {

/// Elements of a piece: small enough to divide evenly, large enough to hide the bookkeeping.
constexpr std::int64_t kPiece = kSquarePiece;

struct Piece {
  std::size_t tensor;
  std::int64_t begin, end;
};

template <class Sizes>
std::vector<Piece> cut(std::size_t tensors, const Sizes& size) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < tensors; ++i)
    for (std::int64_t begin = 0; begin < size(i); begin += kPiece)
      pieces.push_back({i, begin, std::min(begin + kPiece, size(i))});
  return pieces;
}

struct StepConstants {
  float beta1, rest1;  ///< β1 and 1 − β1
  float beta2, rest2;
  float scale;  ///< of the gradient
  float root2;  ///< 1 / sqrt(1 − β2^t)
  float eps;
  float rate;         ///< lr / (1 − β1^t)
  float keep;         ///< 1 − lr · decay
  std::uint32_t key;  ///< of the step's random draws
};

using Bf16 = std::uint16_t;  ///< the upper half of an f32

PENSTOCK_INLINE float read(float x) { return x; }
PENSTOCK_INLINE float read(Bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}
PENSTOCK_INLINE void write(float& to, float x, std::uint32_t) { to = x; }
/// Stochastic rounding: rounds away from zero with a probability equal to the fraction that is cut
/// off.
/// @param draw  16 random bits
PENSTOCK_INLINE void write(Bf16& to, float x, std::uint32_t draw) {
  to = static_cast<Bf16>((std::bit_cast<std::uint32_t>(x) + draw) >> 16);
}

/// The random draw of an element, as AdamWOptions describes it.
PENSTOCK_INLINE std::uint32_t draw_of(float w, float g, std::uint32_t key) {
  std::uint32_t x =
      (std::bit_cast<std::uint32_t>(w) & 0xffff0000u) | (std::bit_cast<std::uint32_t>(g) >> 16);
  x += key;
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x = (x ^ (x >> 15)) * 0xd35a2d97u;
  return x ^ (x >> 15);
}

template <class Moment>
PENSTOCK_INLINE void step_elements(float* w, const float* grad, Moment* m, Moment* v,
                                   std::int64_t n, const StepConstants& constants) {
  const StepConstants c = constants;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * c.scale;
    const float first = c.beta1 * read(m[i]) + c.rest1 * g;
    const float second = c.beta2 * read(v[i]) + c.rest2 * g * g;
    const std::uint32_t draw = sizeof(Moment) == 2 ? draw_of(w[i], g, c.key) : 0;
    write(m[i], first, draw >> 16);
    write(v[i], second, draw & 0xffffu);
    w[i] = c.keep * w[i] - c.rate * first / (fast_sqrt(second) * c.root2 + c.eps);
  }
}

PENSTOCK_PER_CPU void step_piece(float* w, const float* grad, float* m, float* v, std::int64_t n,
                                 const StepConstants& constants) {
  step_elements(w, grad, m, v, n, constants);
}

PENSTOCK_PER_CPU void step_bf16_piece(float* w, const float* grad, Bf16* m, Bf16* v, std::int64_t n,
                                      const StepConstants& constants) {
  step_elements(w, grad, m, v, n, constants);
}

PENSTOCK_PER_CPU double square_sum(const float* x, std::int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = x[i];
    sum += value * value;
  }
  return sum;
}

}  // namespace

std::string declines_adamw(const std::vector<AdamWItem>& items, const AdamWOptions&) {
  for (const auto& [weight, grad, m, v, decay] : items) {
    if (auto reason = declines({weight, grad}); !reason.empty()) return reason;
    if (m.scalar_type() != at::kBFloat16)
      if (auto reason = declines({m, v}); !reason.empty()) return reason;
    if (!weight.is_contiguous() || !m.is_contiguous() || !v.is_contiguous())
      return "a weight or moment is not contiguous";
  }
  return "";
}

void adamw_step(const std::vector<AdamWItem>& items, const AdamWOptions& options) {
  const double t = static_cast<double>(options.step);
  std::vector<at::Tensor> grads;  // keeps contiguous copies alive
  struct Pointers {
    float* w;
    void *m, *v;
    bool bf16;
    const float* grad;
    StepConstants constants;
  };
  std::vector<Pointers> pointers;
  for (const auto& [weight, grad, m, v, decay] : items) {
    grads.push_back(grad.contiguous());
    pointers.push_back(
        {.w = weight.data_ptr<float>(),
         .m = m.data_ptr(),
         .v = v.data_ptr(),
         .bf16 = m.scalar_type() == at::kBFloat16,
         .grad = grads.back().data_ptr<float>(),
         .constants = {.beta1 = static_cast<float>(options.beta1),
                       .rest1 = static_cast<float>(1 - options.beta1),
                       .beta2 = static_cast<float>(options.beta2),
                       .rest2 = static_cast<float>(1 - options.beta2),
                       .scale = static_cast<float>(options.grad_scale),
                       .root2 = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, t))),
                       .eps = static_cast<float>(options.eps),
                       .rate = static_cast<float>(options.lr / (1 - std::pow(options.beta1, t))),
                       .keep = static_cast<float>(1 - options.lr * decay),
                       .key = static_cast<std::uint32_t>(options.step) * 0x9e3779b9u}});
  }
  const auto pieces = cut(items.size(), [&](std::size_t i) { return items[i].weight.numel(); });
  parallel_ranges(static_cast<std::int64_t>(pieces.size()), 1,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const Piece& piece = pieces[i];
                      const Pointers& p = pointers[piece.tensor];
                      float* const w = p.w + piece.begin;
                      const float* const grad = p.grad + piece.begin;
                      const std::int64_t n = piece.end - piece.begin;
                      if (p.bf16)
                        step_bf16_piece(w, grad, static_cast<Bf16*>(p.m) + piece.begin,
                                        static_cast<Bf16*>(p.v) + piece.begin, n, p.constants);
                      else
                        step_piece(w, grad, static_cast<float*>(p.m) + piece.begin,
                                   static_cast<float*>(p.v) + piece.begin, n, p.constants);
                    }
                  });
}

std::string declines_square_sums(const std::vector<at::Tensor>& tensors) {
  for (const auto& tensor : tensors)
    if (auto reason = declines({tensor}); !reason.empty()) return reason;
  return "";
}

std::vector<double> square_sums(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> held;
  std::vector<const float*> data;
  for (const auto& tensor : tensors) {
    held.push_back(tensor.contiguous());
    data.push_back(held.back().data_ptr<float>());
  }
  const auto pieces = cut(held.size(), [&](std::size_t i) { return held[i].numel(); });
  std::vector<double> sums(pieces.size());
  parallel_ranges(
      static_cast<std::int64_t>(pieces.size()), 2, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          sums[i] =
              square_sum(data[pieces[i].tensor] + pieces[i].begin, pieces[i].end - pieces[i].begin);
      });
  return sums;
}

}  // namespace penstock::ops::cpu
