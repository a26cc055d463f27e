import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("trl", reason="needs the environment of trl: make test-integrations")

import torch
from datasets import Dataset
from peft import LoraConfig
from recording import (
    SHORTENING,
    Oracle,
    Recorder,
    Scripted,
    assert_equal_bit_for_bit,
    assert_same_state,
    held_copies,
    import_afresh,
)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer, SFTConfig, SFTTrainer

from adept import GaussianThompson
from adept.integrations.trl import attach

pytestmark = pytest.mark.integration

WORDS = ["<pad>", "<eos>", *"abcdefgh"]
KINDS = {GRPOTrainer: GRPOConfig, RLOOTrainer: RLOOConfig}
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


def build(tmp_path, kind=GRPOTrainer, *, steps=12, lora=False, **options):
    options = {
        "output_dir": str(tmp_path),
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 2,
        "max_completion_length": 4,
        "num_iterations": PLANNED,
        "max_steps": steps,
        "beta": 0.0,
        "learning_rate": 0.01,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "disable_tqdm": True,
    } | options
    prompts = Dataset.from_dict({"prompt": [f"{first} {second}" for first in "abcd" for second in "efgh"]})
    return kind(
        model=model(),
        reward_funcs=Rewards(),
        args=KINDS[kind](**options),
        train_dataset=prompts,
        processing_class=tokenizer(),
        peft_config=adapter() if lora else None,
    )


def train(trainer, resume=None):
    """Train; return for each planned step whether the weights moved, and the learning rate of it."""
    steps = []
    weights = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]

    class Monitor(TrainerCallback):
        def on_step_begin(self, args, state, control, **_):
            self.before = [weight.detach().clone() for weight in weights]
            self.rate = trainer.lr_scheduler.get_last_lr()[0]

        def on_step_end(self, args, state, control, **_):
            moved = any(not torch.equal(old, new) for old, new in zip(self.before, weights, strict=True))
            steps.append((moved, self.rate))

    trainer.add_callback(Monitor())
    trainer.train(resume_from_checkpoint=resume)
    return steps


@pytest.mark.parametrize("kind", KINDS)
def test_passes_that_run_are_the_choices(kind, tmp_path, recorder):
    """Each generation plans three optimiser steps; of them the first K move the weights."""
    trainer = attach(build(tmp_path, kind), recorder)
    steps = train(trainer)
    assert recorder.chosen == [3, 1, 2, 3]
    expected = [position < epochs for epochs in (3, 1, 2, 3) for position in range(PLANNED)]
    assert [moved for moved, _ in steps] == expected
    # Adam counts the steps in which it was given gradients.
    state = next(iter(trainer.optimizer.state.values()))
    assert int(state["step"]) == 3 + 1 + 2 + 3
    assert trainer.reward_funcs[0].generations == 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_previous_choice_gets_the_mean_reward(kind, tmp_path, recorder):
    train(attach(build(tmp_path, kind), recorder))
    recorder.assert_credits([1.0, 2.0, 3.0, 4.0])


def test_the_learning_rate_follows_the_plan_not_the_choices(tmp_path, recorder):
    steps = train(attach(build(tmp_path, lr_scheduler_type="linear", warmup_steps=0), recorder))
    assert [rate for _, rate in steps] == pytest.approx([0.01 * (1 - number / 12) for number in range(12)])


@pytest.mark.parametrize("save_steps", [6, 7])
def test_state_survives_save_and_resume(save_steps, tmp_path):
    """A checkpoint between two generations, and one within the third: its pass goes on, the choice stays."""
    first, second = GaussianThompson([3, 1, 2], seed=5), GaussianThompson([3, 1, 2], seed=6)
    saving = {"save_strategy": "steps", "save_steps": save_steps}
    train(attach(build(tmp_path, steps=save_steps, **saving), first))
    resumed = attach(build(tmp_path, **saving), second)
    train(resumed, resume=str(tmp_path / f"checkpoint-{save_steps}"))
    # The twin is told what the resumed run was told: a new run's rewards count from 1 again.
    generations = resumed.reward_funcs[0].generations
    rewards = [1.0, 2.0] if save_steps == 6 else [float(generations)]
    for reward in rewards:
        first.step(reward)
    assert resumed.state.global_step == 12
    assert_same_state(second, first)


def test_a_resume_within_a_generation_keeps_its_choice(tmp_path):
    """Step 7 is the second of the three planned ones of the third generation, for which 2 passes were chosen."""
    first, second = Recorder([3, 1, 2]), Recorder([3, 1, 2])
    saving = {"save_strategy": "steps", "save_steps": 7, "lr_scheduler_type": "constant"}
    train(attach(build(tmp_path, steps=7, **saving), first))
    steps = train(attach(build(tmp_path, **saving), second), resume=str(tmp_path / "checkpoint-7"))
    assert [moved for moved, _ in steps] == [True, False, True, True, True]
    assert (first.chosen, second.chosen) == ([3, 1, 2], [3])
    # The completions of the third generation were not saved, so the resumed run made them anew, for no credit.
    assert second.credits == [(2, 2.0)]


def test_metrics_go_to_the_trainers_logs(tmp_path, recorder):
    trainer = attach(build(tmp_path), recorder)
    train(trainer)

    def logged(name):
        return [entry[name] for entry in trainer.state.log_history if name in entry]

    assert logged("adept/epochs") == logged("adept/epochs_done") == [3.0, 1.0, 2.0, 3.0]
    assert logged("adept/reward") == [1.0, 2.0, 3.0, 4.0]
    assert logged("adept/arm_choices/3") == [1.0, 1.0, 1.0, 2.0]


def test_a_plan_that_cannot_hold_the_choices_is_refused(tmp_path, recorder):
    with pytest.raises(ValueError, match=r"num_iterations is 2, the arms are \(3, 1, 2\).*set num_iterations=3"):
        attach(build(tmp_path, num_iterations=2), recorder)


def test_a_pass_that_ends_within_an_optimiser_step_is_refused(tmp_path, recorder):
    with pytest.raises(ValueError, match=r"steps_per_generation is 1, .* is 2; .*multiple of the second"):
        attach(build(tmp_path, steps_per_generation=1), recorder)


def test_other_trainers_are_refused(tmp_path, recorder):
    args = SFTConfig(output_dir=str(tmp_path), report_to="none", use_cpu=True, bf16=False, max_steps=1)
    data = Dataset.from_dict({"text": ["a b c"]})
    trainer = SFTTrainer(model=model(), args=args, train_dataset=data, processing_class=tokenizer())
    with pytest.raises(ValueError, match=r"got SFTTrainer, .*GRPOTrainer and RLOOTrainer.*build one"):
        attach(trainer, recorder)


def test_a_second_scheduler_is_refused(tmp_path, recorder):
    with pytest.raises(ValueError, match="one is allowed"):
        attach(attach(build(tmp_path), recorder), recorder)


def test_unsupported_versions_are_refused(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "0.24.0")
    with pytest.raises(ImportError, match=r"trl 0.24.0 .*>=1.16,<1.17: pip install 'adept-rl\[trl\]'"):
        import_afresh("adept.integrations.trl")


def test_a_missing_framework_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "trl", None)
    with pytest.raises(ImportError, match=r"pip install 'adept-rl\[trl\]'"):
        import_afresh("adept.integrations.trl")


def monitored(trainer):
    """Return an oracle on a trainer's updates; the log-probability of each completion is worked out by itself."""
    generated, kind = [], type(trainer)

    class Seen(kind):
        def _generate_and_score_completions(self, inputs):
            generated.append(super()._generate_and_score_completions(inputs))
            return generated[-1]

    trainer.__class__ = Seen  # ADEPT calls the method of the class
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    parameters = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]

    def log_probs():
        rows = []
        for prompt, prompt_mask, completion, mask in zip(*(generated[-1][name] for name in names), strict=True):
            asked, answered = prompt[prompt_mask.bool()], completion[mask.bool()]
            with torch.no_grad():
                logits = trainer.model(torch.cat([asked, answered])[None]).logits[0, len(asked) - 1 : -1]
            chances = torch.log_softmax(logits.double() / trainer.temperature, 1)
            rows.append(chances.gather(1, answered[:, None]).sum())
        return torch.stack(rows)

    trainer.create_optimizer_and_scheduler(trainer.args.max_steps)
    return Oracle(
        trainer.adept.engine, trainer.optimizer, 1, parameters, log_probs, lambda: generated[-1]["advantages"]
    )


def adapter():
    return LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lora", [False, True])
def test_monitoring_changes_nothing_and_the_slope_is_that_of_the_completions(kind, lora, tmp_path, capsys):
    options = {"learning_rate": 0.05, "lora": lora, "max_completion_length": 8}
    plain = build(tmp_path, kind, **options)
    plain.train()
    trainer = attach(build(tmp_path, kind, **options), gains_every=1)
    oracle = monitored(trainer)
    capsys.readouterr()
    trainer.train()
    assert capsys.readouterr().out.endswith(f"adept: {trainer.adept.advice()}\n")
    oracle.assert_evaluations()
    assert [sorted(evaluation.gain_by_epoch) for evaluation in oracle.evaluations[1:]] == [[1, 2, 3]] * 3
    assert_equal_bit_for_bit((trainer.model.state_dict(), plain.model.state_dict()))
    logged = {name for entry in trainer.state.log_history for name in entry}
    assert {"adept/slope_z", "adept/update_gain", "adept/gain/2", "adept/epochs_done"} < logged
    # One copy at all times, one more for each pass but the last: of what is trained alone.
    trained = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    assert held_copies(trainer.adept.engine, trained) == 1 + PLANNED - 1
    if lora:
        whole = sum(parameter.numel() for parameter in trainer.model.parameters())
        assert sum(parameter.numel() for parameter in trained) < whole / 4


def test_completions_beyond_the_limit_are_left_out(tmp_path):
    trainer = attach(build(tmp_path), verbose=0, rows=3)
    trainer.train()
    assert trainer.adept.engine.feedback.rows == 3  # every third of 8


def rates_of(trainer):
    """Return a list that gets the learning rate of every step of the optimiser, also of those that go by."""
    rates, hooks = [], []

    class Monitor(TrainerCallback):
        def on_train_begin(self, args, state, control, optimizer=None, **_):
            inner = getattr(optimizer, "optimizer", optimizer)
            while hooks:
                hooks.pop().remove()
            hooks.append(
                inner.register_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
            )

    trainer.add_callback(Monitor())  # after ADEPT's own, so that it sees what the optimiser sees
    return rates


def test_the_lr_scale_multiplies_the_scheduled_rate(tmp_path):
    """The rate falls by a twelfth in every step of the plan, also in those that go by."""
    choices = [(2, 1.0), (1, 3.0), (3, 0.5), (2, 1.0)]
    trainer = attach(build(tmp_path, lr_scheduler_type="linear", warmup_steps=0), Scripted(choices), verbose=0)
    rates = rates_of(trainer)
    trainer.train()
    lr_scales = [lr_scale for _, lr_scale in choices for _ in range(PLANNED)]
    assert rates == pytest.approx([0.01 * (1 - step / 12) * lr_scale for step, lr_scale in enumerate(lr_scales)])
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.0)


class Breaks(TrainerCallback):
    """Ends the first training after its third step, that is after the first generation."""

    def __init__(self):
        self.broken = False

    def on_step_end(self, args, state, control, **_):
        if state.global_step == 3 and not self.broken:
            self.broken = True
            raise RuntimeError("the first training breaks off")


def test_the_lr_scale_of_a_training_that_broke_off_is_gone_in_the_next(tmp_path):
    trainer = attach(build(tmp_path, steps=6, lr_scheduler_type="constant"), Scripted([(3, 3.0)]), verbose=0)
    trainer.add_callback(Breaks())
    rates = rates_of(trainer)
    with pytest.raises(RuntimeError, match="the first training breaks off"):
        trainer.train()
    trainer.train()
    assert rates == pytest.approx([0.01 * 3] * (3 + 6))


@pytest.mark.parametrize("given", [None, "kl-rate"])
def test_the_first_update_after_a_resume_is_not_judged(given, tmp_path):
    """In one process, so that the parameters before the last update are still there."""
    saving = {"save_strategy": "steps", "save_steps": 3}
    trainer = attach(build(tmp_path, steps=9, **saving), given, verbose=0)
    judged, step = [], trainer.adept.engine.step

    def spied(*args, **kwargs):
        choice = step(*args, **kwargs)
        judged.append(trainer.adept.engine.feedback is not None)
        return choice

    trainer.adept.engine.step = spied
    trainer.train()
    trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert judged == [False, True, True, False, True]


def sharded(trainer, how):
    """Let a trainer look as under FSDP, or under a stage of DeepSpeed's ZeRO."""
    trainer.is_fsdp_enabled = how == "FSDP"
    trainer.is_deepspeed_enabled = how != "FSDP"
    own, plugin = trainer.accelerator, None if how == "FSDP" else SimpleNamespace(zero_stage=how)
    trainer.accelerator = SimpleNamespace(
        state=SimpleNamespace(deepspeed_plugin=plugin), num_processes=1, unwrap_model=own.unwrap_model
    )
    return trainer


@pytest.mark.parametrize("how", ["FSDP", 3])
@pytest.mark.parametrize("given", [None, "hindsight", [3, 1]], ids=str)
def test_parameters_that_are_sharded_are_not_judged(how, given, tmp_path):
    name = "FSDP" if how == "FSDP" else "DeepSpeed ZeRO-3"
    with pytest.raises(ValueError, match=rf"{name} .*no process holds them whole.*one process, DDP.*leave attach out"):
        attach(sharded(build(tmp_path), how), given)


def test_other_stages_of_deepspeed_leave_the_parameters_whole(tmp_path):
    attach(sharded(build(tmp_path), 2))
    with pytest.raises(ValueError, match="fp16 or DeepSpeed is on"):
        attach(sharded(build(tmp_path), 2), [3, 1])


def test_completions_that_cannot_be_judged_do_not_end_the_training(tmp_path, capsys):
    plain = build(tmp_path, steps=9)
    plain.train()
    trainer = attach(build(tmp_path, steps=9))

    def fails(*args, **kwargs):
        raise NotImplementedError("no log-probabilities")

    rows = trainer.adept._rows
    trainer.adept._rows = lambda generated: replace(rows(generated), log_probs=fails)
    with pytest.warns(RuntimeWarning, match="training goes on unchanged: NotImplementedError: no log-probabilities"):
        trainer.train()
    assert_equal_bit_for_bit((trainer.model.state_dict(), plain.model.state_dict()))
    assert "Evaluation stopped at update 1: NotImplementedError: no log-probabilities." in capsys.readouterr().out


def test_the_advice_is_not_printed_where_it_is_not_wanted(tmp_path, capsys):
    trainer = attach(build(tmp_path, steps=3), verbose=0)
    trainer.train()
    assert "adept:" not in capsys.readouterr().out
    assert "No update was judged" in str(trainer.adept.advice())


def test_control_resumes_in_mid_stream(tmp_path):
    """Step 7 is the first of the three planned ones of the third generation."""
    saving = {"save_strategy": "steps", "save_steps": 7, "lr_scheduler_type": "constant"}
    first = attach(build(tmp_path, steps=7, **saving), SHORTENING, verbose=0)
    train(first)
    lr_scale = first.adept.engine.settings.lr_scale
    assert lr_scale < 1.0
    second = attach(build(tmp_path, steps=9, **saving), SHORTENING, verbose=0)
    rates = rates_of(second)
    second.train(resume_from_checkpoint=str(tmp_path / "checkpoint-7"))
    assert rates == pytest.approx([0.01 * lr_scale] * 2)


def test_the_guard_ends_an_update(tmp_path):
    trainer = attach(build(tmp_path, steps=6), Scripted([(3, 1.0)], kl_stop=1e-12), verbose=0)
    assert [moved for moved, _ in train(trainer)] == [True, False, False] * 2
    assert trainer.adept.engine.update_metrics() == {"adept/epochs": 3.0, "adept/epochs_done": 1.0}


def test_completions_of_a_single_prompt_are_judged(tmp_path):
    """As TRL is configured by default: one prompt for each generation."""
    trainer = build(tmp_path, gradient_accumulation_steps=1, steps_per_generation=1, steps=9)
    attach(trainer, verbose=0, gains_every=1)
    train(trainer)
    assert trainer.adept.engine.feedback.slope.known
