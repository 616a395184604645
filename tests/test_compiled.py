"""The compiled implementation's own code, with one compiled operation; and devices without a device."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from attest.adapters.placement import is_torch, on_fake_cuda, without_numbers  # noqa: E402
from attest.adapters.samples import sample  # noqa: E402
from attest.adapters.waiting import reads_of_numbers  # noqa: E402
from attest.boundary import JudgedImplementation  # noqa: E402
from attest.contract import Config  # noqa: E402
from attest.judging.property import load_properties  # noqa: E402
from attest.milestones.compiled.cases.compiled import MODEL, inputs_of  # noqa: E402
from attest.records.record import FAIL, NOT_OFFERED, NOT_RUN, PASS  # noqa: E402
from attest.reference.oracle import expected, random_parameters  # noqa: E402
from attest.running.judging import Settings, judge  # noqa: E402
from attest.spec import load_spec  # noqa: E402
from attest_impls.compiled import Compiled  # noqa: E402
from attest_impls.compiled.embedding import STEADY, looked_up  # noqa: E402
from attest_impls.compiled.fused import fuse  # noqa: E402
from attest_impls.eager import Eager  # noqa: E402
from attest_impls.eager.language_model import LanguageModel, SelfAttentionAlone  # noqa: E402
from attest_impls.eager.model import Transformer  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own, inside inductor
NORM = Config(d_model=8, num_heads=1)
SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 8, "target_vocab": 9, "source_vocab": 9, "max_len": 32}


def judged(implementation, criterion: str):
    properties = load_properties()[criterion]
    return judge(
        load_spec().by_id[criterion],
        properties,
        JudgedImplementation(implementation),
        Settings(profile="quick"),
    )


@pytest.fixture(scope="module")
def norm():
    """The one operation that is compiled here."""
    return Compiled().layer_norm(NORM)


class TestOneCompiledOperation:
    """These share a component, and a graph."""

    @pytest.mark.parametrize("length", [4, 3, 9, 2])
    def test_equals_the_reference_at_any_length(self, norm, length: int) -> None:
        parameters = random_parameters("layer_norm", NORM, np.random.default_rng(0))
        norm.load(parameters)
        inputs = inputs_of("layer_norm", NORM, length)
        wanted = expected("layer_norm", NORM, parameters, inputs)["output"]
        assert np.all(np.abs(norm(**inputs)["output"] - wanted.value) <= wanted.bound)

    def test_counts_one_compilation_and_every_call(self, norm) -> None:
        norm(**inputs_of("layer_norm", NORM, 4))
        before = norm.compile_report()
        norm(**inputs_of("layer_norm", NORM, 5))
        after = norm.compile_report()
        assert after["graphs"] == 1
        assert after["graph_breaks"] == 0
        assert after["compilations"] == before["compilations"] <= 1
        assert after["compiled_calls"] == before["compiled_calls"] + 1

    def test_a_second_component_compiles_nothing(self, norm) -> None:
        norm(**inputs_of("layer_norm", NORM, 4))
        other = Compiled().layer_norm(NORM.but(seed=5))
        other(**inputs_of("layer_norm", NORM, 4))
        assert other.compile_report()["compilations"] == 0
        assert other.compile_report()["compiled_calls"] == 1

    def test_a_kept_output_stays(self, norm) -> None:
        kept = norm(**inputs_of("layer_norm", NORM, 4))["output"]
        before = kept.copy()
        norm(**inputs_of("layer_norm", NORM, 4, seed=1))
        np.testing.assert_array_equal(kept, before)

    def test_refuses_outside_the_graph(self, norm) -> None:
        with pytest.raises(ValueError, match=r"x shape=\(2, 4, 7\) is not \(B, T, 8\)"):
            norm(x=np.zeros((2, 4, 7), np.float32))


def test_fused_attention_has_the_numbers_of_eager() -> None:
    config = MODEL.but(dtype="float64", dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        plain, fused = (Transformer(config).double().eval() for _ in range(2))
    fused.load_state_dict(plain.state_dict())
    ids = torch.tensor([[3, 4, 5, 0], [6, 0, 0, 0]])
    with torch.no_grad():
        torch.testing.assert_close(fuse(fused)(ids, ids), plain(ids, ids))


def test_a_table_gets_the_gradient_of_eager_and_has_no_atomic_sum() -> None:
    """The graph calls an operator of its own, which sorts the ids; inductor never sees the sum."""
    graphs = []

    def backend(graph, inputs):
        from functorch.compile import make_boxed_func
        from torch._functorch.aot_autograd import aot_module_simplified

        def kept(traced, given):
            graphs.append(traced)
            return make_boxed_func(traced.forward)

        return aot_module_simplified(graph, inputs, fw_compiler=kept, bw_compiler=kept)

    ids = torch.tensor([[3, 4, 3, 0], [3, 3, 5, 4]])
    table = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    run = torch.compile(lambda t: looked_up(t, ids, 0).sin().sum(), backend=backend, fullgraph=True)
    (seen,) = torch.autograd.grad(run(table), table)
    (wanted,) = torch.autograd.grad(torch.nn.functional.embedding(ids, table, 0).sin().sum(), table)
    torch.testing.assert_close(seen, wanted)
    called = {str(node.target) for node in graphs[-1].graph.nodes if node.op == "call_function"}
    assert "attest.rows_summed.default" in called
    assert not any("index_put" in name or "embedding" in name or "scatter" in name for name in called)


def test_no_table_of_a_model_is_left_with_the_gradient_of_torch() -> None:
    new = MODEL.but(positions="relative", num_kv_heads=1)
    texts = (LanguageModel(new), LanguageModel(new.but(positions="learned")), SelfAttentionAlone(new))
    for model in (Transformer(MODEL), *texts):
        kinds = {type(part) for part in fuse(model).modules()}
        assert kinds.isdisjoint({*STEADY, torch.nn.Embedding})


def test_ids_out_of_range_are_refused_before_anything_is_compiled() -> None:
    model = Compiled().transformer(MODEL)
    inputs = inputs_of("transformer", MODEL, 4)
    with pytest.raises(ValueError, match="target id=11 is outside the vocabulary of 11"):
        model(source=inputs["source"], target=inputs["target"] * 0 + 11)
    assert model.compile_report()["compilations"] == 0


@pytest.mark.slow
def test_training_with_smoothing_and_evaluation_without_it_are_traced_once() -> None:
    trainer = Compiled().trainer(MODEL.but(dropout=0.0, label_smoothing=0.1, dtype="float64"))
    batch = {name: np.array([[1, 4, 5, 6, 2], [1, 7, 8, 9, 2]]) for name in ("source", "target")}
    losses = [trainer.step(batch)["loss"], trainer.evaluate([batch])["loss"]]
    assert np.all(np.isfinite(losses))
    report = trainer.compile_report()
    assert report["compilations"] <= 1  # none where another test has made this graph
    assert report["compiled_calls"] == 2


@pytest.mark.parametrize("implementation", [Eager(), Compiled()], ids=lambda i: i.name)
def test_everything_is_made_on_the_device_of_the_input(implementation) -> None:
    inputs = inputs_of("transformer", MODEL, 4)
    with on_fake_cuda(implementation.transformer(MODEL)) as (model,):
        assert {str(p.device) for p in model.module.parameters()} == {"cuda:0"}
        assert model(**inputs)["logits"].shape == (2, 4, 11)
        _, state = model.step(model.start(inputs["source"]), inputs["target"])
        logits, _ = model.step(model.reorder(state, np.array([1, 0, 1])), np.full((3, 1), 4))
        assert logits.shape == (3, 1, 11)
    with without_numbers():
        model = implementation.transformer(MODEL.but(device="meta"))
        found = model.gradients(inputs, {"logits": np.zeros((2, 4, 11), np.float32)})
    assert found.parameters["projection.weight"].shape == (11, 32)


@pytest.mark.parametrize("options", [{}, {"positions": "rotary", "num_kv_heads": 1, "window": 3}], ids=str)
def test_a_language_model_writes_on_the_device_of_its_prompt(options) -> None:
    """Caches, flags and what is written: a tensor that is made on the CPU would meet one on the GPU."""
    writer = Compiled().complete(MODEL.but(**options))
    with on_fake_cuda(writer) as (moved,):
        for method in ("greedy", "beam"):
            moved(prompt=np.array([[3, 4, 5], [4, 5, 6]]), max_len=10, method=method)


@pytest.mark.parametrize("kind", ["mask", "table"])
def test_a_tensor_on_the_wrong_device_is_caught(kind: str) -> None:
    inputs = inputs_of("transformer", MODEL, 4)
    with on_fake_cuda(sample("right", MODEL), sample(kind, MODEL)) as (right, wrong):
        assert right(**inputs)["logits"].shape == (2, 4, 11)
        with pytest.raises(RuntimeError, match="cuda:0"):
            wrong(**inputs)


def test_the_original_keeps_its_device() -> None:
    model = Eager().transformer(MODEL)
    with on_fake_cuda(model):
        pass
    assert {str(p.device) for p in model.module.parameters()} == {"cpu"}
    assert model.config.device == "cpu"
    assert is_torch(model)
    assert not is_torch(object())


def test_a_gpu_that_is_not_there_is_not_run() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    record = judged(Compiled(), "MC.7a")
    assert (record.verdict, record.reason) == (NOT_RUN, "no CUDA device is present")


def test_placement_is_judged_without_compiling() -> None:
    assert judged(Compiled(), "MC.7").verdict == PASS
    assert judged(Eager(), "MC.7").verdict == NOT_OFFERED


class SaysFloat32(Eager):
    """Computes in bfloat16 and says float32."""

    name = "says_float32"
    dtypes = ("float32",)

    def attention(self, config: Config):
        return super().attention(config.but(dtype="bfloat16"))

    def multi_head_attention(self, config: Config):
        return super().multi_head_attention(config.but(dtype="bfloat16"))

    def feed_forward(self, config: Config):
        return super().feed_forward(config.but(dtype="bfloat16"))

    def layer_norm(self, config: Config):
        return super().layer_norm(config.but(dtype="bfloat16"))


@pytest.mark.parametrize("criterion", ["M1.2", "M2.2", "M3.1", "M4.9"])
def test_bfloat16_under_the_name_of_float32_is_refused(criterion: str) -> None:
    assert judged(SaysFloat32(), criterion).verdict == FAIL


@pytest.mark.parametrize("criterion", ["M1.2", "M2.2", "M3.1", "M4.9"])
def test_bfloat16_under_its_own_name_conforms(criterion: str) -> None:
    class Honest(SaysFloat32):
        dtypes = ("bfloat16",)

    record = judged(Honest(), criterion)
    assert record.verdict == PASS, record.reason


def test_what_is_not_compiled_is_not_offered():
    for name in ("chunked_attention", "masked_language_model", "classifier", "linear"):
        assert not callable(getattr(Compiled, name))
    with pytest.raises(NotImplementedError, match="positions='rotary' is not offered"):
        Compiled().transformer(MODEL.but(positions="rotary"))


@pytest.mark.parametrize("method", ["greedy", "beam", "sample"])
def test_a_row_that_has_ended_is_not_waited_for(method: str) -> None:
    """eager looks after each token, compiled after eight: the tokens are the same."""
    config = Config(**{**SMALL, "max_len": 40})
    plain, compiled = Eager().complete(config), Compiled().complete(config)
    held = plain.parameters()
    for ends in (-1e4, 0.0, 3.0):
        held["projection.bias"][config.eos_id] = ends
        plain.load(held)
        compiled.load(held)
        asked = {"prompt": np.array([[3, 4, 5], [0, 6, 7]]), "max_len": 21, "method": method}
        with torch.compiler.set_stance("force_eager"):
            seen, wanted = compiled(**asked), plain(**asked)
        np.testing.assert_array_equal(seen["tokens"], wanted["tokens"])
        np.testing.assert_allclose(seen["scores"], wanted["scores"], atol=1e-5)


@pytest.mark.parametrize(
    ("implementation", "most"), [(Eager(), 3.0), (Compiled(), 0.25)], ids=["eager", "compiled"]
)
def test_how_often_writing_waits_for_the_device(implementation, most: float) -> None:
    writer = implementation.generate(Config(**SMALL))
    source = np.array([[3, 4, 5], [4, 6, 7]])
    held = writer.parameters()
    held["projection.bias"][2] = -1e4
    writer.load(held)
    for method in ("greedy", "beam", "sample"):
        few, many = (
            reads_of_numbers(lambda n=n, m=method: writer(source=source, max_len=n, method=m))
            for n in (8, 24)
        )
        each = (many - few) / 16
        assert (0 < each <= most) if most < 1 else (1 <= each <= most), (method, each)
