#include "penstock/tasks/python_random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <unordered_set>

#include "penstock/base/error.h"

namespace penstock::tasks {
namespace {

/// Fills the engine's state as MT19937's init_by_array does with the seed's 32-bit words, lowest
/// word first. std::mt19937 itself only has init_genrand.
class InitByArray {
 public:
  using result_type = std::uint32_t;
  explicit InitByArray(std::uint64_t seed)
      : words_{static_cast<result_type>(seed), static_cast<result_type>(seed >> 32)} {
    if (words_[1] == 0) words_.pop_back();
  }

  template <class Iterator>
  void generate(Iterator begin, Iterator end) const {
    std::array<result_type, kSize> state;
    state[0] = 19650218U;
    for (std::size_t i = 1; i < kSize; ++i)
      state[i] = 1812433253U * mixed(state[i - 1]) + static_cast<result_type>(i);
    std::size_t at = 1, word = 0;
    const auto advance = [&] {
      if (++at < kSize) return;
      state[0] = state[kSize - 1];
      at = 1;
    };
    for (std::size_t step = 0; step < kSize; ++step) {
      state[at] = (state[at] ^ (mixed(state[at - 1]) * 1664525U)) + words_[word] +
                  static_cast<result_type>(word);
      advance();
      word = (word + 1) % words_.size();
    }
    for (std::size_t step = 1; step < kSize; ++step) {
      state[at] = (state[at] ^ (mixed(state[at - 1]) * 1566083941U)) - static_cast<result_type>(at);
      advance();
    }
    state[0] = 0x80000000U;
    PENSTOCK_ASSERT(end - begin == std::ssize(state));
    std::ranges::copy(state, begin);
  }

 private:
  static constexpr std::size_t kSize = std::mt19937::state_size;
  static result_type mixed(result_type x) { return x ^ (x >> 30); }

  std::vector<result_type> words_;
};

std::mt19937 seeded(std::uint64_t seed) {
  InitByArray state(seed);
  return std::mt19937(state);
}

/// The largest population for which Python's sample() keeps a list of the items left. For larger
/// populations it keeps a set of the items taken.
std::size_t largest_listed(std::size_t count) {
  std::size_t power = 1;
  if (count <= 5) return 21;
  while (power < 3 * count) power *= 4;
  return 21 + power;
}

}  // namespace

PythonRandom::PythonRandom(std::uint64_t seed) : engine_(seeded(seed)) {}

std::size_t PythonRandom::below(std::size_t n) {
  const int bits = std::bit_width(n);
  std::size_t out = n;
  while (out >= n) out = static_cast<std::uint32_t>(engine_()) >> (32 - bits);
  return out;
}

std::vector<std::size_t> PythonRandom::sample(std::size_t n, std::size_t count) {
  PENSTOCK_ASSERT(count <= n && n <= UINT32_MAX);
  std::vector<std::size_t> out;
  if (n <= largest_listed(count)) {
    std::vector<std::size_t> left(n);
    std::iota(left.begin(), left.end(), std::size_t{0});
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = below(n - i);
      out.push_back(left[place]);
      left[place] = left[n - i - 1];
    }
    return out;
  }
  std::unordered_set<std::size_t> taken;
  while (out.size() < count)
    if (const std::size_t place = below(n); taken.insert(place).second) out.push_back(place);
  return out;
}

}  // namespace penstock::tasks
