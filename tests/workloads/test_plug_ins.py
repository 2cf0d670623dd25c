"""Data and models from outside the package, by the name of their class."""

from typing import Any

import pytest
import torch

from helpers.plug_in import TASKS, Line, Waves
from torchsims.models import HPS, MODELS, SingleTask
from torchsims.workloads import WORKLOADS, Workload, load_workload, restore_workload, workload_class

WAVES, LINE = "helpers.plug_in:Waves", "helpers.plug_in:Line"


def make(text: str = WAVES, tasks: tuple[str, ...] = (), **more: Any) -> Workload:
    return load_workload(text, tasks, **more)


def test_data_is_named_by_its_class_with_options() -> None:
    workload = make(f"{WAVES}:items=8", ("mg/dL",))
    assert isinstance(workload, Waves)
    assert (workload.tasks, workload.items("train"), workload.outputs) == (("mg/dL",), 8, {"mg/dL": 1})
    assert workload_class(WAVES) is Waves
    assert isinstance(restore_workload(WAVES, TASKS, "", workload.prediction_state()), Waves)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("", Line), (f"{LINE}:bias=no", Line), ("stl", SingleTask), (f"stl:of={LINE}:bias=no", SingleTask)],
)
def test_a_model_is_named_by_its_class_with_options(text: str, kind: type) -> None:
    workload = make()
    batch = workload.split("train").batch(range(5))  # type: ignore[attr-defined]
    model = workload.build_model(text)
    assert isinstance(model, kind)
    assert any("bias" in name for name in model.state_dict()) == ("bias=no" not in text)
    losses = workload.losses(workload.predict(model, batch), batch)
    assert set(losses.mean()) == set(TASKS)
    canonical = workload.check_model(text)
    assert workload.check_model(canonical) == canonical


def test_other_models_take_what_the_built_in_data_gives() -> None:
    scenes = load_workload("scenes", ("depth",))
    assert isinstance(scenes.build_model("torchsims.models:HPS:width=8"), HPS)
    assert scenes.single_task("torchsims.models:HPS:width=8") == "stl:of=torchsims.models:HPS:width=8"
    assert scenes.single_task("") == "stl:of=hps"
    assert load_workload("aliccp:rows=40").single_task("esmm:bottom=8") == "stl:of=sharedbottom:bottom=8"


@pytest.mark.parametrize(
    ("data", "model", "sentence"),
    [
        (WAVES, f"{LINE}:scale=-1", "Parameter `scale` should be positive. Found `scale = -1.0`."),
        (WAVES, f"stl:of={LINE}:scale=-1", "Parameter `scale` should be positive. Found `scale = -1.0`."),
        (
            WAVES,
            f"{LINE}:scales=1",
            "There is no option of model `helpers.plug_in:Line` `scales`. Did you mean `scale`?",
        ),
        (WAVES, "helpers.plug_in:Lime", "`helpers.plug_in:Lime` should name a class. Found no `Lime`"),
        (WAVES, "helpers.plug_out:Line", "should name a class of a module that can be imported"),
        (WAVES, "helpers.plug_in:TASKS", "Model `helpers.plug_in:TASKS` should be a subclass of torch.nn.Module"),
        (WAVES, "torchsims.models:HPS", "should take the arguments outputs, inputs. Found: "),
        (WAVES, "hps", "There is no model `hps`. The names are helpers.plug_in:Line, stl."),
        ("scenes", "mlp", "There is no model `mlp`."),
        ("scenes", "stl:of=mlp", "There is no model `mlp`."),
        ("scenes", "hps:width=12", "Parameter `width` should be a multiple of 8. Found `width = 12`."),
    ],
)
def test_a_bad_model_is_one_sentence(data: str, model: str, sentence: str) -> None:
    workload = make(data)
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the sentence is compared below
        workload.check_model(model)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "more", "sentence"),
    [
        (
            "helpers.plug_in:Line",
            {},
            "Data `helpers.plug_in:Line` should be a subclass of torchsims.workloads.Workload",
        ),
        (f"{WAVES}:item=3", {}, "There is no option of data `helpers.plug_in:Waves` `item`. Did you mean `items`?"),
        (WAVES, {"root": "a/b"}, "Waves has no setting `root`. Found `root = a/b`."),
        (WAVES, {"types": ("class", "auto")}, "Waves has no setting `types`. Found `types = class,auto`."),
        ("waves", {}, "There is no data `waves`."),
    ],
)
def test_bad_data_is_one_sentence(text: str, more: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011  # the sentence is compared below
        make(text, **more)
    assert sentence in str(error.value)


def test_checking_a_model_builds_nothing_and_draws_nothing() -> None:
    workload = load_workload("scenes", ("depth",))
    torch.manual_seed(0)
    state = torch.get_rng_state()
    assert workload.check_model("hps:width=8000000") == "hps:width=8000000"  # more memory than there is
    assert workload.check_model("sam2:encoder=large") == "sam2:encoder=large"
    assert torch.equal(torch.get_rng_state(), state)
    assert make().check_model("helpers.plug_in:Measuring") == "helpers.plug_in:Measuring"


@pytest.mark.parametrize("name", WORKLOADS.names())
def test_every_built_in_workload_and_architecture_can_be_loaded(name: str) -> None:
    kind = WORKLOADS.load(name)
    assert issubclass(kind, Workload)
    assert "default" in kind.presets
    assert set(kind.architectures) <= set(MODELS.names())
    assert all(issubclass(MODELS.load(model), torch.nn.Module) for model in kind.architectures)
