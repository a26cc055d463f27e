"""The engine by itself, on a policy of two numbers."""

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from adept import UCB
from adept.engine import Engine, marked_epochs
from adept.hindsight import Estimate, Feedback, time_groups
from adept.hindsight.evaluation import Rows, explained_variance
from adept.hindsight.weights import ModuleWeights
from adept.rules import KLRate
from tests.integrations.recording import Scripted


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

    def update(self, engine, epochs, step=0.01):
        for epoch in range(1, epochs + 1):
            with torch.no_grad():
                self.logits += torch.tensor([step, 0.0])
            if epoch < epochs:
                engine.mark(epoch)
        engine.finished(epochs)

    def run(self, engine, updates):
        """Make so many updates; return their settings."""
        made = []
        for seed in range(updates):
            made.append(engine.begin(rows=self.rows(seed) if engine.wants_rows else None))
            self.update(engine, made[-1].epochs)
        return made


def monitored(given=None, epochs=3, **options):
    policy, engine = Policy(), Engine(given, **options)
    engine.attach(epochs, ModuleWeights(policy))
    return policy, engine


def test_rows_are_drawn_anew_for_every_update_up_to_a_limit():
    engine = monitored(rows=4)[1]
    assert engine.choose_rows(4).tolist() == [0, 1, 2, 3]
    first = engine.choose_rows(1000)
    assert len(set(first)) == 4
    assert first.tolist() == sorted(first)
    assert engine.choose_rows(1000).tolist() == first.tolist()
    assert len(engine.choose_rows(1000, 9)) == 9
    engine.begin()
    assert engine.choose_rows(1000).tolist() != first.tolist()
    other = monitored(rows=4, seed=1)[1]
    assert other.choose_rows(1000).tolist() != first.tolist()


def test_every_row_is_chosen_alike():
    engine = monitored(rows=8)[1]
    times = np.zeros(32)
    for _ in range(2000):
        times[engine.choose_rows(32)] += 1
        engine.updates += 1
    # Each row is chosen with probability 1/4: 500 times, with a standard deviation of √(2000·¼·¾) = 19.4.
    assert np.abs(times - 500).max() < 5 * 19.4


@pytest.mark.parametrize(
    ("arms", "marks"), [((1,), (1,)), ((10,), (1, 2, 4, 8, 10)), ((4, 2, 1), (1, 2, 4)), ((5, 3), (1, 2, 3, 4, 5))]
)
def test_marked_epochs(arms, marks):
    assert marked_epochs(arms) == marks


def test_explained_variance():
    assert explained_variance([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 1.0
    assert explained_variance([5.0, 5.0], [1.0, 3.0]) == 0.0  # a constant explains nothing, whatever it is
    assert explained_variance([3.0, 1.0], [1.0, 3.0]) == pytest.approx(1 - 4 / 1)
    assert explained_variance([3.0, 1.0], [2.0, 2.0]) is None


def test_advice_alone_never_chooses():
    policy, engine = monitored(gains_every=1)
    assert {(choice.epochs, choice.lr_scale) for choice in policy.run(engine, 12)} == {(3, 1.0)}
    assert not engine.controls
    assert engine.state_dict() == {}
    found = engine.advice()
    assert found.whole.direction == "short"  # every step is in the right direction, and small
    assert str(found).endswith("Multiply the learning rate by 4, or use `Hindsight(policy)`.")


def test_metrics_name_what_is_known():
    policy, engine = monitored(gains_every=2)
    assert engine.begin().epochs == 3
    assert engine.metrics() == {}
    policy.update(engine, 3)
    assert engine.metrics() == {"adept/epochs": 3.0, "adept/epochs_done": 3.0}
    engine.begin(rows=policy.rows(1))
    assert set(engine.metrics()) == {"adept/slope", "adept/slope_z", "adept/update_kl"}
    policy.update(engine, 3)
    engine.begin(policy.rows(2))
    numbers = engine.metrics()
    assert {"adept/update_gain", "adept/update_gain_error", "adept/gain/1", "adept/gain/2"} < set(numbers)
    assert {"adept/gain/x0.5", "adept/gain/x1.5", "adept/gain/x2"} < set(numbers)
    assert numbers["adept/gain/3"] == numbers["adept/update_gain"], "the last epoch is the update"
    assert all(map(math.isfinite, numbers.values()))


def test_an_update_that_ended_early_is_the_epoch_it_ended_with():
    policy, engine = monitored(gains_every=1, epochs=4)
    engine.begin()
    policy.update(engine, 2)
    engine.begin(policy.rows(0))
    assert engine.feedback.gain_by_epoch == {1: engine.feedback.gain_by_epoch[1], 2: engine.feedback.update_gain}
    policy.update(engine, 2)
    engine.finished(2.5)  # in the midst of an epoch: the second one is no longer the deployed policy
    engine._evaluator.mark(2)
    engine.begin(policy.rows(1))
    assert set(engine.feedback.gain_by_epoch) == {1, 2}


def test_a_bandit_sets_epochs_and_a_rule_lr_scales():
    policy, engine = monitored([5, 1])
    assert [engine.begin(reward=reward).epochs for reward in (None, 1.0)] == [5, 1]
    assert engine.settings.lr_scale == 1.0
    assert engine.metrics()["adept/arm_choices/5"] == 1.0
    assert engine.metrics()["adept/reward"] == 1.0
    policy, engine = monitored("hindsight")
    lr_scales = [choice.lr_scale for choice in policy.run(engine, 10)]
    assert lr_scales[:1] == [1.0]
    assert lr_scales[-1] > 1.5, "steps in the right direction get longer"
    assert engine.metrics()["adept/lr_scale"] == lr_scales[-1]
    assert engine.rule.kl_stop == 0.1


def test_measuring_gains_changes_no_setting():
    lr_scales = []
    for gains_every in (0, 1, 3):
        policy, engine = monitored({"name": "hindsight", "distance": 1e-3}, gains_every=gains_every)
        for seed in range(12):
            engine.begin(policy.rows(seed))
            policy.update(engine, engine.settings.epochs, step=0.02 * engine.settings.lr_scale)
        lr_scales.append(engine.settings.lr_scale)
    assert lr_scales[0] == lr_scales[1] == lr_scales[2] != 1.0


def test_what_several_learners_saw_is_pooled():
    scripted, pooled = Scripted([(1, 1.0)]), Feedback(slope=Estimate(3.0, 1.0), kl=0.5)
    asked = []
    policy, engine = monitored(scripted, pool=lambda feedback: asked.append(feedback) or pooled)
    engine.begin()
    policy.update(engine, 1)
    engine.begin(replace(policy.rows(0), explained_variance=0.5))
    assert asked[0] is None, "a learner that knows nothing is asked too"
    assert asked[1].slope.known
    assert (asked[1].explained_variance, asked[1].epochs_done) == (0.5, 1)
    assert scripted.feedback[1] == engine.feedback == pooled
    assert engine.metrics()["adept/slope_z"] == 3.0


def test_states_are_the_rules():
    policy, engine = monitored("hindsight")
    policy.run(engine, 5)
    twin = monitored("hindsight")[1]
    twin.load_state_dict(engine.state_dict(), forget="delete it")
    assert twin.begin().lr_scale == engine.settings.lr_scale, "the first update after a load is not judged"
    engine.load_state_dict(engine.state_dict(), forget="delete it")
    assert not engine.wants_rows, "nor is the step from one set of parameters to a loaded one an update"
    engine.load_state_dict({}, forget="delete it")  # of a run that was only judged
    with pytest.raises(ValueError, match="or delete it to start it afresh"):
        monitored("hindsight", epochs=4)[1].load_state_dict(engine.state_dict(), forget="delete it")


DATA = [[3, 1, 2], "round-robin", "kl-rate", {"name": "thompson", "arms": [3, 1, 2]}, "ucb"]


@pytest.mark.parametrize("given", DATA, ids=str)
def test_a_state_is_kept_for_the_first_meeting_with_the_host(given):
    """Tianshou tells its epochs with the first update, after a checkpoint was loaded."""
    engine = monitored(given, epochs=4)[1]
    for reward in (None, 1.0, 3.0, 2.0, 5.0):
        engine.begin(reward=reward)
    twin = Engine(given)
    assert twin.waits, "a rule given as data is built once the host's epochs are known"
    twin.attach(4, ModuleWeights(Policy()))
    assert not twin.waits
    twin.load_state_dict(engine.state_dict(), forget="delete it")
    assert twin.state_dict() == engine.state_dict()
    for given in (None, UCB([3, 1]), KLRate(3)):
        assert not Engine(given).waits


@pytest.mark.parametrize(
    "given", [[3, 1, 2], {"name": "ucb", "arms": [3, 1, 2]}, {"name": "kl-rate", "epochs": 3}], ids=str
)
def test_a_rule_that_does_not_depend_on_the_hosts_epochs_outlives_a_change_of_them(given):
    policy, engine = monitored(given, epochs=4)
    for reward in (None, 1.0, 3.0):
        engine.begin(reward=reward)
    state = engine.state_dict()
    early = Engine(given)
    early.load_state_dict(state, forget="delete it")  # by a host that does not ask whether it should wait
    for each in (engine, early):
        each.attach(5, ModuleWeights(policy))
        assert each.state_dict() == state
    assert monitored("ucb", epochs=4)[1].rule.scheduler.arms == (4, 2, 1)
    depends = monitored("ucb", epochs=4)[1]
    depends.attach(6, ModuleWeights(policy))
    assert depends.rule.scheduler.arms == (6, 3, 1)


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


def test_an_error_in_an_evaluation_ends_the_evaluation_and_not_the_training():
    policy, engine = monitored(gains_every=1)
    policy.run(engine, 2)
    before, generator = policy.logits.detach().clone(), torch.random.get_rng_state()
    with pytest.warns(RuntimeWarning, match="stopped evaluating.*training goes on.*Broken: no such method"):
        assert engine.begin(rows=fails(Broken("no such method"), policy)).epochs == 3
    assert torch.equal(policy.logits, before), "the parameters are back"
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert policy.training
    assert engine.feedback is None
    assert engine.metrics() == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(3):
            policy.update(engine, 3)
            engine.attach(3, ModuleWeights(policy))  # as hosts do that tell their epochs with every update
            assert not engine.wants_rows
            assert engine.rollout(lambda: 1 / 0) is None, "nobody looks at the rollout any more"
            engine.begin(rows=policy.rows(seed))
            assert engine.feedback is None
    assert str(engine.advice()) == (
        "Only 1 update was judged: too few to say anything. Evaluation stopped at update 2: Broken: no such method."
    )


def test_errors_of_every_part_of_evaluation_are_kept_from_the_host(monkeypatch):
    policy, engine = monitored()
    engine.begin()
    with pytest.warns(RuntimeWarning, match="MemoryError"):
        engine.begin(rows=fails(MemoryError(), policy))
    assert engine._evaluator.start is None, "the memory of the copies is given back"
    assert str(engine.advice()).endswith("Evaluation stopped at update 1: MemoryError.")
    policy, engine = monitored(gains_every=1)
    engine.begin()
    with pytest.warns(RuntimeWarning, match="division by zero"):
        assert engine.rollout(lambda: 1 / 0) is None
    policy, engine = monitored(gains_every=1)
    engine.begin()
    monkeypatch.setattr(ModuleWeights, "copy", lambda self: 1 / 0)
    with pytest.warns(RuntimeWarning, match="division by zero"):
        policy.update(engine, 3)
    with pytest.warns(RuntimeWarning, match="division by zero"):
        monitored()[1].begin()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_is_meant_for_the_host_reaches_it(error):
    policy, engine = monitored()
    engine.begin()
    with pytest.raises(error):
        engine.begin(rows=fails(error(), policy))
    assert engine.wants_rows


def test_with_a_rule_errors_raise():
    policy, engine = monitored("hindsight")
    engine.begin()
    with pytest.raises(Broken):
        engine.begin(rows=fails(Broken(), policy))
    with pytest.raises(ZeroDivisionError):
        engine.rollout(lambda: 1 / 0)


def test_a_bandit_goes_on_without_being_judged():
    policy, engine = monitored([3, 1])
    engine.begin(reward=None)
    with pytest.warns(RuntimeWarning, match="training goes on"):
        engine.begin(reward=1.0, rows=fails(Broken(), policy))
    assert engine.rule.state_dict() != monitored([3, 1])[1].rule.state_dict()
    assert not engine.wants_rows


def test_an_update_that_did_not_move_says_nothing():
    policy, engine = monitored({"name": "hindsight", "optimize_for": "compute"})
    engine.begin()
    before = engine.rule.state_dict()
    engine.finished(3)
    engine.begin(rows=policy.rows(0))  # nothing was trained in between
    assert engine.feedback is None
    assert "slope_z" not in engine._history[-1]
    assert engine.rule.state_dict() == before


def test_an_engine_can_be_pickled():
    assert pickle.loads(pickle.dumps(Engine("hindsight"))).rule.epochs == 1


def test_the_rollout_is_looked_at_where_it_is_judged_or_guarded():
    policy, engine = monitored()
    assert engine.rollout(lambda: policy.rows(0)) is None, "there is no update before the first"
    engine.begin()
    assert engine.rollout(lambda: policy.rows(0)) is not None
    guarded = monitored("hindsight")[1]
    assert guarded.rollout(lambda: policy.rows(0)) is not None, "its guard compares with it"


@pytest.mark.parametrize("given", ["usb", 7, UCB(["a", "b"])])
def test_what_cannot_choose_is_refused_at_once(given):
    with pytest.raises(ValueError, match=r"unknown scheduler or rule|a rule is a Rule|a number of epochs"):
        Engine(given)


@pytest.mark.parametrize("options", [{"rows": 0}, {"gains_every": -1}, {"rows": 1.5}])
def test_options_are_checked(options):
    with pytest.raises(ValueError, match="must be a whole number"):
        Engine(**options)


def test_advice_speaks_of_the_host():
    engine = Engine(host="skrl")
    for _ in range(4):
        engine.begin(learning_rate=3e-4, score=1.0)
    for row in engine._history:
        row["update_kl"] = 4e-4  # known of three updates
    assert str(engine.advice()) == (
        "Updates move the policy by a KL of 0.0004; 0.005 to 0.03 is usual. Multiply the learning rate by 4 "
        '(`learning_rate=0.0012`), or use `attach(agent, "hindsight")`.'
    )
