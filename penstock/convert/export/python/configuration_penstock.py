"""Config of a language model that Penstock exported, for Hugging Face's transformers."""
from transformers import PretrainedConfig


class PenstockConfig(PretrainedConfig):
    """What config.json says. Of layers with experts:

    gates   relu: every expert with a positive logit, weighted by it (ReMoE, arXiv:2412.14711);
            softmax-over-kept: the num_experts_per_tok highest logits, gates that sum to one;
            softmax-over-all: the same experts, with their probabilities over all experts as gates.
    """

    model_type = "penstock"

    def __init__(self, vocab_size=256, hidden_size=256, intermediate_size=1024, num_hidden_layers=4,
                 num_attention_heads=8, num_key_value_heads=None, head_dim=None, max_position_embeddings=2048,
                 rms_norm_eps=1e-5, rope_theta=10000.0, rope_adjacent=False, attention_bias=False, qk_norm=None,
                 clip_qkv=None, gates=None, num_experts=0, num_experts_per_tok=1, moe_layers=(),
                 moe_intermediate_size=None, router_bias=False, shared_expert_intermediate_size=0,
                 shared_expert_gate=False, initializer_range=0.02, tie_word_embeddings=False, **kwargs):
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads or num_attention_heads
        self.head_dim = head_dim or hidden_size // num_attention_heads
        self.max_position_embeddings = max_position_embeddings
        self.rms_norm_eps = rms_norm_eps
        self.rope_theta = rope_theta
        self.rope_adjacent = rope_adjacent
        self.attention_bias = attention_bias
        self.qk_norm = qk_norm
        self.clip_qkv = clip_qkv
        self.gates = gates
        self.num_experts = num_experts
        self.num_experts_per_tok = num_experts_per_tok
        self.moe_layers = list(moe_layers)
        self.moe_intermediate_size = moe_intermediate_size or intermediate_size
        self.router_bias = router_bias
        self.shared_expert_intermediate_size = shared_expert_intermediate_size
        self.shared_expert_gate = shared_expert_gate
        self.initializer_range = initializer_range
        kwargs["use_cache"] = False  # the class keeps no keys and values
        super().__init__(tie_word_embeddings=tie_word_embeddings, **kwargs)
