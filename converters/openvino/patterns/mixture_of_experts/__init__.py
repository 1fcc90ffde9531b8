"""Mixtures of experts as optimum-intel exports them: Qwen3-MoE and, with biases and clamps, gpt-oss."""
