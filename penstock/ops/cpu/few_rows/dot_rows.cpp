// Products of few rows, and rows as f32, for each type of row: one function for each, compiled for
// each processor.
#include "penstock/ops/cpu/few_rows/dot_rows.h"

#include "penstock/base/error.h"

namespace penstock::ops::cpu {
namespace {

template <class Reader>
PENSTOCK_INLINE void expand_of(const std::byte* w, std::int64_t numbers, float* y) {
  std::int64_t i = 0;
  for (; i + Reader::kNumbers <= numbers; i += Reader::kNumbers, w += Reader::kBytes) {
    Reader block;
    block.begin(w);
    for (int part = 0; part < Reader::kParts; ++part)
#pragma GCC unroll 8
      for (int v = 0; v < Reader::kVectors; ++v)
        store(y + i + (part * Reader::kVectors + v) * kLanes, block.lanes(part, v));
  }
  if constexpr (Reader::kNumbers == kLanes)
    for (; i < numbers; ++i, w += Reader::kBytes / kLanes) y[i] = Reader::one(w);
}

constexpr int kTallest = 4, kTallestOfAvx512 = 6;

// Clones cannot be templates' (g++ 12), so each type has its two functions.
#define PENSTOCK_ROW_TYPE(name, target, tallest, ...)                                  \
  target void dot_##name(const DotOperands& o, std::int64_t rows, std::int64_t cols) { \
    dot_rows_of<__VA_ARGS__, tallest>(o, rows, cols);                                  \
  }                                                                                    \
  target void expand_##name(const std::byte* w, std::int64_t numbers, float* y) {      \
    expand_of<__VA_ARGS__>(w, numbers, y);                                             \
  }
PENSTOCK_ROW_TYPE(f32, PENSTOCK_PER_CPU, kTallest, ReadF32)
PENSTOCK_ROW_TYPE(f16, PENSTOCK_PER_CPU, kTallest, ReadF16<WidenPortably>)
PENSTOCK_ROW_TYPE(bf16, PENSTOCK_PER_CPU, kTallest, ReadBf16<WidenPortably>)
PENSTOCK_ROW_TYPE(q8_0, PENSTOCK_PER_CPU, kTallest, ReadQ80<WidenPortably>)
PENSTOCK_ROW_TYPE(q4_0, PENSTOCK_PER_CPU, kTallest, ReadQ40<WidenPortably>)
PENSTOCK_ROW_TYPE(q4_1, PENSTOCK_PER_CPU, kTallest, ReadQ41<WidenPortably>)
PENSTOCK_ROW_TYPE(q5_0, PENSTOCK_PER_CPU, kTallest, ReadQ50<WidenPortably>)
PENSTOCK_ROW_TYPE(q5_1, PENSTOCK_PER_CPU, kTallest, ReadQ51<WidenPortably>)
PENSTOCK_ROW_TYPE(q4_k, PENSTOCK_PER_CPU, kTallest, ReadQ4K<WidenPortably>)
PENSTOCK_ROW_TYPE(q5_k, PENSTOCK_PER_CPU, kTallest, ReadQ5K<WidenPortably>)
PENSTOCK_ROW_TYPE(q6_k, PENSTOCK_PER_CPU, kTallest, ReadQ6K<WidenPortably>)
// Where there are no clones, sums are not fused, whatever the processor.
#if defined(PENSTOCK_HAS_CLONES)
#define PENSTOCK_AVX512 __attribute__((target("arch=x86-64-v4")))
PENSTOCK_ROW_TYPE(f32_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadF32)
PENSTOCK_ROW_TYPE(f16_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadF16<WidenByAvx512>)
PENSTOCK_ROW_TYPE(bf16_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadBf16<WidenByAvx512>)
PENSTOCK_ROW_TYPE(q8_0_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadQ80<WidenByAvx512>)
PENSTOCK_ROW_TYPE(q4_0_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadQ40<WidenByAvx512>)
PENSTOCK_ROW_TYPE(q4_1_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadQ41<WidenByAvx512>)
PENSTOCK_ROW_TYPE(q5_0_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadQ50<WidenByAvx512>)
PENSTOCK_ROW_TYPE(q5_1_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadQ51<WidenByAvx512>)
PENSTOCK_ROW_TYPE(q4_k_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadQ4K<WidenByAvx512>)
PENSTOCK_ROW_TYPE(q5_k_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadQ5K<WidenByAvx512>)
PENSTOCK_ROW_TYPE(q6_k_avx512, PENSTOCK_AVX512, kTallestOfAvx512, ReadQ6K<WidenByAvx512>)
#undef PENSTOCK_AVX512
#endif
#undef PENSTOCK_ROW_TYPE

struct RowFunctions {
  void (*dot)(const DotOperands&, std::int64_t, std::int64_t);
  void (*expand)(const std::byte*, std::int64_t, float*);
};

RowFunctions functions_of(RowType type) {
#if defined(PENSTOCK_HAS_CLONES)
  if (__builtin_cpu_supports("x86-64-v4")) switch (type) {
      case RowType::f32:
        return {dot_f32_avx512, expand_f32_avx512};
      case RowType::f16:
        return {dot_f16_avx512, expand_f16_avx512};
      case RowType::bf16:
        return {dot_bf16_avx512, expand_bf16_avx512};
      case RowType::q8_0:
        return {dot_q8_0_avx512, expand_q8_0_avx512};
      case RowType::q4_0:
        return {dot_q4_0_avx512, expand_q4_0_avx512};
      case RowType::q4_1:
        return {dot_q4_1_avx512, expand_q4_1_avx512};
      case RowType::q5_0:
        return {dot_q5_0_avx512, expand_q5_0_avx512};
      case RowType::q5_1:
        return {dot_q5_1_avx512, expand_q5_1_avx512};
      case RowType::q4_k:
        return {dot_q4_k_avx512, expand_q4_k_avx512};
      case RowType::q5_k:
        return {dot_q5_k_avx512, expand_q5_k_avx512};
      case RowType::q6_k:
        return {dot_q6_k_avx512, expand_q6_k_avx512};
    }
#endif
  switch (type) {
    case RowType::f32:
      return {dot_f32, expand_f32};
    case RowType::f16:
      return {dot_f16, expand_f16};
    case RowType::bf16:
      return {dot_bf16, expand_bf16};
    case RowType::q8_0:
      return {dot_q8_0, expand_q8_0};
    case RowType::q4_0:
      return {dot_q4_0, expand_q4_0};
    case RowType::q4_1:
      return {dot_q4_1, expand_q4_1};
    case RowType::q5_0:
      return {dot_q5_0, expand_q5_0};
    case RowType::q5_1:
      return {dot_q5_1, expand_q5_1};
    case RowType::q4_k:
      return {dot_q4_k, expand_q4_k};
    case RowType::q5_k:
      return {dot_q5_k, expand_q5_k};
    case RowType::q6_k:
      return {dot_q6_k, expand_q6_k};
  }
  PENSTOCK_ASSERT(false, "no such type of rows");
}

}  // namespace

void dot_rows(RowType type, const DotOperands& operands, std::int64_t rows, std::int64_t columns) {
  functions_of(type).dot(operands, rows, columns);
}

void expand_rows(RowType type, const std::byte* w, std::int64_t rows, std::int64_t depth,
                 float* y) {
  functions_of(type).expand(w, rows * depth, y);
}

}  // namespace penstock::ops::cpu
