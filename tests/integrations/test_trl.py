from types import SimpleNamespace

import pytest

pytest.importorskip("trl", reason="needs the environment of trl: make test-integrations")

import torch
from datasets import Dataset
from hosts.trl import PLANNED, TRL, build, model, tokenizer
from recording import SHORTENING, Recorder, Scripted
from transformers import TrainerCallback
from trl import SFTConfig, SFTTrainer

from adept.integrations.trl import attach

pytestmark = pytest.mark.integration


def train(trainer, resume=None):
    """Train; return for each planned step whether the weights moved."""
    steps, weights = [], list(trainer.model.parameters())

    class Monitor(TrainerCallback):
        def on_step_begin(self, args, state, control, **_):
            self.before = [weight.detach().clone() for weight in weights]

        def on_step_end(self, args, state, control, **_):
            steps.append(any(not torch.equal(old, new) for old, new in zip(self.before, weights, strict=True)))

    trainer.add_callback(Monitor())
    trainer.train(resume_from_checkpoint=resume)
    return steps


def test_the_other_steps_of_the_plan_move_nothing(tmp_path):
    """Each generation plans three optimiser steps; of them the first K move the weights."""
    trainer = attach(build(tmp_path), Recorder([3, 1, 2]))
    expected = [position < epochs for epochs in (3, 1, 2, 3) for position in range(PLANNED)]
    assert train(trainer) == expected
    assert trainer.reward_funcs[0].generations == 4


def test_what_is_copied_is_what_is_trained(tmp_path):
    run = TRL(tmp_path, "lora", None, gains_every=1)
    run.run(2)
    assert run.held == [3, 3]
    copied = sum(each.numel() for _, each in run.engine._evaluator.start)
    assert copied == sum(each.numel() for each in run.actor)
    assert copied < sum(each.numel() for each in run.trainer.model.parameters()) / 4


def test_a_resume_within_a_generation_keeps_its_choice(tmp_path):
    """Step 7 is the second of the three planned ones of the third generation, for which 2 passes were chosen."""
    first, second = Recorder([3, 1, 2]), Recorder([3, 1, 2])
    saving = {"save_strategy": "steps", "save_steps": 7}
    train(attach(build(tmp_path, steps=7, **saving), first))
    steps = train(attach(build(tmp_path, **saving), second), resume=str(tmp_path / "checkpoint-7"))
    assert steps == [True, False, True, True, True]
    assert (first.chosen, second.chosen) == ([3, 1, 2], [3])
    # The completions of the third generation were not saved, so the resumed run made them anew, for no credit.
    assert second.credits == [(2, 2.0)]


def test_a_plan_that_cannot_hold_the_choices_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"num_iterations is 2, the arms are \(3, 1, 2\).*set num_iterations=3"):
        attach(build(tmp_path, num_iterations=2), [3, 1, 2])


def test_a_pass_that_ends_within_an_optimiser_step_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"steps_per_generation is 1, .* is 2; .*multiple of the second"):
        attach(build(tmp_path, steps_per_generation=1), [3, 1, 2])


def test_other_trainers_are_refused(tmp_path):
    args = SFTConfig(output_dir=str(tmp_path), report_to="none", use_cpu=True, bf16=False, max_steps=1)
    data = Dataset.from_dict({"text": ["a b c"]})
    trainer = SFTTrainer(model=model(), args=args, train_dataset=data, processing_class=tokenizer())
    with pytest.raises(ValueError, match=r"got SFTTrainer, .*GRPOTrainer and RLOOTrainer.*build one"):
        attach(trainer)


class Breaks(TrainerCallback):
    """Ends the first training after its third step, that is after the first generation."""

    broken = False

    def on_step_end(self, args, state, control, **_):
        if state.global_step == 3 and not self.broken:
            self.broken = True
            raise RuntimeError("the first training breaks off")


def test_the_lr_scale_of_a_training_that_broke_off_is_gone_in_the_next(tmp_path):
    run = TRL(tmp_path, "grpo", Scripted([(3, 3.0)]))
    run.trainer.add_callback(Breaks())
    with pytest.raises(RuntimeError, match="the first training breaks off"):
        run.run(2)
    run.run(2)
    assert run.rates == [pytest.approx([0.01 * 3] * 3)] * 3


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


def test_control_resumes_in_mid_stream(tmp_path):
    """Step 7 is the first of the three planned ones of the third generation."""
    saving = {"save_strategy": "steps", "save_steps": 7}
    first = attach(build(tmp_path, steps=7, **saving), SHORTENING, verbose=0)
    first.train()
    lr_scale = first.adept.engine.settings.lr_scale
    assert lr_scale < 1.0
    second = TRL(tmp_path, "grpo", SHORTENING)
    second.rates.append([])
    second.trainer.args.max_steps = 9
    second.trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-7"))
    assert second.rates == [pytest.approx([0.01 * lr_scale] * 2)]


def test_completions_of_a_single_prompt_are_judged(tmp_path):
    """As TRL is configured by default: one prompt for each generation."""
    trainer = build(tmp_path, gradient_accumulation_steps=1, steps_per_generation=1, steps=9)
    attach(trainer, verbose=0, gains_every=1)
    train(trainer)
    assert trainer.adept.engine.feedback.slope.known
