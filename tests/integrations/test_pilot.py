"""The part of every integration that knows no framework, on a policy of two numbers."""

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from recording import Scripted

from adept import UCB, Fixed
from adept.controllers import KLRate
from adept.hindsight import time_groups
from adept.hindsight.advice import advise
from adept.hindsight.judge import ModuleWeights, explained_variance
from adept.integrations.pilot import Pilot, Rows, chooser, chosen_rows


class Policy(torch.nn.Module):
    """A softmax over two actions, whatever the state."""

    def __init__(self):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(2))

    def rows(self, seed):
        rng = np.random.default_rng(seed)
        actions = torch.as_tensor(rng.integers(0, 2, 64))
        advantages = np.where(actions.numpy() == 0, 1.0, -1.0) + rng.normal(size=64)
        deployed = torch.log_softmax(self.logits.detach(), 0)[actions].numpy()
        return Rows(lambda: torch.log_softmax(self.logits, 0)[actions], advantages, time_groups(8, 8), deployed)

    def update(self, pilot, epochs, step=0.01):
        for epoch in range(1, epochs + 1):
            with torch.no_grad():
                self.logits += torch.tensor([step, 0.0])
            if epoch < epochs:
                pilot.mark(epoch)
        pilot.finished(epochs)


def monitored(given=None, epochs=3, **options):
    policy, pilot = Policy(), Pilot(given, **options)
    pilot.attach(epochs, ModuleWeights(policy))
    return policy, pilot


def test_rows_are_spread_evenly():
    assert chosen_rows(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert chosen_rows(10, 4).tolist() == [0, 3, 6, 9]
    assert len(chosen_rows(1_000_000, 4096)) <= 4096


@pytest.mark.parametrize(("steps", "environments"), [(24, 4096), (32, 4096), (10_000, 8), (10_000, 2), (5, 4099)])
def test_every_environment_is_judged_alike(steps, environments):
    chosen = chosen_rows(steps * environments, 4096, environments)
    times = np.bincount(chosen % environments, minlength=environments)
    assert len(chosen) > 2048
    assert times.max() - times.min() <= 1


def test_explained_variance():
    assert explained_variance([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 1.0
    assert explained_variance([5.0, 5.0], [1.0, 3.0]) == 0.0  # a constant explains nothing, whatever it is
    assert explained_variance([3.0, 1.0], [1.0, 3.0]) == pytest.approx(1 - 4 / 1)
    assert explained_variance([3.0, 1.0], [2.0, 2.0]) is None


def test_advice_alone_never_chooses():
    policy, pilot = monitored(gains_every=1)
    for seed in range(12):
        choice = pilot.step(rows=policy.rows(seed) if pilot.wants_rows else None)
        assert (choice.epochs, choice.lr_scale) == (3, 1.0)
        policy.update(pilot, 3)
    assert not pilot.controls
    assert pilot.state_dict() == {}
    found = pilot.advice()
    assert found.whole.direction == "short"  # every step is in the right direction, and small
    assert 'attach(…, "hindsight")' in str(found)


def test_metrics_name_what_is_known():
    policy, pilot = monitored(gains_every=2)
    assert pilot.step().epochs == 3
    assert pilot.metrics() == {}
    policy.update(pilot, 3)
    assert pilot.update_metrics() == {"adept/epochs": 3.0, "adept/epochs_done": 3.0}
    pilot.step(rows=policy.rows(1))
    assert set(pilot.metrics()) == {"adept/slope_z", "adept/update_kl"}
    policy.update(pilot, 3)
    pilot.step(rows=policy.rows(2))
    assert {"adept/update_gain", "adept/gain_epoch_1", "adept/gain_epoch_2", "adept/gain_x2"} < set(pilot.metrics())
    assert "adept/gain_epoch_3" not in pilot.metrics(), "the last epoch is the update"
    assert all(map(math.isfinite, pilot.metrics().values()))


def test_a_scheduler_chooses_epochs_and_a_controller_lr_scales():
    policy, pilot = monitored([5, 1])
    assert [pilot.step(reward=reward).epochs for reward in (None, 1.0)] == [5, 1]
    assert pilot.choice.lr_scale == 1.0
    assert pilot.metrics()["adept/share/5"] == 0.5
    policy, pilot = monitored("hindsight")
    lr_scales = []
    for seed in range(10):
        lr_scales.append(pilot.step(rows=policy.rows(seed) if pilot.wants_rows else None).lr_scale)
        policy.update(pilot, 3)
    assert lr_scales[:1] == [1.0]
    assert lr_scales[-1] > 1.5, "steps in the right direction get longer"
    assert pilot.metrics()["adept/lr_scale"] == lr_scales[-1]
    assert pilot.kl_stop == 0.1


def test_what_several_learners_saw_is_pooled():
    scripted = Scripted([(1, 1.0)])
    policy, pilot = monitored(scripted, pool=lambda evidence: ("pooled", evidence))
    scripted.step = lambda evidence: scripted.evidence.append(evidence) or scripted.choices[0]
    pilot.step()
    policy.update(pilot, 1)
    pilot.step(rows=replace(policy.rows(0), explained_variance=0.5))
    first, second = scripted.evidence
    assert first == ("pooled", None), "a learner that knows nothing is asked too"
    assert second[0] == "pooled"
    assert second[1].slope_z == pilot.verdict.slope.z
    assert second[1].explained_variance == 0.5


def test_states_are_the_choosers():
    policy, pilot = monitored("hindsight")
    for seed in range(5):
        pilot.step(rows=policy.rows(seed) if pilot.wants_rows else None)
        policy.update(pilot, 3)
    twin = monitored("hindsight")[1]
    twin.load_state_dict(pilot.state_dict(), forget="delete it")
    assert twin.step().lr_scale == pilot.choice.lr_scale, "the first update after a load is not judged"
    pilot.load_state_dict(pilot.state_dict(), forget="delete it")
    assert not pilot.wants_rows, "nor is the step from one set of parameters to a loaded one an update"
    pilot.load_state_dict({}, forget="delete it")  # of a run that was only judged
    with pytest.raises(ValueError, match="or delete it to start it afresh"):
        monitored("hindsight", epochs=4)[1].load_state_dict(pilot.state_dict(), forget="delete it")


DATA = [[3, 1, 2], "round-robin", "kl-rate", {"name": "thompson", "arms": [3, 1, 2]}, {"name": "ucb", "scale": None}]


@pytest.mark.parametrize("given", DATA, ids=str)
def test_a_state_is_kept_for_the_first_meeting_with_the_host(given):
    """Tianshou tells its epochs with the first update, after a checkpoint was loaded."""
    pilot = monitored(given, epochs=4)[1]
    for reward in (None, 1.0, 3.0, 2.0, 5.0):
        pilot.step(reward=reward)
    twin = Pilot(given)
    assert twin.waits, "a chooser given as data is built once the host's epochs are known"
    twin.attach(4, ModuleWeights(Policy()))
    assert not twin.waits
    twin.load_state_dict(pilot.state_dict(), forget="delete it")
    assert twin.state_dict() == pilot.state_dict()
    for given in (None, UCB([3, 1]), KLRate(3)):
        assert not Pilot(given).waits


@pytest.mark.parametrize(
    "given", [[3, 1, 2], {"name": "ucb", "arms": [3, 1, 2]}, {"name": "kl-rate", "epochs": 3}], ids=str
)
def test_a_chooser_that_does_not_depend_on_the_hosts_epochs_outlives_a_change_of_them(given):
    policy, pilot = monitored(given, epochs=4)
    for reward in (None, 1.0, 3.0):
        pilot.step(reward=reward)
    state = pilot.state_dict()
    early = Pilot(given)
    early.load_state_dict(state, forget="delete it")  # by a host that does not ask whether it should wait
    for each in (pilot, early):
        each.attach(5, ModuleWeights(policy))
        assert each.state_dict() == state
    assert monitored("ucb", epochs=4)[1].chooser.arms == (4, 2, 1)
    depends = monitored("ucb", epochs=4)[1]
    depends.attach(6, ModuleWeights(policy))
    assert depends.chooser.arms == (6, 3, 1)


def test_another_run_starts_from_nothing():
    for given in (None, "kl-rate", [3, 1]):
        policy, pilot = monitored(given)
        for seed in range(3):
            pilot.step(reward=float(seed) if pilot.wants_reward else None, rows=policy.rows(seed))
            policy.update(pilot, pilot.choice.epochs)
        pilot.restart()
        pilot.attach(3, ModuleWeights(policy))
        assert pilot.state_dict() == monitored(given)[1].state_dict()
        assert not pilot.wants_rows
        assert pilot.metrics() == pilot.update_metrics() == {} or given is not None
        assert pilot.advice().whole.updates == 0
        assert pilot.step(reward=1.0).epochs == 3, "nobody is credited"


def test_an_object_that_chose_for_another_run_is_refused():
    pilot = monitored(UCB([3, 1]))[1]
    pilot.restart()  # it chose nothing yet
    pilot.step(reward=None)
    with pytest.raises(ValueError, match=r"UCB\(\[3, 1\].*has chosen for another model.*a new one for each model"):
        pilot.restart()
    pilot.restart(loads=True)  # the state of the other run is about to take the place of this one's


class Broken(RuntimeError):
    """Of a policy that cannot be judged."""


def fails(error, policy, seed=0):
    def raises():
        with torch.no_grad():
            policy.logits += 7.0
        torch.rand(3)
        policy.eval()
        raise error

    return replace(policy.rows(seed), log_probs=raises)


def test_an_error_while_judging_ends_the_judging_and_not_the_training():
    policy, pilot = monitored(gains_every=1)
    for seed in range(2):
        pilot.step(rows=policy.rows(seed) if pilot.wants_rows else None)
        policy.update(pilot, 3)
    before, generator = policy.logits.detach().clone(), torch.random.get_rng_state()
    with pytest.warns(RuntimeWarning, match="stopped judging.*training goes on.*Broken: no such method"):
        assert pilot.step(rows=fails(Broken("no such method"), policy)).epochs == 3
    assert torch.equal(policy.logits, before), "the parameters are back"
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert policy.training
    assert pilot.verdict is None
    assert pilot.metrics() == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(3):
            policy.update(pilot, 3)
            pilot.attach(3, ModuleWeights(policy))  # as hosts do that tell their epochs with every update
            assert not pilot.wants_rows
            assert pilot.rollout(lambda: 1 / 0) is None, "nobody looks at the rollout any more"
            pilot.step(rows=policy.rows(seed))
            assert pilot.verdict is None
    assert str(pilot.advice()) == (
        "Only 1 update was judged: too few to say anything. Judging stopped at update 2: Broken: no such method."
    )
    pilot.restart()
    pilot.attach(3, ModuleWeights(policy))
    assert "stopped" not in str(pilot.advice()), "the next run is judged again"
    pilot.step()
    assert pilot.wants_rows


def test_errors_of_every_part_of_judging_are_kept_from_the_host(monkeypatch):
    policy, pilot = monitored(gains_every=1)
    pilot.step()
    with pytest.warns(RuntimeWarning, match="division by zero"):
        assert pilot.rollout(lambda: 1 / 0) is None
    policy, pilot = monitored(gains_every=1)
    pilot.step()
    monkeypatch.setattr(ModuleWeights, "take", lambda self: 1 / 0)
    with pytest.warns(RuntimeWarning, match="division by zero"):
        policy.update(pilot, 3)
    policy, pilot = monitored()
    with pytest.warns(RuntimeWarning, match="division by zero"):
        pilot.step()


def test_memory_that_ran_out_for_copies_is_given_back():
    policy, pilot = monitored()
    pilot.step()
    with pytest.warns(RuntimeWarning, match="MemoryError"):
        pilot.step(rows=fails(MemoryError(), policy))
    assert pilot._judge is None
    assert str(pilot.advice()).endswith("Judging stopped at update 1: MemoryError.")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_is_meant_for_the_host_reaches_it(error):
    policy, pilot = monitored()
    pilot.step()
    with pytest.raises(error):
        pilot.step(rows=fails(error(), policy))
    assert pilot.wants_rows


def test_with_a_controller_errors_raise():
    policy, pilot = monitored("hindsight")
    pilot.step()
    with pytest.raises(Broken):
        pilot.step(rows=fails(Broken(), policy))
    with pytest.raises(ZeroDivisionError):
        pilot.rollout(lambda: 1 / 0)


def test_a_bandit_goes_on_without_being_judged():
    policy, pilot = monitored([3, 1])
    pilot.step(reward=None)
    with pytest.warns(RuntimeWarning, match="training goes on"):
        pilot.step(reward=1.0, rows=fails(Broken(), policy))
    assert pilot.chooser.state_dict() != monitored([3, 1])[1].state_dict()
    assert not pilot.wants_rows


def test_an_update_that_did_not_move_says_nothing():
    policy, pilot = monitored({"name": "hindsight", "optimize_for": "compute"})
    pilot.step()
    pilot.finished(3)
    pilot.step(rows=policy.rows(0))  # nothing was trained in between
    assert pilot.verdict is None
    assert "slope_z" not in pilot._rows[-1]
    assert pilot.chooser.state_dict()["rule"]["saved"] == 0


def test_a_pilot_can_be_pickled():
    assert pickle.loads(pickle.dumps(Pilot("hindsight"))).chooser.epochs == 1


def test_the_rollout_is_looked_at_where_it_is_judged_or_guarded():
    policy, pilot = monitored()
    assert pilot.rollout(lambda: policy.rows(0)) is None, "there is no update before the first"
    pilot.step()
    assert pilot.rollout(lambda: policy.rows(0)) is not None
    guarded = monitored("hindsight")[1]
    assert guarded.rollout(lambda: policy.rows(0)) is not None, "its guard compares with it"


@pytest.mark.parametrize(
    ("given", "epochs", "shown"),
    [
        (None, 10, "None"),
        ("ucb", 10, "UCB([10, 5, 1], exploration=1.0, window=10, scale='auto')"),
        ("round-robin", 2, "RoundRobin([2, 1])"),
        ("thompson", 1, "GaussianThompson([1], step_size=1.0, window=50, scale='auto')"),
        ({"name": "ucb", "scale": None}, 4, "UCB([4, 2, 1], exploration=5.0, window=10, scale=None)"),
        ({"name": "kl-rate", "target": 0.05}, 4, "KLRate(4, target=0.05, factor=1.5, band=2.0, furthest=32.0)"),
        ({"name": "kl-rate", "epochs": 2}, 4, "KLRate(2, target=0.01, factor=1.5, band=2.0, furthest=32.0)"),
        (Fixed(3), 10, "Fixed(3)"),
        (KLRate(7), 10, "KLRate(7, target=0.01, factor=1.5, band=2.0, furthest=32.0)"),
    ],
)
def test_choosers_from_data(given, epochs, shown):
    assert repr(chooser(given, epochs=epochs)) == shown


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("usb", "unknown scheduler or controller 'usb', .*did you mean 'ucb'"),
        ({"name": "hindsight", "dare": "samples"}, "unknown option of controller 'hindsight': 'dare'"),
        (UCB(["a", "b"]), "a number of epochs must be a whole number"),
        (7, "a scheduler is a Scheduler, a name"),
    ],
)
def test_what_cannot_choose(given, message):
    with pytest.raises(ValueError, match=message):
        Pilot(given)


@pytest.mark.parametrize("options", [{"rows": 0}, {"gains_every": -1}, {"rows": 1.5}])
def test_options_are_checked(options):
    with pytest.raises(ValueError, match="must be a whole number"):
        Pilot(**options)


def test_advice_speaks_of_the_host(monkeypatch):
    found = advise({})
    words = "Try `--scheduler hindsight`.", "Try 2 epochs, or `--scheduler hindsight --optimize-for compute`."
    monkeypatch.setattr("adept.integrations.pilot.advise", lambda columns: replace(found, sentences=words))
    assert Pilot(call='attach(agent, "hindsight")').advice().sentences == (
        'Try `attach(agent, "hindsight")`.',
        'Try 2 epochs, or `attach(agent, {"name": "hindsight", "optimize_for": "compute"})`.',
    )


def test_the_command_line_is_not_in_any_advice():
    """Gains that saturate after the second of four epochs, and steps that stop short: both kinds of sentences."""
    pilot = Pilot()
    update = {"epochs": 4, "epochs_done": 4, "update_gain": 0.1}
    pilot._rows = [
        update
        | {"slope_z": 2 + 0.1 * (n % 2), "gain/x2": 0.2 + 0.01 * (n % 3)}
        | {"gain/1": 0.05 + 0.001 * (n % 2), "gain/2": 0.1 + 0.001 * (n % 3), "gain/3": 0.1 - 0.001 * (n % 2)}
        for n in range(30)
    ]
    said = str(pilot.advice())
    assert "stop short" in said
    assert "Epochs 3 to 4 add" in said
    assert "--" not in said
