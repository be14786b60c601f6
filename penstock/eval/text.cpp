#include "penstock/eval/text.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {
namespace {

TextWindow window_of(std::span<const TokenId> tokens, std::int64_t first_scored) {
  return {.inputs = {tokens.begin(), tokens.end() - 1},
          .targets = {tokens.begin() + 1, tokens.end()},
          .first_scored = first_scored};
}

at::Tensor ids_tensor(std::span<const TokenId> ids) {
  return torch::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), torch::kLong);
}

}  // namespace

TextProtocol parse_text_protocol(const std::string& name) {
  if (name == "windows") return TextProtocol::kWindows;
  PENSTOCK_CHECK(name == "llama-perplexity", "--protocol ", name,
                 " is not known; windows and llama-perplexity are");
  return TextProtocol::kLlamaPerplexity;
}

std::vector<TextWindow> text_windows(std::span<const TokenId> ids, TokenId bos, std::int64_t length,
                                     TextProtocol protocol) {
  std::vector<TokenId> tokens;
  if (bos >= 0) tokens.push_back(bos);
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  const auto n = static_cast<std::size_t>(length);
  std::vector<TextWindow> windows;
  if (protocol == TextProtocol::kLlamaPerplexity) {
    PENSTOCK_CHECK(length >= 4,
                   "--protocol llama-perplexity scores half of each window: windows "
                   "of ",
                   length, " tokens are too short");
    PENSTOCK_CHECK(tokens.size() >= n, "the text has ", tokens.size(),
                   " tokens, and --protocol "
                   "llama-perplexity drops what does not fill a window of ",
                   n, "; give more text or --sequence-length");
    for (std::size_t begin = 0; begin + n <= tokens.size(); begin += n) {
      if (bos >= 0) tokens[begin] = bos;
      windows.push_back(window_of(std::span(tokens).subspan(begin, n), length / 2));
    }
    return windows;
  }
  PENSTOCK_CHECK(tokens.size() >= 2, "the text has ", tokens.size(),
                 " tokens; a token is scored after another");
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += n) {
    const std::size_t size = std::min(n + 1, tokens.size() - begin);
    windows.push_back(window_of(std::span(tokens).subspan(begin, size), 0));
  }
  return windows;
}

void score_text(LanguageModel& model, std::span<const TextWindow> windows,
                const std::function<void(const ScoredToken&)>& visit) {
  torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  const at::Device device = model.parameters().front().device();
  const std::int64_t vocab = model.config().vocab;
  const bool merges = resolve(model.config().router).traits.merges;
  RoutingContext context;
  context.training = false;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const TextWindow& window = windows[w];
    for (const auto* ids : {&window.inputs, &window.targets})
      for (const TokenId id : *ids)
        PENSTOCK_CHECK(id >= 0 && id < vocab, "the tokenizer gives the id ", id,
                       ", and the model's vocabulary has ", vocab,
                       " entries: it is another model's tokenizer");
    at::Tensor inputs = ids_tensor(window.inputs).unsqueeze(0);  // [1, T]
    const std::int64_t length = inputs.size(1);
    // Routers that merge experts per segment need whole ones; what follows changes nothing before.
    if (merges)
      inputs = torch::constant_pad_nd(
          inputs, {0, static_cast<std::int64_t>(windows[0].inputs.size()) - length});
    const ModelOutput output = model.forward({.tokens = inputs.to(device)}, context);
    const at::Tensor nats =
        model.losses(output.hidden.narrow(0, 0, length), ids_tensor(window.targets).to(device))
            .to(at::kCPU, at::kDouble)
            .contiguous();  // [T]
    const auto* nll = nats.data_ptr<double>();
    for (std::int64_t i = window.first_scored; i < length; ++i)
      visit({.window = static_cast<std::int64_t>(w),
             .position = i + 1,
             .id = window.targets[static_cast<std::size_t>(i)],
             .log_probability = -nll[i]});
  }
  model.train(was_training);
}

}  // namespace penstock
