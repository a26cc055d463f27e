"""TRL's GRPO and RLOO trainers, on a language model of one layer and ten words."""

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from adept.integrations.trl import attach
from hosts.base import Host

WORDS = ["<pad>", "<eos>", *"abcdefgh"]
CONFIGS = {GRPOTrainer: GRPOConfig, RLOOTrainer: RLOOConfig}
PLANNED = 3


def tokenizer():
    vocabulary = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>"))
    vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=vocabulary, pad_token="<pad>", eos_token="<eos>")


def model():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "max_position_embeddings": 32}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    special = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": None}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=len(WORDS), **sizes, **heads, **special))


class Rewards:
    """The n-th generation is rewarded with n on average; the fourth completion of a prompt gets no score."""

    __name__ = "counting"

    def __init__(self):
        self.generations = 0

    def __call__(self, completions, **_):
        self.generations += 1
        group = [self.generations - 0.5, float(self.generations), self.generations + 0.5, None]
        return [group[index % 4] for index in range(len(completions))]


def build(folder, kind=GRPOTrainer, *, steps=12, lora=False, **options):
    """Return a trainer that plans three passes over each generation, an optimiser step each."""
    options = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 2,
        "max_completion_length": 4,
        "num_iterations": PLANNED,
        "max_steps": steps,
        "beta": 0.0,
        "learning_rate": 0.01,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    } | options
    prompts = Dataset.from_dict({"prompt": [f"{first} {second}" for first in "abcd" for second in "efgh"]})
    adapter = LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return kind(
        model=model(),
        reward_funcs=Rewards(),
        args=CONFIGS[kind](**options),
        train_dataset=prompts,
        processing_class=tokenizer(),
        peft_config=adapter if lora else None,
    )


class Hooks(TrainerCallback):
    """Hook the optimiser that each training makes; added after ADEPT, so that its learning rates are seen."""

    def __init__(self):
        self.before, self.after, self._hooks = [], [], []

    def on_train_begin(self, args, state, control, optimizer=None, **_):
        while self._hooks:
            self._hooks.pop().remove()
        inner = getattr(optimizer, "optimizer", optimizer)
        for function in self.before:
            self._hooks.append(inner.register_step_pre_hook(function))
        for function in self.after:
            self._hooks.append(inner.register_step_post_hook(function))


class TRL(Host):
    epochs, minibatches = PLANNED, 1

    def build(self):
        kind = RLOOTrainer if self.variant == "rloo" else GRPOTrainer
        options = {"lr_scheduler_type": "linear", "warmup_steps": 0} if self.scheduled else {}
        self.rate = 0.05 if self.variant == "lora" else 0.01
        options |= {"lora": True, "max_completion_length": 8} if self.variant == "lora" else {}
        self.trainer = build(self.folder, kind, learning_rate=self.rate, **options, **self.settings)
        self.generated, self.hooks, self._resume = [], Hooks(), None

    def attach(self, given, **options):
        host, kind = self, type(self.trainer)

        class Seen(kind):
            def _generate_and_score_completions(self, inputs):
                host.generated.append(super()._generate_and_score_completions(inputs))
                return host.generated[-1]

        attach(self.trainer, given, **options)
        self.trainer.__class__ = Seen  # ADEPT calls the method of the class
        self.trainer.add_callback(self.hooks)

    def before_steps(self, function):
        self.hooks.before.append(function)

    def after_steps(self, function):
        self.hooks.after.append(function)

    def _note_rate(self, optimizer, *_):
        """Leave the steps out that go by, for which there are no gradients."""
        if any(parameter.grad is not None for parameter in self.actor):
            super()._note_rate(optimizer)

    def rewards(self, updates):
        return [float(number) for number in range(1, updates + 1)]

    def schedule(self, update, steps):
        """The rate falls by a twelfth in every step of the plan."""
        total = self.updates * PLANNED
        return [self.rate * (1 - (PLANNED * update + step) / total if self.scheduled else 1) for step in range(steps)]

    def run(self, updates):
        done = self.trainer.state.global_step if self._resume is None else self._resumed
        self.trainer.args.max_steps = (done if self._resume else 0) + updates * PLANNED
        self.trainer.train(resume_from_checkpoint=self._resume)
        self._resume = None

    def save(self, path):
        self.trainer.args.output_dir = str(path)
        self.trainer._save_checkpoint(self.trainer.model, trial=None)

    def load(self, path):
        (folder,) = path.glob("checkpoint-*")
        self._resume, self._resumed = str(folder), int(folder.name.partition("-")[2])

    def logged(self, name):
        return [entry[name] for entry in self.trainer.state.log_history if name in entry]

    def everything(self):
        return self.trainer.model.state_dict()

    def own_epochs(self):
        return self.trainer.num_iterations

    engine = property(lambda self: self.trainer.adept.engine)
    advice = property(lambda self: self.trainer.adept.advice())

    @property
    def actor(self):
        return [parameter for parameter in self.trainer.model.parameters() if parameter.requires_grad]

    def log_probs(self):
        """Work out the log-probability of each completion by itself."""
        names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
        rows = []
        for prompt, prompt_mask, completion, mask in zip(*(self.generated[-1][name] for name in names), strict=True):
            asked, answered = prompt[prompt_mask.bool()], completion[mask.bool()]
            with torch.no_grad():
                logits = self.trainer.model(torch.cat([asked, answered])[None]).logits[0, len(asked) - 1 : -1]
            chances = torch.log_softmax(logits.double() / self.trainer.temperature, 1)
            rows.append(chances.gather(1, answered[:, None]).sum())
        return torch.stack(rows)

    def advantages(self):
        return self.generated[-1]["advantages"]


HOST = TRL
