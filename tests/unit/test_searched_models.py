"""`.ci/run` searches the models in part: whoever changes one has searched all of it."""

import json

from tests.models.searched import NOTED, digests


def test_all_states_of_the_models_were_searched_since_they_changed():
    assert json.loads(NOTED.read_text("utf-8")) == digests(), "a model changed: search it, with make model"
