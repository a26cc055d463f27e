"""GRPO of TRL on a tiny language model, with ADEPT.

    python examples/trl_tiny.py                           # advice at the end; changes nothing
    python examples/trl_tiny.py --scheduler hindsight     # also adapts the learning rate
    python examples/trl_tiny.py --scheduler ucb           # the paper's bandit chooses the epochs

Needs `pip install 'adept-rl[trl]'`. The model is made on the spot and learns to answer with the letter "a".
Nothing is downloaded.
"""

import argparse
import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from adept.integrations.trl import attach

WORDS = ["<pad>", "<eos>", *"abcdefgh"]


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")


def share_of_a(completions, **_):
    return [completion.split().count("a") / 8 for completion in completions]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--scheduler", help="hindsight, kl-rate, ucb, …; without it, advice only")
    arguments = parser.parse_args()
    steps = arguments.steps

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "max_position_embeddings": 32}
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(WORDS), num_attention_heads=2, num_key_value_heads=1, pad_token_id=0, eos_token_id=1, **sizes
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=share_of_a,
            train_dataset=Dataset.from_dict({"prompt": [f"{x} {y}" for x in "abcdefgh" for y in "abcdefgh"]}),
            processing_class=tokenizer(),
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=16,
                num_generations=8,
                max_completion_length=8,
                num_iterations=4,  # the plan for every generation batch: the largest arm
                max_steps=steps,
                learning_rate=1e-2,
                logging_steps=20,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                bf16=False,
            ),
        )

        # `attach(trainer)` for advice alone, `attach(trainer, "hindsight")` to adapt the learning rate.
        attach(trainer, arguments.scheduler)

        trainer.train()


if __name__ == "__main__":
    main()
