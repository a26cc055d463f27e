"""What is special to the PPO of sbx."""

import pytest

pytest.importorskip("sbx", reason="needs the environment of sbx: make test-integrations")

from hosts.sb3 import ROLLOUT
from hosts.sbx import Sbx, build
from recording import Recorder, Scripted

from adept.integrations.sb3 import AdeptCallback

pytestmark = pytest.mark.integration


def test_a_learning_rate_that_adapts_in_each_minibatch_is_refused_but_for_advice():
    with pytest.raises(ValueError, match=r"target_kl, which adapts the learning rate.*target_kl=None: build"):
        build(target_kl=0.01).learn(ROLLOUT, AdeptCallback(Recorder([3, 1, 2])))
    callback = AdeptCallback(verbose=0)
    build(target_kl=0.01).learn(3 * ROLLOUT, callback)
    assert callback.engine.feedback.slope.known


def test_the_models_own_schedule_is_put_back(tmp_path):
    run = Sbx(tmp_path, "ppo", Scripted([(1, 3.0)]), scheduled=True)
    own = run.model.lr_schedule
    run.run(1)
    assert run.model.lr_schedule is own


def test_learns_one_after_the_other_are_one_run(tmp_path):
    run = Sbx(tmp_path, "ppo", Scripted([(2, 1.0)]))
    for _ in range(3):
        run.run(1)
    assert [each is None for each in run.feedback] == [True, False, False]


def test_nothing_is_copied(tmp_path):
    run = Sbx(tmp_path, "ppo", None, gains_every=1)
    run.run(1)
    before = run.policy.actor_state.params
    run.run(1)
    assert run.engine._evaluator.start is before, "JAX arrays never change: the parameters themselves are kept"
