import sys
import warnings

import pytest

pytest.importorskip("torchrl", reason="needs the environment of torchrl: make test-integrations")

import torch
from recording import (
    CRITIC_ALONE,
    SHORTENING,
    Counting,
    Oracle,
    Recorder,
    Scripted,
    assert_equal_bit_for_bit,
    assert_only_the_critic_moves,
    assert_same_state,
    counting_means,
    held_copies,
    import_afresh,
)
from tensordict import TensorDict
from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
from torchrl.checkpoint import Checkpoint
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import GymWrapper
from torchrl.modules import ValueOperator
from torchrl.objectives import A2CLoss, ClipPPOLoss
from torchrl.objectives.value import GAE
from torchrl.trainers import LRSchedulerHook
from torchrl.trainers.algorithms.a2c import A2CTrainer
from torchrl.trainers.algorithms.ppo import PPOTrainer

from adept import GaussianThompson
from adept.integrations.torchrl import attach

pytestmark = pytest.mark.integration

STEPS, BATCH, CONFIGURED = 16, 4, 5
MINIBATCHES = STEPS // BATCH


class Lines:
    """A logger that keeps what it is given."""

    def __init__(self):
        self.values = {}

    def log_scalar(self, name, value, step=None):
        self.values.setdefault(name, []).append(float(value))


def networks(*, norm=False):
    logits = TensorDictModule(torch.nn.Linear(3, 2), in_keys=["observation"], out_keys=["logits"])
    sample = ProbabilisticTensorDictModule(
        in_keys=["logits"],
        out_keys=["action"],
        distribution_class=torch.distributions.OneHotCategorical,
        return_log_prob=True,
    )
    value = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)) if norm else torch.nn.Linear(3, 1)
    return ProbabilisticTensorDictSequential(logits, sample), ValueOperator(value, ["observation"])


def build(updates, *, kind=PPOTrainer, loss=ClipPPOLoss, norm=False, **options):
    torch.manual_seed(1)
    torch.set_num_threads(1)
    actor, critic = networks(norm=norm)
    loss_module = loss(actor, critic)
    if norm:
        options["gae"] = GAE(gamma=0.0, lmbda=0.95, value_network=loss_module.critic_network, deactivate_vmap=True)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(
            collector=Collector(GymWrapper(Counting()), actor, frames_per_batch=STEPS, total_frames=updates * STEPS),
            total_frames=updates * STEPS,
            frame_skip=1,
            optim_steps_per_batch=None,
            loss_module=loss_module,
            optimizer=optimizer,
            num_epochs=CONFIGURED,
            replay_buffer=TensorDictReplayBuffer(
                storage=LazyTensorStorage(STEPS), sampler=SamplerWithoutReplacement(), batch_size=BATCH
            ),
            **({} if norm else {"gamma": 0.0}),
            progress_bar=False,
            enable_logging=False,
            log_interval=0,
            **options,
        )


def run(trainer):
    """Train; return of each batch the gradient steps and the learning rates."""
    done = []
    step, optim_steps = trainer.optimizer.step, trainer.optim_steps

    def counted_step(*args, **kwargs):
        done[-1][0] += 1
        done[-1][1].add(trainer.optimizer.param_groups[0]["lr"])
        return step(*args, **kwargs)

    def counted_optim_steps(batch):
        done.append([0, set()])
        optim_steps(batch)

    trainer.optimizer.step, trainer.optim_steps = counted_step, counted_optim_steps
    trainer.train()
    return done


def test_epochs_that_run_are_the_choices(recorder):
    trainer = attach(build(5), recorder)
    done = run(trainer)
    assert recorder.chosen == [3, 1, 2, 3, 1]
    assert [steps for steps, _ in done] == [MINIBATCHES * epochs for epochs in (3, 1, 2, 3, 1)]
    assert trainer.num_epochs == CONFIGURED


def test_the_previous_choice_gets_the_mean_return(recorder):
    run(attach(build(5), recorder))
    recorder.assert_credits(counting_means(5, STEPS))


def test_padding_is_left_out_of_the_mean(recorder):
    """A mask that calls the first half of each batch valid leaves the means of the halves."""
    trainer = build(3)

    def halve(batch):
        mask = torch.arange(STEPS) < STEPS // 2
        return batch.set(("collector", "mask"), mask)

    trainer.register_op("batch_process", halve)
    trainer.total_frames = 3 * STEPS // 2
    run(attach(trainer, recorder))
    recorder.assert_credits([STEPS * batch + (STEPS // 2 + 1) / 2 for batch in range(3)])


@pytest.mark.parametrize("unified", [False, True])
def test_state_survives_save_and_load(unified, tmp_path):
    def trainer(updates, scheduler):
        options = {"checkpoint": Checkpoint()} if unified else {}
        built = build(updates, save_trainer_file=tmp_path / "trainer", **options)
        return attach(built, scheduler)

    first, second = GaussianThompson([3, 1, 2], seed=5), GaussianThompson([3, 1, 2], seed=6)
    run(trainer(2, first))  # saved at its end
    loaded = trainer(3, second)
    loaded.load_from_file(tmp_path / "trainer")
    assert second.state_dict() == first.state_dict()
    assert loaded.collected_frames == 2 * STEPS
    run(loaded)
    first.step(counting_means(1, STEPS)[0])
    assert_same_state(second, first)


@pytest.mark.parametrize("unified", [False, True])
@pytest.mark.parametrize("scheduler", [None, "ucb"])
def test_a_checkpoint_of_a_trainer_without_adept_is_loaded(unified, scheduler, tmp_path):
    """Also in a live process, where the way to the loaded parameters is no update."""

    def trainer(updates, name):
        options = {"checkpoint": Checkpoint()} if unified else {}
        return build(updates, save_trainer_file=tmp_path / name, **options)

    plain = trainer(2, "older")
    run(plain)
    live = attach(trainer(3, "other"), scheduler, verbose=0)
    live.optim_steps(next(iter(live.collector)))
    assert live.adept.engine.wants_rows
    live.load_from_file(tmp_path / "older")
    assert not live.adept.engine.wants_rows
    assert_equal_bit_for_bit((live.loss_module.state_dict(), plain.loss_module.state_dict()))
    live.save_trainer(force_save=True)
    again = attach(trainer(3, "again"), scheduler, verbose=0)
    again.load_from_file(tmp_path / "other")
    assert again.adept.engine.state_dict() == live.adept.engine.state_dict()


@pytest.mark.parametrize("unified", [False, True])
def test_a_trainer_without_adept_loads_a_checkpoint_made_with_it(unified, tmp_path):
    options = {"checkpoint": Checkpoint()} if unified else {}
    monitoring = attach(build(2, save_trainer_file=tmp_path / "trainer", **options), verbose=0)
    run(monitoring)
    options = {"checkpoint": Checkpoint()} if unified else {}
    plain = build(3, **options).load_from_file(tmp_path / "trainer")
    assert_equal_bit_for_bit((plain.loss_module.state_dict(), monitoring.loss_module.state_dict()))


def test_the_state_of_other_arms_is_refused(recorder):
    trainer, other = attach(build(1), recorder), attach(build(1), Recorder([3, 1]))
    with pytest.raises(ValueError, match=r"arms .*'3', '1', '2'.*drop 'adept'"):
        other.load_state_dict(trainer.state_dict())


@pytest.mark.parametrize(("interval", "steps"), [("batch", 1), ("optim", CONFIGURED * MINIBATCHES)])
def test_the_learning_rate_schedule_runs_as_without_choices(interval, steps, recorder):
    """With the optimiser, the configured epochs make 20 steps a batch; with the batch, one."""
    trainer = build(5)
    schedule = torch.optim.lr_scheduler.LambdaLR(trainer.optimizer, lambda step: 0.97**step)
    LRSchedulerHook(schedule, interval=interval).register(trainer)
    for number, (_, rates) in enumerate(run(attach(trainer, recorder))):
        assert list(rates) == pytest.approx([0.01 * 0.97 ** (steps * number)])


def test_metrics_go_to_the_trainers_logger(recorder):
    logger = Lines()
    run(attach(build(3, logger=logger), recorder))
    assert logger.values["adept/epochs"] == logger.values["adept/epochs_done"] == [3.0, 1.0, 2.0]
    assert logger.values["adept/reward"] == pytest.approx(counting_means(3, STEPS))
    assert logger.values["adept/arm_choices/3"] == [1.0, 1.0, 1.0]


def test_other_losses_are_refused(recorder):
    with pytest.raises(ValueError, match=r"got A2CTrainer with A2CLoss, .*PPOLoss is needed: build a PPOTrainer"):
        attach(build(1, kind=A2CTrainer, loss=A2CLoss), recorder)


def test_a_trainer_without_returns_is_refused(recorder):
    with pytest.raises(ValueError, match=r"no whole batch .*ValueEstimatorHook.*build PPOTrainer so"):
        attach(build(1, add_gae=False), recorder)


def test_a_trainer_without_an_optimizer_is_refused():
    trainer = build(1)
    trainer.optimizer = None
    with pytest.raises(ValueError, match=r"no optimizer .*Trainer\(optimizer=…\)"):
        attach(trainer)


def test_a_second_scheduler_is_refused(recorder):
    with pytest.raises(ValueError, match="one is allowed"):
        attach(attach(build(1), recorder), recorder)


def test_unsupported_versions_are_refused(monkeypatch):
    monkeypatch.setattr("importlib.metadata.version", lambda package: "0.9.2")
    with pytest.raises(ImportError, match=r"torchrl 0.9.2 .*>=0.14,<0.15: pip install 'adept-rl\[torchrl\]'"):
        import_afresh("adept.integrations.torchrl")


def test_a_missing_framework_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchrl", None)
    with pytest.raises(ImportError, match=r"pip install 'adept-rl\[torchrl\]'"):
        import_afresh("adept.integrations.torchrl")


def monitored(trainer):
    """Return an oracle on a trainer's updates: with a discount of 0 an advantage is a reward less a value."""
    batches, optim_steps, loss = [], trainer.optim_steps, trainer.loss_module

    def seen(batch):
        batches.append(batch)
        optim_steps(batch)

    trainer.optim_steps = seen
    actor, critic = _leaves(loss.actor_network_params), _leaves(loss.critic_network_params)

    def log_probs():
        weight, bias = actor
        logits = batches[-1]["observation"].reshape(-1, 3) @ weight.T + bias
        return (torch.log_softmax(logits, 1) * batches[-1]["action"].reshape(-1, 2)).sum(1)

    def advantages():
        return batches[-1]["next", "reward"].reshape(-1) - values().reshape(-1)

    def values():
        weight, bias = critic
        return batches[-1]["observation"].reshape(-1, 3) @ weight.T + bias

    lag = critic, values, lambda: batches[-1]["next", "reward"]
    return Oracle(trainer.adept.engine, trainer.optimizer, MINIBATCHES, actor, log_probs, advantages, lag)


def _leaves(params):
    """Return the weight and the bias of the one linear layer of a network."""
    found = dict(params.flatten_keys(".").items())
    return [next(value for name, value in found.items() if name.endswith(end)) for end in ("weight", "bias")]


def test_monitoring_changes_nothing_and_the_slope_is_that_of_the_batch(capsys):
    plain = build(4)
    plain.train()
    logger = Lines()
    trainer = attach(build(4, logger=logger), gains_every=1)
    oracle = monitored(trainer)
    capsys.readouterr()
    trainer.train()
    assert capsys.readouterr().out.endswith(f"adept: {trainer.adept.advice()}\n")
    oracle.assert_evaluations()
    assert [sorted(evaluation.gain_by_epoch) for evaluation in oracle.evaluations[1:]] == [[1, 2, 4, 5]] * 3
    assert_equal_bit_for_bit((trainer.loss_module.state_dict(), plain.loss_module.state_dict()))
    assert_equal_bit_for_bit((trainer.optimizer.state_dict(), plain.optimizer.state_dict()))
    names = {"adept/slope_z", "adept/update_gain", "adept/gain/4", "adept/epochs", "adept/epochs_done"}
    assert names < logger.values.keys()


def test_memory_is_one_copy_and_one_for_each_epoch_that_is_judged(capsys):
    trainer = attach(build(3), verbose=0, gains_every=2)
    held, optim_steps = [], trainer.optim_steps

    def measured(batch):
        optim_steps(batch)
        held.append(held_copies(trainer.adept.engine, trainer.loss_module.parameters()))

    trainer.optim_steps = measured
    trainer.train()
    assert held == [1, 1 + 3, 1]
    assert "adept" not in capsys.readouterr().out


@pytest.mark.parametrize(("interval", "steps"), [("batch", 1), ("optim", CONFIGURED * MINIBATCHES)])
def test_the_lr_scale_multiplies_the_scheduled_rate(interval, steps):
    choices = [(2, 1.0), (1, 3.0), (3, 0.5), (2, 1.0)]
    trainer = build(4)
    schedule = torch.optim.lr_scheduler.LambdaLR(trainer.optimizer, lambda step: 0.97**step)
    LRSchedulerHook(schedule, interval=interval).register(trainer)
    oracle = monitored(attach(trainer, Scripted(choices), verbose=0))
    trainer.train()
    oracle.assert_rates(choices, lambda update: 0.01 * 0.97 ** (steps * update))
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.97 ** (steps * 4))


def test_a_lr_scale_of_its_own_moves_the_critic_alone():
    trainer = attach(build(1), Scripted(CRITIC_ALONE), verbose=0)
    loss = trainer.loss_module
    assert_only_the_critic_moves(trainer.train, _leaves(loss.actor_network_params), _leaves(loss.critic_network_params))


def test_control_resumes_through_save_and_load(tmp_path):
    first = attach(build(3, save_trainer_file=tmp_path / "trainer"), SHORTENING, verbose=0)
    first.train()
    lr_scale = first.adept.engine.settings.lr_scale
    assert lr_scale < 1.0
    second = attach(build(4, save_trainer_file=tmp_path / "other"), SHORTENING, verbose=0)
    oracle = monitored(second)
    second.load_from_file(tmp_path / "trainer")
    second.train()
    oracle.assert_rates([(CONFIGURED, lr_scale)], lambda update: 0.01)


@pytest.mark.parametrize("interval", ["batch", "optim"])
def test_the_guard_ends_an_update(interval):
    trainer = build(2)
    schedule = torch.optim.lr_scheduler.LambdaLR(trainer.optimizer, lambda step: 0.97**step)
    LRSchedulerHook(schedule, interval=interval).register(trainer)
    attach(trainer, Scripted([(3, 1.0)], kl_stop=1e-9), verbose=0)
    assert [steps for steps, _ in run(trainer)] == [MINIBATCHES, MINIBATCHES]
    assert trainer.adept.engine.update_metrics() == {"adept/epochs": 3.0, "adept/epochs_done": 1.0}
    made = 2 if interval == "batch" else 2 * CONFIGURED * MINIBATCHES
    assert trainer.optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.97**made)


def test_the_extra_pass_of_the_critic_moves_no_buffer():
    plain = build(3, norm=True)
    plain.train()
    monitored = attach(build(3, norm=True), verbose=0)
    monitored.train()
    state = monitored.loss_module.state_dict()
    assert any("running_mean" in name for name in state)
    assert_equal_bit_for_bit((state, plain.loss_module.state_dict()))


def test_several_agents_have_a_row_each():
    trainer = attach(build(1), "hindsight", verbose=0)
    agents = trainer._modules["value_estimator"].value_estimator.tensor_keys
    batch = TensorDict({"observation": torch.randn(STEPS, 2, 3)}, [STEPS])
    for name, value in ((agents.advantage, 1), (agents.value, 1), (agents.value_target, 1)):
        batch.set(name, torch.randn(STEPS, 2, value))
    trainer.loss_module.actor_network(batch)
    rows = trainer.adept._rows(batch)
    assert len(rows.groups) == rows.advantages.numel() == rows.deployed.numel() == 2 * STEPS
    assert rows.divergence() == pytest.approx(0, abs=1e-9)
    assert list(rows.groups[:4]) == [0, 0, 1, 1]
