"""What a network makes of Gymnasium's spaces."""

from __future__ import annotations

from typing import Any

import numpy as np

from adept.envs.base import ActionSpace, Continuous, Discrete


def action_space(name: str, space: Any) -> tuple[ActionSpace, int]:
    """Return the action space, and the number of its first action."""
    from gymnasium import spaces  # here, so that the table of backends loads no framework

    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n)), int(space.start)
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
        if not space.shape[0]:
            raise ValueError(f"{name} has actions of {space}, which hold no number; there is nothing to choose")
        return Continuous(tuple(map(float, space.low)), tuple(map(float, space.high))), 0
    raise ValueError(f"{name} has actions of {space}; only one discrete choice or a vector of numbers fits")


def channels_last(shape: tuple[int, ...]) -> bool:
    """Say whether an image of this shape is height × width × channels."""
    return shape[-1] in (1, 3, 4) and shape[0] not in (1, 3, 4)
