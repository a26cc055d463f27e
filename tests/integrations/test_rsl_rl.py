import pytest

pytest.importorskip("rsl_rl", reason="needs the environment of rsl_rl: make test-integrations")

from hosts.rsl_rl import MINIBATCHES, RATE, STEPS, RslRl, build
from recording import SHORTENING, Recorder, Scripted

from adept.integrations.rsl_rl import STATE, attach

pytestmark = pytest.mark.integration

FALLING = {"desired_kl": 1e-9}
"""rsl_rl's rule divides the rate by 1.5 in every minibatch whose KL is above twice its target."""


def test_a_rule_takes_the_place_of_the_kl_rule_and_a_bandit_leaves_it(tmp_path):
    run = RslRl(tmp_path, "mlp", Recorder([3, 1, 2]), settings=FALLING)
    run.run(2)
    assert run.rates[0][-1] < RATE / 1.5**3
    choices = [(2, 1.0), (1, 3.0), (3, 0.5)]
    run = RslRl(tmp_path, "mlp", Scripted(choices), settings=FALLING)
    run.run(4)
    expected = [pytest.approx([RATE * scale] * epochs * MINIBATCHES) for epochs, scale in (*choices, choices[0])]
    assert run.rates == expected
    assert run.optimizer.param_groups[0]["lr"] == run.runner.alg.learning_rate == RATE


def test_whole_environments_of_a_recurrent_policy_are_left_out(tmp_path):
    run = RslRl(tmp_path, "recurrent", None, rows=2 * STEPS)
    run.run(2)
    assert run.evaluated[-1] == 2 * STEPS
    assert run.feedback[-1].slope.known


def test_a_load_may_leave_the_state_out(tmp_path):
    run = RslRl(tmp_path, "mlp", SHORTENING)
    run.run(3)
    run.save(tmp_path / "model.pt")
    afresh = attach(build(), SHORTENING, verbose=0)
    afresh.load(str(tmp_path / "model.pt"), load_cfg={"actor": True, "critic": True})
    assert afresh.adept.engine.settings.lr_scale == 1.0
    other = attach(build(), Recorder([3, 1]), verbose=0)
    with pytest.raises(ValueError, match=rf"cannot load this state .*load_cfg={{\.\.\., '{STATE}': False}}"):
        other.load(str(tmp_path / "model.pt"))
    build().load(str(tmp_path / "model.pt"))  # a runner without ADEPT takes the checkpoint, too
    run.runner.load(str(tmp_path / "model.pt"), load_cfg={"actor": True, "critic": True})
    run.run(1)
    assert run.feedback[-1] is None, "what is loaded is no update"


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"OnPolicyRunner of rsl_rl.runners with PPO is needed: build one"):
        attach(object())
    runner = build()
    runner.alg.is_multi_gpu = True
    with pytest.raises(ValueError, match=r"several processes.*attach without a scheduler for advice"):
        attach(runner, "ucb")
