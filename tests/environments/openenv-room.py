"""
The environment of tests/support/openEnvServer.ts (`echoWorld`), on a real OpenEnv server: its own `create_fastapi_app`
over uvicorn. scripts/checkOpenEnv.ts talks to it.

    pip install openenv
    python tests/environments/openenv-room.py 8765
"""

import math
import sys
from typing import Any, Optional

import uvicorn
from openenv.core.env_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Say(Action):
    message: str


class Prompt(Observation):
    prompt: str
    hint: str = ""


class Heard(Observation):
    echoed: str
    length: int


class Room(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **_: Any) -> Observation:
        self._state = State(episode_id=episode_id or f"episode-{seed or 0}", step_count=0)
        return Prompt(prompt="abcdef"[(seed or 0) % 6], reward=None, done=False)

    def step(self, action: Say, timeout_s: Optional[float] = None, **_: Any) -> Observation:
        if action.message == "crash":
            raise ValueError("the environment divided by zero")
        self._state.step_count += 1
        done = self._state.step_count >= 2
        length = len(action.message)
        reward = math.nan if action.message == "nan" else length
        return Heard(echoed=action.message, length=length, reward=reward if done else None, done=done)

    @property
    def state(self) -> State:
        return self._state


app = create_fastapi_app(Room, Say, Observation, max_concurrent_envs=2)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
