"""Other people's TensorBoard logs, against TensorBoard's own reader."""

from __future__ import annotations

import math

import numpy as np
import pytest
from synthetic import METHODS, write_study

from adept.report.analysis import analyze
from adept.report.importing import import_logs, read_returns, read_scalars
from adept.report.loading import load_comparison

tensorboard = pytest.importorskip("tensorboard")


def write_events(folder, points, tag="charts/episodic_return", *, tensor=False):
    """Write scalars as torch's writer does, or as TensorFlow 2 does: a tensor with a plug-in's name."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder.mkdir(parents=True, exist_ok=True)
    writer = EventFileWriter(str(folder))
    for index, (step, value) in enumerate(points):
        if tensor:
            entry = Summary.Value(tag=tag, tensor=TensorProto(dtype=1, float_val=[value]))
        else:
            entry = Summary.Value(tag=tag, simple_value=value)
        other = Summary.Value(tag="losses/value_loss", simple_value=1.0)
        writer.add_event(Event(wall_time=1000.0 + index, step=step, summary=Summary(value=[other, entry])))
    writer.close()
    return folder


def test_every_scalar_is_read_as_tensorboard_reads_it(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    random = np.random.default_rng(0)
    points = [(int(step), float(np.float32(value))) for step, value in
              zip(np.cumsum(random.integers(1, 10**7, 300)), random.normal(0, 100, 300), strict=True)]  # fmt: skip
    folder = write_events(tmp_path / "run", points)
    oracle = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    oracle.Reload()
    expected = [(event.step, event.value) for event in oracle.Scalars("charts/episodic_return")]
    (file,) = folder.iterdir()
    found = [(step, value) for tag, step, value in read_scalars(file) if tag == "charts/episodic_return"]
    assert found == expected
    assert len(found) == 300


MEANS = "rollout/ep_rew_mean"


@pytest.mark.parametrize(
    ("tag", "tensor", "points", "steps", "score"),
    [
        (MEANS, True, [(1, 0.5), (2, -3.0)], [1, 2], [0.5, -3.0]),  # a tensor of one number is a scalar
        (MEANS, False, [(1, 7.0), (2, 9.0)], [1, 2], [7.0, 9.0]),  # means are taken as they are
        # Episodes that end together are one point, of the mean of the last hundred.
        ("charts/episodic_return", False, [(8, 1.0), (8, 3.0), (16, 5.0)], [8, 16], [2.0, 3.0]),
    ],
)
def test_returns_by_hand(tmp_path, tag, tensor, points, steps, score):
    found = read_returns(write_events(tmp_path / "run", points, tag, tensor=tensor))
    assert (found[0].tolist(), found[1].tolist()) == (steps, score)


def test_a_file_cut_short_gives_what_is_whole(tmp_path):
    folder = write_events(tmp_path / "run", [(1, 1.0), (2, 2.0)])
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-10])
    assert read_returns(folder)[0].tolist() == [1.0]


def test_episodes_become_means_of_the_last_hundred(tmp_path):
    folder = write_events(tmp_path / "run", [(step, float(step)) for step in range(1, 151)])
    steps, score, *_ = read_returns(folder)
    assert score[0] == 1.0
    assert score[9] == 5.5
    assert score[-1] == np.mean(range(51, 151))
    assert steps[-1] == 150.0


def test_epochs_of_our_integrations_give_compute_and_mean_k(tmp_path):
    # Two methods on one task: 10 epochs at each of 4 updates, and 10, 5, 5 and 4.
    for method, epochs in (("preset", [10, 10, 10, 10]), ("ours", [10, 5, 5, 4])):
        for seed in (1, 2):
            folder = tmp_path / method / "Hopper" / f"PPO_{seed}"
            write_events(folder, [(100 * i, float(i + seed)) for i in range(1, 5)], MEANS)
            write_events(folder, [(100 * i, k) for i, k in enumerate(epochs, 1)], "adept/epochs_done")
    steps, _, total, epochs = read_returns(tmp_path / "ours" / "Hopper" / "PPO_1")
    assert (steps.tolist(), total.tolist(), epochs.tolist()) == ([100, 200, 300, 400], [10, 15, 20, 24], [10, 5, 5, 4])
    found = analyze(load_comparison([tmp_path], baseline="preset"), resamples=100)
    assert found.methods["ours"].update_compute == pytest.approx(0.6)
    assert found.methods["ours"].epochs == pytest.approx(6.0)
    assert math.isnan(found.methods["ours"].compute)


def test_logs_without_our_epochs_tell_no_compute(tmp_path):
    """Stable-Baselines3 keeps its own count, `train/n_updates`, out of TensorBoard."""
    _, _, total, epochs = read_returns(write_events(tmp_path / "run", [(100, 1.0), (200, 2.0)], MEANS))
    assert np.isnan(total).tolist() == [True, True]
    assert len(epochs) == 0


def test_cleanrl_names_tell_task_method_and_seed(tmp_path):
    write_events(tmp_path / "CartPole-v1__ppo__2__1700000000", [(1, 1.0)])
    write_events(tmp_path / "BreakoutNoFrameskip-v4__ppo_atari__1__1700000001", [(1, 1.0)])
    found = [(run.method, run.task, run.seed) for run in import_logs(tmp_path)]
    assert found == [("ppo_atari", "BreakoutNoFrameskip-v4", 1), ("ppo", "CartPole-v1", 2)]


def test_folders_tell_method_task_and_seed(tmp_path):
    write_events(tmp_path / "sb3" / "CartPole-v1" / "PPO_1", [(1, 1.0)], MEANS)
    write_events(tmp_path / "sb3" / "CartPole-v1" / "PPO_2", [(1, 1.0)], MEANS)
    write_events(tmp_path / "sb3" / "CartPole-v1" / "again" / "PPO_2", [(1, 1.0)], "time/fps")
    found = [(run.method, run.task, run.seed) for run in import_logs(tmp_path)]
    assert found == [("sb3", "CartPole-v1", 1), ("sb3", "CartPole-v1", 2)]


@pytest.mark.parametrize(
    ("place", "tag", "message"),
    [
        ("PPO_1", MEANS, "METHOD/TASK/RUN"),  # a layout that tells nothing
        ("m/t/1", "time/fps", r"charts/episodic_return or rollout/ep_rew_mean"),
    ],
)
def test_logs_that_cannot_be_read_are_refused(tmp_path, place, tag, message):
    write_events(tmp_path / place, [(1, 1.0)], tag)
    with pytest.raises(ValueError, match=message):
        import_logs(tmp_path)


def test_logs_stand_beside_a_study_at_the_steps_that_both_have(tmp_path):
    task = "minigrid/DoorKey-6x6"
    write_study(tmp_path / "study", METHODS[:2], [task], [1, 2], iterations=10)
    for seed in (1, 2):
        points = [(1024 * index, 0.1 * index) for index in range(1, 11)]
        write_events(tmp_path / "logs" / "theirs" / "DoorKey-6x6" / f"PPO_{seed}", points, MEANS)
    comparison = load_comparison([tmp_path / "study", tmp_path / "logs"])
    assert comparison.tasks == (task,)
    assert comparison.budget[task] == 10240.0
    theirs = comparison.finished("theirs", task)
    assert len(theirs) == 2
    assert comparison.measure(theirs[0], "final-score") == pytest.approx(1.0)
    assert math.isnan(comparison.total(theirs[0], "flops"))
    assert any("not verified" in note for note in comparison.notes)


@pytest.mark.slow
def test_what_stable_baselines_writes_is_read(tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    logs = str(tmp_path / "ppo" / "CartPole-v1")
    model = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=128, batch_size=64, n_epochs=1, tensorboard_log=logs,
                    device="cpu")  # fmt: skip
    model.learn(1024)
    (run,) = import_logs(tmp_path)
    assert (run.method, run.task, run.seed) == ("ppo", "CartPole-v1", 1)
    assert run.steps[-1] == 1024
    assert run.score[-1] == pytest.approx(np.mean([episode["r"] for episode in model.ep_info_buffer]), rel=1e-6)
