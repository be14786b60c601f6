"""A language model that Penstock exported, for Hugging Face's transformers: a decoder like Llama's whose layers
may have experts, chosen by ReLU or by top-k. It keeps no cache of keys and values: generation reads the whole text
for each token.

    AutoModelForCausalLM.from_pretrained(FOLDER, trust_remote_code=True)
"""
import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import CausalLMOutput

from .configuration_penstock import PenstockConfig

GATES = ("relu", "softmax-over-kept", "softmax-over-all")


class RmsNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)).to(x.dtype)


def rotated(x, positions, theta, adjacent):
    """x [B, H, T, hd], positions [B, T]: pairs (2i, 2i + 1) if adjacent, else (i, i + hd/2), rotated."""
    width = x.shape[-1]
    exact = torch.promote_types(x.dtype, torch.float32)
    frequency = theta ** (-torch.arange(0, width, 2, device=x.device, dtype=torch.float64) / width)
    angle = positions[:, None, :, None].to(torch.float64) * frequency  # [B, 1, T, hd/2]
    cos, sin = angle.cos().to(exact), angle.sin().to(exact)
    wide = x.to(exact)
    if adjacent:
        first, second = wide[..., 0::2], wide[..., 1::2]
        rotated = torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)
    else:
        first, second = wide[..., :width // 2], wide[..., width // 2:]
        rotated = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return rotated.to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        queries = config.num_attention_heads * config.head_dim
        keys = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, queries, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=config.attention_bias)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)
        if config.qk_norm:
            whole = config.qk_norm == "whole"
            self.q_norm = RmsNorm(queries if whole else config.head_dim, config.rms_norm_eps)
            self.k_norm = RmsNorm(keys if whole else config.head_dim, config.rms_norm_eps)

    def forward(self, x, positions, mask):
        c = self.config
        batch, length, _ = x.shape
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        if c.qk_norm == "whole":
            q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = (t.view(batch, length, -1, c.head_dim) for t in (q, k, v))
        if c.qk_norm == "head":
            q, k = self.q_norm(q), self.k_norm(k)
        if c.clip_qkv:
            q, k, v = (t.clamp(-c.clip_qkv, c.clip_qkv) for t in (q, k, v))
        q, k = (rotated(t.transpose(1, 2), positions, c.rope_theta, c.rope_adjacent) for t in (q, k))
        k, v = (t.repeat_interleave(c.num_attention_heads // c.num_key_value_heads, 1)
                for t in (k, v.transpose(1, 2)))
        exact = torch.promote_types(x.dtype, torch.float32)
        scores = (q @ k.transpose(-1, -2) / c.head_dim ** 0.5).to(exact).masked_fill(~mask, float("-inf"))
        y = scores.softmax(-1).to(v.dtype) @ v
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, hidden, width):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, width, bias=False)
        self.up_proj = nn.Linear(hidden, width, bias=False)
        self.down_proj = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class RouterBias(nn.Module):
    """Holds router.scorer.bias under the name that it has in the files."""

    def __init__(self, experts):
        super().__init__()
        self.scorer = nn.Module()
        self.scorer.register_parameter("bias", nn.Parameter(torch.zeros(experts)))


class Experts(nn.Module):
    """y = sum over experts of gate_e(x) FFN_e(x), and what the shared expert adds."""

    def __init__(self, config):
        super().__init__()
        self.form, self.k = config.gates, config.num_experts_per_tok
        if self.form not in GATES:
            raise ValueError(f"gates = {self.form!r}: this class has {', '.join(GATES)}")
        self.gate = nn.Linear(config.hidden_size, config.num_experts, bias=False)
        self.router = RouterBias(config.num_experts) if config.router_bias else None
        self.experts = nn.ModuleList(FeedForward(config.hidden_size, config.moe_intermediate_size)
                                     for _ in range(config.num_experts))
        shared = config.shared_expert_intermediate_size
        self.shared_expert = FeedForward(config.hidden_size, shared) if shared else None
        self.shared_expert_gate = nn.Linear(config.hidden_size, 1, bias=False) if config.shared_expert_gate else None

    def gates(self, x):
        """Gates [T, E] of tokens x [T, d]; 0 where a token does not get the expert."""
        exact = torch.promote_types(x.dtype, torch.float32)
        bias = self.router.scorer.bias.to(exact) if self.router is not None else None
        logits = functional.linear(x.to(exact), self.gate.weight.to(exact), bias)
        if self.form == "relu":
            return logits.relu()
        chosen = logits.sort(dim=-1, descending=True, stable=True).indices[:, :self.k]  # the lower of two equals
        kept = torch.zeros_like(logits, dtype=torch.bool).scatter(1, chosen, True)
        if self.form == "softmax-over-kept":
            return logits.masked_fill(~kept, float("-inf")).softmax(-1)
        return logits.softmax(-1) * kept

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        gates = self.gates(rows)
        out = torch.zeros_like(rows)
        for expert, network in enumerate(self.experts):
            (tokens,) = gates[:, expert].nonzero(as_tuple=True)
            if len(tokens):
                weight = gates[tokens, expert, None].to(rows.dtype)
                out = out.index_add(0, tokens, network(rows[tokens]) * weight)
        if self.shared_expert is not None:
            shared = self.shared_expert(rows)
            if self.shared_expert_gate is not None:
                shared = shared * torch.sigmoid(self.shared_expert_gate(rows))
            out = out + shared
        return out.view_as(x)


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        self.input_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = (Experts(config) if index in config.moe_layers
                    else FeedForward(config.hidden_size, config.intermediate_size))

    def forward(self, x, positions, mask):
        x = x + self.self_attn(self.input_layernorm(x), positions, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class PenstockModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, index) for index in range(config.num_hidden_layers))
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)


def places(attention_mask, batch, length, device):
    """Positions [B, T] and, by query and key, what may be read, [B, 1, T, T]. Padding is read by nobody but itself."""
    readable = torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]
    if attention_mask is None:
        return torch.arange(length, device=device).expand(batch, length), readable
    there = attention_mask.to(device).bool()
    itself = torch.eye(length, dtype=torch.bool, device=device)[None, None]
    return (there.long().cumsum(-1) - 1).clamp_min(0), readable & there[:, None, None, :] | itself


class PenstockForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = PenstockConfig
    base_model_prefix = "model"
    _no_split_modules = ["Layer"]

    def __init__(self, config):
        super().__init__(config)
        self.model = PenstockModel(config)
        # Tied: the embeddings are multiplied with, and there is no second parameter to tie.
        self.lm_head = (None if config.tie_word_embeddings
                        else nn.Linear(config.hidden_size, config.vocab_size, bias=False))
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(0, self.config.initializer_range)

    # The loss is the mean of its batch: a trainer that accumulates has to divide by the batches itself.
    accepts_loss_kwargs = False

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def set_input_embeddings(self, embeddings):
        self.model.embed_tokens = embeddings

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, head):
        self.lm_head = head

    def forward(self, input_ids=None, attention_mask=None, position_ids=None, inputs_embeds=None, labels=None,
                return_dict=None, **_):
        x = self.model.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        positions, mask = places(attention_mask, x.shape[0], x.shape[1], x.device)
        if position_ids is not None:
            positions = position_ids.expand(x.shape[0], -1)
        for layer in self.model.layers:
            x = layer(x, positions, mask)
        x = self.model.norm(x)
        head = self.model.embed_tokens if self.lm_head is None else self.lm_head
        logits = functional.linear(x, head.weight)
        loss = None
        if labels is not None:  # of each token after those before it; -100 is not scored
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(),
                                            ignore_index=-100)
        if return_dict is False:
            return (logits,) if loss is None else (loss, logits)
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        return {"input_ids": input_ids, "attention_mask": attention_mask}
